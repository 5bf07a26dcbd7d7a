"""Ids of calls: UUIDs of version 7 (RFC 9562), which sort by time and so keep the indexes tidy."""

from __future__ import annotations

import os
import time
from uuid import UUID


def new_call_id() -> UUID:
    """A fresh call id; shown as 32 lower-case hex digits."""
    return make_call_id(milliseconds=time.time_ns() // 1_000_000, random_bytes=os.urandom(10))


def make_call_id(*, milliseconds: int, random_bytes: bytes) -> UUID:
    """Put a time and ten random bytes together as version 7, variant 10."""
    assert len(random_bytes) == 10
    tail = int.from_bytes(random_bytes)
    value = (milliseconds & 0xFFFF_FFFF_FFFF) << 80 | tail
    value = value & ~(0xF << 76) | 0x7 << 76
    value = value & ~(0x3 << 62) | 0x2 << 62
    return UUID(int=value)
