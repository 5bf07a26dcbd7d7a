"""The openings of requests that were sent to a channel minutes ago, which its cache may still have.

A client that names no conversation shows only by sending its tools and instructions once more that
marks of the cache pay for it (`channels/dialects/messages/cache_marks.py`). An opening is the
account's own, and of one channel and model, as the provider's cache is. Each process remembers what
it has sent itself.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

from msgspec import Raw

from actors.routing import Candidate
from channels.conversation import opening_of

# How long providers keep what is marked, from its last use.
SECONDS = 300.0
# Remembered openings, some 2 MiB. Beyond it the oldest is forgotten, which costs a call its marks.
OPENINGS_MAX = 8192

_Key = tuple[str, str, str, bytes]


class RecentOpenings:
    """When each opening was sent last, the oldest first. One per process."""

    def __init__(self) -> None:
        self._sent: OrderedDict[_Key, float] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of remembered openings."""
        return len(self._sent)

    def is_repeated(
        self, account_id: str, now: float, candidate: Candidate, raw: Mapping[str, Raw]
    ) -> bool:
        """Remember a request's opening; return whether it was sent minutes before.

        `now` in monotonic seconds, `raw` the members of the client's body.
        """
        opening = opening_of(raw)
        if opening is None:
            return False
        key = (account_id, candidate.channel_id, candidate.upstream_model, opening)
        before = self._sent.pop(key, None)
        self._sent[key] = now
        if len(self._sent) > OPENINGS_MAX:
            self._sent.popitem(last=False)
        return before is not None and now - before < SECONDS
