"""Upstreams that make films, songs, voices and scripts: their requests and responses.

Sans I/O: a dialect makes requests and reads responses; `perform.py` has them sent.

- `requests.py`: what a client asks for, whatever the upstream calls it.
- `replies.py`: what an upstream may reply: accepted, done, refused, a state, a result.
- `model.py`: an exchange (a request and how its response is read), and the protocol of a dialect;
  `perform.py`: how an exchange is made to its end.
- `plain/`, `shanjian/`, `ark.py`, `openai.py`, `suno.py`, `minimax.py`: the dialects, all of
  them by name in `dialects.py`. `values.py` reads single values of a response, `outcomes.py` maps
  statuses, status words and errors.
"""

from __future__ import annotations

from channels.media.dialects import DIALECTS
from channels.media.model import Exchange, MediaDialect, MediaRequest, MediaResponse, TaskKind
from channels.media.perform import perform

__all__ = [
    "DIALECTS",
    "Exchange",
    "MediaDialect",
    "MediaRequest",
    "MediaResponse",
    "TaskKind",
    "perform",
]
