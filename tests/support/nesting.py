"""How deep JSON may nest: each version of Python bounds the recursion of C by its own limit."""

from bisect import bisect_left
from functools import partial
from typing import Any

import msgspec

BOTTOMLESS = 1_000_000  # no version reads it


def depths() -> list[int]:
    """Depths around the limits of Python's frames, of writers, of readers (values or raw text)."""
    found = {*range(880, 1030), 2_000, 5_000, 50_000, BOTTOMLESS}
    for kind in (object, msgspec.Raw):
        limit = bisect_left(range(BOTTOMLESS), True, key=partial(_is_refused, kind))
        found.update(range(limit - 40, limit + 5, 4))
    return sorted(found)


def _is_refused(kind: Any, depth: int) -> bool:
    try:
        msgspec.json.decode('{"a":' * depth + "1" + "}" * depth, type=kind)
    except RecursionError:
        return True
    return False
