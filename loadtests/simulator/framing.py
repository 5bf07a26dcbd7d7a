"""Bytes on the wire: response heads, chunks, pieces and the ways to break them. No decisions."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

from loadtests.simulator.directives import Directive

LAST_CHUNK: Final = b"0\r\n\r\n"
BROKEN_CHUNK: Final = b"ZZ\r\nthis is no chunk size\r\n"
NOT_HTTP: Final = b"\x00\x01 this is not HTTP\r\n\r\n"
HTML: Final = b"<!doctype html><html><head><title>Bad gateway</title></head><body>502</body></html>"


def head(
    status: int, content_type: bytes, framing: bytes, digest: str, directive: Directive
) -> bytes:
    """Status line and headers; `framing` is the header line that delimits the body."""
    lines = b"HTTP/1.1 %d %b\r\nContent-Type: %b\r\n" % (
        status,
        phrase(status).encode(),
        content_type,
    )
    if digest:
        lines += b"X-Request-Id: req_%b\r\n" % digest[:32].encode()
    if directive.retry_after is not None:
        lines += b"Retry-After: %b\r\n" % str(directive.retry_after).encode("latin-1")
    for name, value in (directive.headers or {}).items():
        lines += b"%b: %b\r\n" % (name.encode("latin-1"), value.encode("latin-1"))
    return lines + framing + b"\r\n"


def phrase(status: int) -> str:
    """The words that go with a status code."""
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Unassigned"


def chunk(data: bytes) -> bytes:
    """One chunk of the chunked transfer coding."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def crlf(frame: bytes) -> bytes:
    """An event with CRLF line ends; JSON inside has no line ends of its own."""
    return frame.replace(b"\n", b"\r\n")


def split(data: bytes, size: int) -> list[bytes]:
    """The data in writes of `size` bytes."""
    return [data[at : at + size] for at in range(0, len(data), size)]


def first_bytes(frames: list[bytes], limit: int, *, is_chunked: bool) -> list[bytes]:
    """So many bytes of the frames; a frame that is cut still announces its whole length."""
    pieces: list[bytes] = []
    for frame in frames:
        if limit <= 0:
            break
        if limit >= len(frame):
            pieces.append(chunk(frame) if is_chunked else frame)
        else:
            size = b"%x\r\n" % len(frame) if is_chunked else b""
            pieces.append(size + frame[:limit])
        limit -= len(frame)
    return pieces


def broken(frame: bytes, how: str) -> bytes:
    """The frame with its JSON cut in the middle, or with bytes that are no UTF-8 in it."""
    body = frame.rstrip(b"\n")
    middle = len(body) * 2 // 3
    rest = b"" if how == "json" else b"\xff\xfe" + body[middle:]
    return body[:middle] + rest + frame[len(body) :]
