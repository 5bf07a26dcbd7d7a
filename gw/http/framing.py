"""What of a request's head must be settled before it is routed: where it ends, what it asks for.

Pure functions; `request.py` asks them and answers what is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tornado.httputil import HTTPHeaders

# Beyond this a length is not a number of bytes that anyone means to send.
LENGTH_DIGITS_MAX = 18

_ABSOLUTE_FORM = re.compile(r"https?://[^/?#@]+", re.IGNORECASE)


def framing_fault(version: str, headers: Mapping[str, str]) -> str | None:
    """Say what is wrong with how the body's length is declared, or None.

    Stricter than the RFC where lenience lets two servers disagree on where a request ends
    (request smuggling): a length that came twice is refused even when both are equal.
    """
    length = headers.get("Content-Length")
    if "Transfer-Encoding" in headers:
        if length is not None:
            return "Content-Length and Transfer-Encoding exclude each other."
        if headers["Transfer-Encoding"].lower() != "chunked":
            return "Only the transfer encoding `chunked` is supported."
        if version == "HTTP/1.0":
            return "Transfer-Encoding needs HTTP/1.1."
    elif length is not None and not (
        length.isascii() and length.isdigit() and len(length) <= LENGTH_DIGITS_MAX
    ):
        return "Content-Length must be one whole number."
    return None


def head_of_body(headers: Mapping[str, str]) -> bytes:
    """A head that another parser reads in place of the one that it has not seen."""
    name = "Content-Length" if "Content-Length" in headers else "Transfer-Encoding"
    return f"POST / HTTP/1.1\r\n{name}: {headers[name]}\r\n\r\n".encode("latin-1")


def settle_expectation(version: str, headers: HTTPHeaders) -> None:
    """Spell `Expect` as Tornado looks for it, or a client in other letters waits in vain."""
    if headers.get("Expect", "").lower() == "100-continue":
        if version == "HTTP/1.0":
            del headers["Expect"]  # it would take the 100 for its response (RFC 9110, 10.1.1)
        else:
            headers["Expect"] = "100-continue"


def in_origin_form(target: str) -> str:
    """Take a target with scheme and host for its path, which is what it means (RFC 9112)."""
    if not target.startswith("/"):
        found = _ABSOLUTE_FORM.match(target)
        if found is not None:
            rest = target[found.end() :]
            return rest if rest.startswith("/") else "/" + rest
    return target
