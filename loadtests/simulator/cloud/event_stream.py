"""Messages of Amazon's event streams (`application/vnd.amazon.eventstream`), from this end.

A message is its length, the length of its headers and a checksum of both; headers; payload; and a
checksum of all that. Lengths and checksums (CRC-32) are big-endian, four bytes each.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final
from zlib import crc32

CONTENT_TYPE: Final = b"application/vnd.amazon.eventstream"
STRING: Final = 7  # the type of a header's value


def message(headers: Mapping[str, str], payload: bytes) -> bytes:
    """One message, whose headers are all strings."""
    head = b"".join(_header(name.encode(), value.encode()) for name, value in headers.items())
    prelude = struct.pack(">II", 16 + len(head) + len(payload), len(head))
    whole = prelude + struct.pack(">I", crc32(prelude)) + head + payload
    return whole + struct.pack(">I", crc32(whole))


def event(kind: str, payload: bytes) -> bytes:
    """An event of a kind."""
    headers = {
        ":event-type": kind,
        ":content-type": "application/json",
        ":message-type": "event",
    }
    return message(headers, payload)


def exception(kind: str, payload: bytes) -> bytes:
    """What ends a stream that failed in a way its service describes."""
    headers = {
        ":exception-type": kind,
        ":content-type": "application/json",
        ":message-type": "exception",
    }
    return message(headers, payload)


def error(code: str, text: str) -> bytes:
    """What ends a stream that failed in any other way."""
    return message({":error-code": code, ":error-message": text, ":message-type": "error"}, b"")


def _header(name: bytes, value: bytes) -> bytes:
    return struct.pack(f">B{len(name)}sBH", len(name), name, STRING, len(value)) + value
