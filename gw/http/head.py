"""The head of a request, as it comes from the parser: its fields, their bounds, its start line."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gw.http.tornado_adapter import RequestHeaders, spelled

# A head longer than this is refused in words.
HEAD_BYTES_MAX = 64 * 1024
# Each line costs a few microseconds before anyone has shown a key. Browsers send some twenty.
HEAD_LINES_MAX = 256
# Clients send the same few names again and again. Others are spelled anew each time.
_NAMES_KEPT = 512

_METHOD, _TARGET = rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+)", rb"[!-~]+"
_START_LINE = re.compile(_METHOD + rb" " + _TARGET + rb" HTTP/1\.[01]\r\n")
_PART_OF_LINE = re.compile(_METHOD + rb"( (" + _TARGET + rb"( ([!-~]*\r?))?)?)?")
_VERSIONS = (b"HTTP/1.1\r\n", b"HTTP/1.0\r\n")


class HeadFault(Exception):
    """A head is refused; the text says why."""


def headers_of(lines: Sequence[tuple[bytes, bytes]], names: FieldNames) -> RequestHeaders:
    """The fields, name and value, as they came."""
    fields: dict[str, list[str]] = {}
    known = names.known
    for name, value in lines:
        field = known.get(name) or names.spelled(name)
        text = value.rstrip(b" \t").decode("latin-1")
        if field in fields:
            fields[field].append(text)
        else:
            fields[field] = [text]
    return RequestHeaders(fields)


class FieldNames:
    """Header names as Tornado spells them, remembered. One per listener."""

    __slots__ = ("known",)

    def __init__(self) -> None:
        self.known: dict[bytes, str] = {}

    def spelled(self, name: bytes) -> str:
        """`content-TYPE` as `Content-Type`, which is known from then on."""
        field = self.known.get(name)
        if field is None:
            field = spelled(name.decode("latin-1"))
            if len(self.known) < _NAMES_KEPT:
                self.known[name] = field
        return field


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
