"""Upstreams that make films, songs, voices and scripts: what they are asked, and how they answer.

Sans I/O: a dialect makes requests and reads responses, somebody else sends them.

- `requests.py`: what a client asks for, whatever the upstream calls it.
- `replies.py`: what an upstream may answer: accepted, done, refused, a state, a result.
- `model.py`: an exchange (a request and how its response is read), and the protocol of a dialect.
"""

from __future__ import annotations

from channels.media.model import Exchange, MediaDialect, MediaRequest, MediaResponse, TaskKind
from channels.media.perform import perform

__all__ = ["Exchange", "MediaDialect", "MediaRequest", "MediaResponse", "TaskKind", "perform"]
