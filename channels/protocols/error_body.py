"""Find the message in an upstream's error body, whatever dialect it answers in.

What is found still has to pass `channels/redact.py` before anyone sees it. Error events within a
stream are the meters' business.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from channels.text import fit

MESSAGE_CHARACTERS_MAX = 500
# A body this long is not a message; its beginning may be one.
_READ_BYTES_MAX = 256 * 1024
# Members that hold the message, or an object that does, in the order they are trusted.
_MEMBERS = ("error", "message", "detail", "msg", "errors", "error_message", "error_description")
_ENTRIES_MAX = 10
_DEPTH_MAX = 6
_NOT_JSON = object()


def error_message(body: bytes) -> str | None:
    """The message of an error body, at most 500 characters; None when it has none to show.

    Known shapes: {error: {message}}, {error: text}, {message}, {detail}, a list of field errors,
    Google's [{error: …}], any of them as a string inside another, plain text. A web page is no
    message: it is for a browser, and names the machine it comes from.
    """
    text = body[:_READ_BYTES_MAX].decode("utf-8", "replace").lstrip("\ufeff").strip()
    value = _read(text)
    if value is not _NOT_JSON:
        return message_in(value)
    return None if _is_binary(text) else message_in(text)


def message_in(value: Any) -> str | None:
    """The same for a decoded body, or for the `error` member of an event."""
    found = _find(value, depth=0)
    return None if found is None else fit(found, MESSAGE_CHARACTERS_MAX).strip() or None


def _find(value: Any, *, depth: int) -> str | None:
    if depth > _DEPTH_MAX:
        return None
    if isinstance(value, str):
        return _find_in_text(value.strip(), depth=depth)
    if isinstance(value, list):
        # The first entry that says something; the rest repeat it for other fields.
        entries = value[:_ENTRIES_MAX]
    elif isinstance(value, Mapping):
        entries = [value[name] for name in _MEMBERS if name in value]
    else:
        return None
    for entry in entries:
        if found := _find(entry, depth=depth + 1):
            return found
    return None


def _find_in_text(text: str, *, depth: int) -> str | None:
    """Text is the message, unless it is a whole error body again."""
    value = _read(text)
    inner = None if value is _NOT_JSON else _find(value, depth=depth + 1)
    if inner is not None:
        return inner
    return None if _is_markup(text) else text or None


def _read(text: str) -> Any:
    if text[:1] not in ("{", "["):
        return _NOT_JSON
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return _NOT_JSON


def _is_markup(text: str) -> bool:
    head = text[:512].lower()
    return head.startswith("<") or "<html" in head or "<!doctype" in head


def _is_binary(text: str) -> bool:
    """Whether this was not text to begin with, such as a compressed page."""
    return "\ufffd" in text[:512] or "\x00" in text[:512]
