"""How many lines of a head or a body are parsed in one turn of the event loop."""

from __future__ import annotations


def end_of_lines(data: bytes, start: int, end: int, lines: int) -> int:
    """Return the end of a part that begins at `start` and has at most `lines` line feeds.

    The part has at least `lines` bytes, if available; work is linear in its length.
    """
    at, size, found = start, lines, 0
    while at + size < end:
        found += data.count(b"\n", at, at + size)
        if found > lines:
            return at
        at += size
        size = at - start
    return end if found + data.count(b"\n", at, end) <= lines else at
