"""The head of a request, as it comes from the parser: its fields, its bounds, its start line.

Fields go straight into the dictionaries of Tornado's `HTTPHeaders`, because the parser has checked
every character: written against Tornado 6.6.1, to be reread before moving to another.
"""

from __future__ import annotations

import re

from tornado.httputil import HTTPHeaders

from gw.web.connection import HEAD_BYTES_MAX, HEAD_LINES_MAX

# Clients send the same few names again and again. Others are spelled anew each time.
_NAMES_KEPT = 512

_START_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+) [!-~]+ HTTP/1\.[01]\r\n")


class HeadFault(Exception):
    """A head is refused; the text says why."""


class Head:
    """The head of one request while it is read."""

    __slots__ = ("_bytes", "_combined", "_fields", "_lines", "headers", "target")

    def __init__(self) -> None:
        self.target = b""
        self.headers = HTTPHeaders.__new__(HTTPHeaders)
        self._fields: dict[str, list[str]] = {}
        self._combined: dict[str, str] = {}
        self.headers._as_list = self._fields
        self.headers._combined_cache = self._combined
        self._bytes = 0
        self._lines = 1

    def add(self, names: FieldNames, name: bytes, value: bytes) -> None:
        """Take one field. Raises HeadFault."""
        self.count(name, value)
        spelled = names.spelled(name)
        text = value.rstrip(b" \t").decode("latin-1")
        several = self._fields.get(spelled)
        if several is None:
            self._fields[spelled] = [text]
            self._combined[spelled] = text
        else:
            several.append(text)
            self._combined.pop(spelled, None)

    def count(self, name: bytes, value: bytes) -> None:
        """Count a field that is not kept (a trailer). Raises HeadFault."""
        self._bytes += len(name) + len(value) + 4
        self._lines += 1
        if self._lines > HEAD_LINES_MAX:
            raise HeadFault(f"it has more than {HEAD_LINES_MAX} header lines")
        if self._bytes + len(self.target) > HEAD_BYTES_MAX:
            raise HeadFault(TOO_LARGE)

    def is_larger(self, received_bytes: int) -> bool:
        """Whether so many bytes of an unfinished head are too many."""
        return received_bytes > HEAD_BYTES_MAX


class FieldNames:
    """Header names as Tornado spells them, remembered. One per listener."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[bytes, str] = {}

    def spelled(self, name: bytes) -> str:
        """`content-TYPE` as `Content-Type`."""
        known = self._known.get(name)
        if known is None:
            known = "-".join(word.capitalize() for word in name.decode("latin-1").split("-"))
            if len(self._known) < _NAMES_KEPT:
                self._known[name] = known
        return known


def method_of(data: bytes) -> str | None:
    """The method of the request that begins here; None where no start line of HTTP/1 does."""
    found = _START_LINE.match(data)
    return found[1].decode("latin-1") if found is not None else None


TOO_LARGE = f"its header is larger than {HEAD_BYTES_MAX // 1024} KB"
