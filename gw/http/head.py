"""The head of a request, as it comes from the parser: its fields, their bounds, its start line.

Fields go straight into the dictionaries of Tornado's `HTTPHeaders`, because the parser has checked
every character: written against Tornado 6.6.1, to be reread before moving to another.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tornado.httputil import HTTPHeaders

from gw.http.names import spelled

# A head longer than this is refused in words.
HEAD_BYTES_MAX = 64 * 1024
# Each line costs a few microseconds before anyone has shown a key. Browsers send some twenty.
HEAD_LINES_MAX = 256
# Clients send the same few names again and again. Others are spelled anew each time.
_NAMES_KEPT = 512

CHUNKED = -1  # the size of a body that comes in chunks

_METHOD, _TARGET = rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+)", rb"[!-~]+"
_START_LINE = re.compile(_METHOD + rb" " + _TARGET + rb" HTTP/1\.[01]\r\n")
_PART_OF_LINE = re.compile(_METHOD + rb"( (" + _TARGET + rb"( ([!-~]*\r?))?)?)?")
_VERSIONS = (b"HTTP/1.1\r\n", b"HTTP/1.0\r\n")


class HeadFault(Exception):
    """A head is refused; the text says why."""


class RequestHeaders(HTTPHeaders):
    """The fields of one request, by their names as Tornado spells them."""

    def __init__(self, fields: dict[str, list[str]]) -> None:
        self._as_list = fields
        self._combined_cache = {}

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and spelled(name) in self._as_list

    def get(self, name: str, default: Any = None) -> Any:
        # Most of what a request is asked for it does not have; Tornado's raises for each of them.
        values = self._as_list.get(spelled(name))
        if values is None:
            return default
        return values[0] if len(values) == 1 else ",".join(values)

    def body_bytes(self) -> int:
        """The size of the body behind this head, or CHUNKED; the parser has checked it."""
        fields = self._as_list
        if "Transfer-Encoding" in fields:
            return CHUNKED
        length = fields.get("Content-Length")
        return 0 if length is None else int(length[0])


def headers_of(lines: Sequence[tuple[bytes, bytes]], names: FieldNames) -> RequestHeaders:
    """The fields, name and value, as they came."""
    fields: dict[str, list[str]] = {}
    for name, value in lines:
        field = names.spelled(name)
        text = value.rstrip(b" \t").decode("latin-1")
        if field in fields:
            fields[field].append(text)
        else:
            fields[field] = [text]
    return RequestHeaders(fields)


class FieldNames:
    """Header names as Tornado spells them, remembered. One per listener."""

    __slots__ = ("_known",)

    def __init__(self) -> None:
        self._known: dict[bytes, str] = {}

    def spelled(self, name: bytes) -> str:
        """`content-TYPE` as `Content-Type`."""
        known = self._known.get(name)
        if known is None:
            known = spelled(name.decode("latin-1"))
            if len(self._known) < _NAMES_KEPT:
                self._known[name] = known
        return known


def method_of(data: bytes) -> str | None:
    """The method of the request that begins here; None where no start line of HTTP/1 does."""
    found = _START_LINE.match(data)
    return found[1].decode("latin-1") if found is not None else None


def may_begin(data: bytes) -> bool:
    """Whether this is the beginning of a start line of HTTP/1, which more may complete."""
    found = _PART_OF_LINE.fullmatch(data)
    return found is not None and any(end.startswith(found[5] or b"") for end in _VERSIONS)


TOO_LARGE = f"its header is larger than {HEAD_BYTES_MAX // 1024} KB"
TOO_MANY = f"it has more than {HEAD_LINES_MAX} header lines"
