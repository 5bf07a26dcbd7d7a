"""What was read from a connection and not parsed yet, given out in parts.

No part goes beyond the end of a request, wherever the reads were cut: so the parser stops there,
what is behind waits as bytes, and what a request means does not depend on its packets. A head ends
with an empty line, and so does a body in chunks; of any other body the size is known. No I/O.
"""

from __future__ import annotations

_LINE_ENDS = b"\r\n"
_EMPTY_LINE = b"\r\n\r\n"


class Unread:
    """Bytes in their order."""

    __slots__ = ("_at", "_data", "_tail", "left_bytes")

    def __init__(self) -> None:
        self._data = b""
        self._at = 0  # so much of it is taken
        self._tail = b""  # of the line taken last, in which an empty line may begin
        self.left_bytes = 0

    def __repr__(self) -> str:
        return f"<Unread {self.left_bytes} bytes>"

    @property
    def kept_bytes(self) -> int:
        """What is kept in memory, of which a part may have been taken."""
        return len(self._data)

    def add(self, data: bytes) -> None:
        """Put behind the others what was read."""
        if self.left_bytes:
            data = self._data[self._at :] + data
        self._data = data
        self._at = 0
        self.left_bytes = len(data)

    def clear(self) -> None:
        """Forget all."""
        self._data = b""
        self._at = self.left_bytes = 0

    def skip_line_ends(self) -> None:
        """Drop the empty lines that may stand before a request."""
        if self._data[self._at] in _LINE_ENDS:
            data = self._data[self._at :].lstrip(_LINE_ENDS)
            self.left_bytes = 0
            self.add(data)

    def take(self, size: int) -> bytes:
        """The next `size` bytes, or as many as there are."""
        if size >= self.left_bytes:
            part = self._data[self._at :] if self._at else self._data
            self.clear()
        else:
            at = self._at
            self._at = end = at + size
            part = self._data[at:end]
            self.left_bytes -= size
        return part

    def take_lines(self, size: int) -> bytes:
        """The next `size` bytes as `take`, but nothing behind the next empty line."""
        if self._tail:
            joined = self._tail + self._data[self._at : self._at + 3]
            found = joined.find(_EMPTY_LINE)
            if found >= 0:
                size = min(size, found + 4 - len(self._tail))
        found = self._data.find(_EMPTY_LINE, self._at, self._at + size)
        if found >= 0:
            self._tail = b""
            return self.take(found + 4 - self._at)
        part = self.take(size)
        tail = self._tail + part
        self._tail = b"" if tail.endswith(_EMPTY_LINE) else tail[-3:]
        return part
