"""Cuts what comes out of a socket into lines, in whatever pieces they come."""

from __future__ import annotations


class LineBuffer:
    """Holds the beginning of a line until its end is here; `size` is how much that is."""

    def __init__(self) -> None:
        self._unfinished = bytearray()

    @property
    def size(self) -> int:
        """Bytes held."""
        return len(self._unfinished)

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that `data` ends, without their ends."""
        first, *others = data.split(b"\n")
        self._unfinished += first
        if not others:
            return []
        lines = [bytes(self._unfinished), *others[:-1]]
        self._unfinished = bytearray(others[-1])
        return lines
