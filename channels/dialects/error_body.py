"""Parses an upstream's error body into what its client receives: message, `details`, `param`.

The result must pass `channels/redaction.py` before it is sent. Meters parse errors within streams.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from math import ceil

import msgspec
from msgspec import Raw

from channels.dialects.base_resp import status_in
from channels.errors import ErrorMembers, ErrorReported
from channels.json.lenient import read_loosely
from channels.storable_text import fit

MESSAGE_CHARACTERS_MAX = 500
# Of `details`, which client libraries use; longer ones are dropped completely.
DETAILS_BYTES_MAX = 16 * 1024
DETAILS_DEPTH_MAX = 16
PARAM_CHARACTERS_MAX = 256
WORD_CHARACTERS_MAX = 64
# Of a longer body only the beginning is parsed.
_READ_BYTES_MAX = 256 * 1024
# Members with the message, or with an object that contains it, in order of preference.
_MEMBERS = (
    *("error", "message", "detail", "msg", "errors", "error_message", "error_description"),
    *("base_resp", "status_msg"),  # of MiniMax, one within the other
)
# The beginning of a web page or of XML; some sentences begin with a number in such brackets.
_TAG = re.compile(r"<[a-z!?/]")
# Of a `google.rpc.RetryInfo`.
_DELAY = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)s")
# More values than these would block the event loop; messages have few.
_VALUES_MAX = 10_000
_ENTRIES_MAX = 10
_DEPTH_MAX = 6
_NOT_JSON = object()


def error_members(body: bytes) -> ErrorMembers:
    """Return the message of an error body (see `error_message`), and the members beside it.

    Client libraries use the `details` of the messages and the native-content protocol (retry
    information, error codes) and the `param` of chat-completions.
    """
    return _members_of(*_read_body(body))


def _members_of(text: str, value: object) -> ErrorMembers:
    message = _message_of(text, value)
    while isinstance(value, list) and value:  # Google's [{error: …}]
        value = value[0]
    error = value.get("error") if isinstance(value, Mapping) else None
    if not isinstance(error, Mapping):
        return ErrorMembers(message, words=_words(value))
    details = _bounded(error.get("details"))
    return ErrorMembers(message, details, _short(error.get("param")), _words(error, details))


def _words(error: object, details: object = None) -> frozenset[str]:
    """Return the names of an error, in any protocol; Google's `details` contain its reasons."""
    if not isinstance(error, Mapping):
        return frozenset()
    stated = [error.get(name) for name in ("code", "type", "status")]
    for one in details[:_ENTRIES_MAX] if isinstance(details, list) else ():
        stated += [one.get("reason")] if isinstance(one, Mapping) else []
    return frozenset(
        one for one in stated if isinstance(one, str) and 0 < len(one) <= WORD_CHARACTERS_MAX
    )


def retry_after_in(details: object) -> str | None:
    """Return the retry delay in seconds from Google's `details`; Google has no header for it."""
    for one in details if isinstance(details, list) else ():
        delay = one.get("retryDelay") if isinstance(one, Mapping) else None
        if isinstance(delay, str) and (stated := _DELAY.fullmatch(delay)):
            return str(ceil(float(stated[1])))
    return None


def error_reported(body: bytes) -> ErrorReported:
    """Return the error of a response's body, or of the data of an event in it."""
    return _reported(*_read_body(body))


def try_error_reported(body: bytes) -> ErrorReported | None:
    """Return the error of a body, in any form; None if it is no JSON or has no error."""
    text, value = _read_body(body)
    found = _reported(text, value) if isinstance(value, dict | list) else None
    return None if found is None or found.members.message is None else found


def _reported(text: str, value: object) -> ErrorReported:
    status = status_in(value)
    return ErrorReported(_members_of(text, value), status=502 if status == 200 else status)


def _short(param: object) -> str | None:
    """Return a `param` that is a text and can be sent; else None."""
    if not isinstance(param, str) or len(param) > PARAM_CHARACTERS_MAX:
        return None
    try:
        param.encode()
    except UnicodeEncodeError:  # a lone surrogate
        return None
    return param


def _bounded(details: object) -> object:
    """Return details that are an object or a list within the limits; else None."""
    if not isinstance(details, Mapping | list) or _depth_of(details) > DETAILS_DEPTH_MAX:
        return None
    try:
        text = msgspec.json.encode(details)
    except UnicodeEncodeError:  # a lone surrogate
        return None
    # Decoded again, because NaN has become null: the result can be sent.
    return msgspec.json.decode(text) if len(text) <= DETAILS_BYTES_MAX else None


def _depth_of(value: object) -> int:
    """Return the depth of a decoded value, without recursion."""
    depth, level = 0, [value]
    while level and depth <= DETAILS_DEPTH_MAX:
        depth += 1
        inner: list[object] = []
        for entry in level:
            if isinstance(entry, Mapping):
                inner += entry.values()
            elif isinstance(entry, list):
                inner += entry
        level = [entry for entry in inner if isinstance(entry, Mapping | list)]
    return depth


def error_message(body: bytes) -> str | None:
    """Return the message of an error body, at most 500 characters; None without one.

    Supported forms: {error: {message}}, {error: text}, {message}, {detail}, a list of field errors,
    Google's [{error: …}], any of them as a string inside another, plain text. A web page is no
    message: it is for a browser, and contains the name of its host.
    """
    return _message_of(*_read_body(body))


def _read_body(body: bytes) -> tuple[str, object]:
    """Return the beginning of a body as text, and its decoded value or _NOT_JSON."""
    text = body[:_READ_BYTES_MAX].decode("utf-8", "replace").lstrip("\ufeff").strip()
    return text, _read(text)


def _message_of(text: str, value: object) -> str | None:
    if value is not _NOT_JSON:
        return message_in(value)
    return None if _is_binary(text) else message_in(text)


def message_in(value: object) -> str | None:
    """Return the error message of a decoded body, or of the `error` member of an event."""
    found = _find(value, depth=0)
    return None if found is None else fit(found, MESSAGE_CHARACTERS_MAX).strip() or None


# The limit of a decoded member of a whole response: counts, names and errors are short.
MEMBER_BYTES_MAX = 16 * 1024


def member_of(raw: Raw) -> object:
    """Return the value of a member of a whole response; None if it is too long or unreadable."""
    return read_loosely(bytes(raw)) if len(memoryview(raw)) <= MEMBER_BYTES_MAX else None


def failure_of(raw: Raw) -> str | None:
    """Return the message of a whole response's `error` member; None if it has none."""
    reported = member_of(raw)
    if reported is None:
        return None
    return message_in(reported) or "The upstream reported an error."


def code_in(error: object, names: Iterable[str]) -> str | None:
    """Return an `error` member's code, from the first of these members that has one."""
    if not isinstance(error, Mapping):
        return None
    code = next((error[name] for name in names if error.get(name)), None)
    return str(code) if isinstance(code, str | int) else None


def _find(value: object, *, depth: int) -> str | None:
    if depth > _DEPTH_MAX:
        return None
    if isinstance(value, str):
        return _find_in_text(value.strip(), depth=depth)
    if isinstance(value, list):
        # The first entry with a message; the others repeat it for other fields.
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
    """Return the text, or the message of an error body that the text contains."""
    value = _read(text)
    inner = None if value is _NOT_JSON else _find(value, depth=depth + 1)
    if inner is not None:
        return inner
    return None if _is_markup(text) else text or None


def _read(text: str) -> object:
    if text[:1] not in ("{", "[", '"'):
        return _NOT_JSON
    if text.count(",") + text.count("{") + text.count("[") > _VALUES_MAX:
        return _NOT_JSON
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return _NOT_JSON


def _is_markup(text: str) -> bool:
    head = text[:512].lower()
    return _TAG.match(head) is not None or "<html" in head or "<!doctype" in head


def _is_binary(text: str) -> bool:
    """Whether the body was no text, such as a compressed page."""
    return "\ufffd" in text[:512] or "\x00" in text[:512]
