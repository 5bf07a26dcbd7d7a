"""The `Date` of answers."""

from __future__ import annotations

from tornado.httputil import format_timestamp


class HttpDate:
    """Writes the time as HTTP does, once a second."""

    __slots__ = ("_second", "_text")

    def __init__(self) -> None:
        self._second = -1
        self._text = ""

    def at(self, unix_seconds: float) -> str:
        """The second that this is in."""
        second = int(unix_seconds)
        if second != self._second:
            self._second = second
            self._text = format_timestamp(second)
        return self._text
