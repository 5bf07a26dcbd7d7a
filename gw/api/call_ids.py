"""Ids of calls: UUIDs of version 7 (RFC 9562), which sort by time and so keep the indexes tidy."""

from __future__ import annotations

import os
import time
from uuid import UUID, SafeUUID

# The last 80 bits: version and variant, and the random ones around them.
_VERSION_AND_VARIANT = 0x7 << 76 | 0x2 << 62
_RANDOM_BITS = (2**12 - 1) << 64 | (2**62 - 1)
_set, _UNKNOWN = object.__setattr__, SafeUUID.unknown
# Random numbers of one request to the system, which costs as much as all the rest of an id.
_DRAWN = 256
_drawn: list[int] = []
os.register_at_fork(after_in_child=_drawn.clear)  # else both processes would use the rest of it


def new_call_id() -> UUID:
    """Return a new call id; its text form is 32 lower-case hex digits."""
    if not _drawn:
        _drawn.extend(memoryview(os.urandom(16 * _DRAWN)).cast("Q"))
    return make_call_id(time.time_ns() // 1_000_000, _drawn.pop() << 64 | _drawn.pop())


def make_call_id(milliseconds: int, random_number: int) -> UUID:
    """Combine a time and at least 80 random bits to a UUID of version 7, variant 10."""
    # `UUID(int=…)` without its checks, which are three quarters of its cost.
    made = UUID.__new__(UUID)
    value = milliseconds << 80 | random_number & _RANDOM_BITS | _VERSION_AND_VARIANT
    _set(made, "int", value)
    _set(made, "is_safe", _UNKNOWN)
    return made
