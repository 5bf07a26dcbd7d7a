"""The last head of a connection, which the next request may repeat."""

from __future__ import annotations

import re

from gw.http.head import LENGTH_DIGITS_MAX, Head
from gw.http.read_buffer import ReadBuffer
from gw.http.tornado.headers import KEY_HEADERS, spelled

# A larger head is not remembered.
REMEMBERED_BYTES_MAX = 4 * 1024
# After so many heads in a row that repeat none, no more are remembered: a proxy in between writes
# an id of its own into each.
UNLIKE_MAX = 8

_LENGTH_LINE = re.compile(rb"\r\ncontent-length: *([0-9]+)\r\n", re.IGNORECASE)
# Another key is recognised if it has these characters only, none of which ends a word or a line.
_KEY = re.compile(rb"[A-Za-z0-9._~-]{1,128}")
_KEY_HEADER = rb"\r\n(" + "|".join((*KEY_HEADERS, "Authorization")).encode() + rb"):"
_KEY_NAMES = re.compile(_KEY_HEADER, re.IGNORECASE)
_KEY_LINE = re.compile(
    _KEY_HEADER + rb" *((?:(?<=authorization: )bearer +)?)(" + _KEY.pattern + rb")\r\n",
    re.IGNORECASE,
)


class LastHead:
    """The last head of a connection that announced a body.

    Libraries send the same head with every request, but for the digits of its Content-Length, and
    for the key where a program has several. What was found in it once is true of all of them.
    """

    __slots__ = ("_after", "_around_key", "_before", "_length", "_unlike", "head")

    def __init__(self) -> None:
        self.head: Head | None = None
        self._before = self._length = self._after = b""  # the digits, and what stands around them
        # What stands around the key in its piece of these two; its field, and the scheme there.
        self._around_key: tuple[bytes, bytes, str, str] | None = None
        self._unlike = 0  # heads since the last one that was repeated

    def take_again(self, buffer: ReadBuffer) -> int:
        """Take a whole head from the buffer if it is the last one again; else return 0.

        Returns the size of the body that it announces.
        """
        data, at, before = buffer.data, buffer.at, self._before
        if self.head is None:
            return 0
        if not data.startswith(before, at):
            if not self._takes_key(data, at, before):
                return 0
            before = self._before
        start = at + len(before)
        end = data.find(b"\r", start, start + LENGTH_DIGITS_MAX + 1)
        length = data[start:end]
        if end < 0 or not length.isdigit():
            return 0
        if not (data.startswith(self._after, end) or self._takes_key(data, end, self._after)):
            return 0
        body_bytes = int(length)
        if not body_bytes:
            return 0
        if length != self._length:
            self._length = length
            self.head.headers.set_length(length)
        self._unlike = 0
        buffer.at = end + len(self._after)
        buffer.left_bytes = len(data) - buffer.at
        if not buffer.left_bytes:
            buffer.clear()
        return body_bytes

    def _takes_key(self, data: bytes, at: int, piece: bytes) -> bool:
        """Whether the data has this piece with another key, which is then that of the last head.

        It is so even if the rest differs. Earlier requests keep the headers with their own keys.
        """
        if self.head is None or self._around_key is None:
            return False
        left, right, field, scheme = self._around_key
        found = _KEY.match(data, at + len(left))
        if found is None or not piece.startswith(left):  # the key is in the other piece
            return False
        key = found[0]
        changed = left + key + right
        if not data.startswith(changed, at):
            return False
        if piece is self._before:
            self._before = changed
        else:
            self._after = changed
        method, target, version, headers, keeps_alive = self.head
        headers = headers.with_key(field, scheme, key.decode())
        self.head = Head(method, target, version, headers, keeps_alive)
        return True

    def remember(self, part: bytes, head: Head) -> None:
        """Remember a head and the bytes that it was parsed from."""
        self._unlike += 1
        if self._unlike > UNLIKE_MAX or len(part) > REMEMBERED_BYTES_MAX:
            return
        found = _LENGTH_LINE.search(part)
        if found is None:
            return
        start, end = found.span(1)
        self._before, self._length, self._after = part[:start], found[1], part[end:]
        self.head = head
        self._around_key = None
        if len(_KEY_NAMES.findall(part)) == 1:  # no other line may have one
            line = _KEY_LINE.search(self._before) or _KEY_LINE.search(self._after)
            if line is not None:
                left, right = line.string[: line.start(3)], line.string[line.end(3) :]
                self._around_key = left, right, spelled(line[1].decode()), line[2].decode()
