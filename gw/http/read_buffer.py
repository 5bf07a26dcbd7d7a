"""Received bytes that are not parsed yet.

They are taken in parts that never cross the end of a request, so that the parser stops there and
the meaning of a request does not depend on its packets. A head and a chunked body end with an
empty line; the size of any other body is known.
"""

from __future__ import annotations

from channels.http.lines import end_of_lines

_LINE_ENDS = b"\r\n"
_EMPTY_LINE = b"\r\n\r\n"


class ReadBuffer:
    """A queue of bytes."""

    __slots__ = ("_tail", "at", "data", "left_bytes")

    def __init__(self) -> None:
        self.data = b""  # received, the bytes already taken included
        self.at = 0  # offset of the first byte that is not taken
        self._tail = b""  # the last bytes taken, in which an empty line may begin
        self.left_bytes = 0

    def add(self, data: bytes) -> None:
        """Append received bytes."""
        if self.left_bytes:
            data = self.data[self.at :] + data
        self.data = data
        self.at = 0
        self.left_bytes = len(data)

    def clear(self) -> None:
        """Drop all bytes."""
        self.data = b""
        self.at = self.left_bytes = 0

    def skip_line_ends(self) -> None:
        """Drop the empty lines that may stand before a request."""
        if self.data[self.at] in _LINE_ENDS:
            data = self.data[self.at :].lstrip(_LINE_ENDS)
            self.left_bytes = 0
            self.add(data)

    def take_bytes(self, size: int) -> bytes:
        """Take the next `size` bytes, or all if there are fewer."""
        if size >= self.left_bytes:
            part = self.data[self.at :] if self.at else self.data
            self.clear()
        else:
            at = self.at
            self.at = end = at + size
            part = self.data[at:end]
            self.left_bytes -= size
        return part

    def take_lines(self, size: int, lines: int) -> bytes:
        """Take at most `size` bytes and at most `lines` lines, up to the next empty line."""
        at, data = self.at, self.data
        if self._tail:
            found = (self._tail + data[at : at + 3]).find(_EMPTY_LINE)
            if found >= 0:
                size = min(size, found + 4 - len(self._tail))
        found = data.find(_EMPTY_LINE, at, at + size)
        if found >= 0:
            size = found + 4 - at
        if size > lines:
            size = end_of_lines(data, at, min(at + size, len(data)), lines) - at
        part = self.take_bytes(size)
        tail = part[-4:] if len(part) > 3 else self._tail + part
        self._tail = b"" if tail.endswith(_EMPTY_LINE) else tail[-3:]
        return part
