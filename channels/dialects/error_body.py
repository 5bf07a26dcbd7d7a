"""Find in an upstream's error body what its client receives: the message, `details` and `param`.

What is found still has to pass `channels/redaction.py` before anyone sees it. Error events within a
stream are the meters' business.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from math import ceil
from types import MappingProxyType
from typing import Any

import msgspec
from msgspec import Raw

from channels.errors import ErrorMembers, ErrorReported
from channels.json import NULL, raw_of, read_loosely

# MiniMax's way to state that a chat failed: `base_resp` in a response whose status is 200.
#
# What of it counts for speech is the contract's for media (`channels/media/minimax.py`). Source:
# https://platform.minimax.io/docs/api-reference/errorcode, read on 2026-11-22.

# What a `status_code` means as an HTTP status; 0 is good, and any other is 502.
STATUSES: Mapping[str, int] = MappingProxyType(
    {
        "1002": 429,  # rate limit
        "1004": 401,  # not authorized
        "1008": 402,  # insufficient balance
        "1026": 400,  # the input is sensitive
        "1027": 400,  # the output is
        "1039": 429,  # limit of tokens
        "1042": 400,  # characters that cannot be seen
        "2013": 400,  # invalid parameters
        "2049": 401,  # invalid key
        "2056": 429,  # limit of a plan
    }
)


def status_of(code: str | None) -> int:
    """The HTTP status that a `status_code` means; 200 for none and for 0."""
    return 200 if code in (None, "0") else STATUSES.get(code, 502)


def status_in(value: Any) -> int:
    """The HTTP status that a decoded response means."""
    stated = value.get("base_resp") if isinstance(value, Mapping) else None
    return status_of(_code_of(stated))


def error_of(stated: Any) -> Raw:
    """A decoded `base_resp` as an `error` member; nothing where it is good."""
    code = _code_of(stated)
    if status_of(code) == 200:
        return NULL
    return raw_of({"code": code, "message": stated.get("status_msg")})


def _code_of(stated: Any) -> str | None:
    code = stated.get("status_code") if isinstance(stated, Mapping) else None
    return str(code) if isinstance(code, str | int) and not isinstance(code, bool) else None


# What text from outside may hold that is stored, looked up or shown (contract §7).
#
# PostgreSQL refuses NUL in text and nothing can encode a lone surrogate. A client's name, id,
# reference or query value with one of them is refused before anything else is done with it; text of
# an upstream is made fit and bounded, because one odd string could spoil a whole batch of rows.
# Hiding secrets is `channels/redaction.py`'s part.

# What PostgreSQL takes: a pattern for tables of members (`gw/media/reading.py`).
STORABLE = r"\A[^\x00\ud800-\udfff]*\Z"
STORABLE_WORDS = "without NUL"
_STORABLE = re.compile(STORABLE)
# The same of bytes: UTF-8 has no other place for ED before A0 to BF.
_UNSTORABLE_BYTES = re.compile(rb"\x00|\xed[\xa0-\xbf]")
# Controls except tab and newline, and surrogates.
_UNFIT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]+")


def is_storable(text: str) -> bool:
    """Whether a text holds neither NUL nor lone surrogates."""
    return _STORABLE.match(text) is not None


def are_storable(data: bytes) -> bool:
    """Whether bytes that should be UTF-8 hold neither NUL nor what a lone surrogate would be."""
    return _UNSTORABLE_BYTES.search(data) is None


def fit(text: str, limit: int) -> str:
    """Replace each run of unfit characters by a space and cut to `limit` characters."""
    text = _UNFIT.sub(" ", text)
    return text if len(text) <= limit else text[: limit - 1] + "…"


MESSAGE_CHARACTERS_MAX = 500
# Of `details`, which client libraries act on; longer ones are dropped whole.
DETAILS_BYTES_MAX = 16 * 1024
DETAILS_DEPTH_MAX = 16
PARAM_CHARACTERS_MAX = 256
WORD_CHARACTERS_MAX = 64
# A body this long is not a message; its beginning may be one.
_READ_BYTES_MAX = 256 * 1024
# Members that hold the message, or an object that does, in the order they are trusted.
_MEMBERS = (
    *("error", "message", "detail", "msg", "errors", "error_message", "error_description"),
    *("base_resp", "status_msg"),  # of MiniMax, one within the other
)
# How a web page or XML begins; some sentences begin with a number in such brackets.
_TAG = re.compile(r"<[a-z!?/]")
# Of a `google.rpc.RetryInfo`.
_DELAY = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)s")
# What is read of more values than these holds up the event loop; a message is in few.
_VALUES_MAX = 10_000
_ENTRIES_MAX = 10
_DEPTH_MAX = 6
_NOT_JSON = object()


def error_members(body: bytes) -> ErrorMembers:
    """The message of an error body, as `error_message` finds it, and what is beside it.

    Client libraries act on the `details` of the messages and the native-content protocol (retry
    information, error codes) and on the `param` of chat-completions.
    """
    return _members_of(*_read_body(body))


def _members_of(text: str, value: Any) -> ErrorMembers:
    message = _message_of(text, value)
    while isinstance(value, list) and value:  # Google's [{error: …}]
        value = value[0]
    error = value.get("error") if isinstance(value, Mapping) else None
    if not isinstance(error, Mapping):
        return ErrorMembers(message, words=_words(value))
    details = _bounded(error.get("details"))
    return ErrorMembers(message, details, _short(error.get("param")), _words(error, details))


def _words(error: Any, details: Any = None) -> frozenset[str]:
    """What an error is called, on whichever protocol; Google's `details` hold its reasons."""
    if not isinstance(error, Mapping):
        return frozenset()
    stated = [error.get(name) for name in ("code", "type", "status")]
    for one in details[:_ENTRIES_MAX] if isinstance(details, list) else ():
        stated += [one.get("reason")] if isinstance(one, Mapping) else []
    return frozenset(
        one for one in stated if isinstance(one, str) and 0 < len(one) <= WORD_CHARACTERS_MAX
    )


def retry_after_in(details: Any) -> str | None:
    """The retry delay, in seconds, in Google's `details`, which has no header for it."""
    for one in details if isinstance(details, list) else ():
        delay = one.get("retryDelay") if isinstance(one, Mapping) else None
        if isinstance(delay, str) and (stated := _DELAY.fullmatch(delay)):
            return str(ceil(float(stated[1])))
    return None


def error_reported(body: bytes) -> ErrorReported:
    """The error that a response's body, or the data of an event in it, consist of."""
    return _reported(*_read_body(body))


def try_error_reported(body: bytes) -> ErrorReported | None:
    """The error that a body consists of, in whatever form; None: it is no JSON or has no error."""
    text, value = _read_body(body)
    found = _reported(text, value) if isinstance(value, dict | list) else None
    return None if found is None or found.members.message is None else found


def _reported(text: str, value: Any) -> ErrorReported:
    status = status_in(value)
    return ErrorReported(_members_of(text, value), status=502 if status == 200 else status)


def _short(param: Any) -> str | None:
    """A `param` that is a text and fit to be sent; else None."""
    if not isinstance(param, str) or len(param) > PARAM_CHARACTERS_MAX:
        return None
    try:
        param.encode()
    except UnicodeEncodeError:  # a lone surrogate
        return None
    return param


def _bounded(details: Any) -> Any:
    """Details that are an object or a list and fit into a response; else None."""
    if not isinstance(details, Mapping | list) or _depth_of(details) > DETAILS_DEPTH_MAX:
        return None
    try:
        text = msgspec.json.encode(details)
    except UnicodeEncodeError:  # a lone surrogate
        return None
    # Read once more, as NaN is null now: what comes of this can be sent.
    return msgspec.json.decode(text) if len(text) <= DETAILS_BYTES_MAX else None


def _depth_of(value: Any) -> int:
    """How deep a decoded value nests, without recursion."""
    depth, level = 0, [value]
    while level and depth <= DETAILS_DEPTH_MAX:
        depth += 1
        inner: list[Any] = []
        for entry in level:
            if isinstance(entry, Mapping):
                inner += entry.values()
            elif isinstance(entry, list):
                inner += entry
        level = [entry for entry in inner if isinstance(entry, Mapping | list)]
    return depth


def error_message(body: bytes) -> str | None:
    """The message of an error body, at most 500 characters; None when it has none to show.

    Known shapes: {error: {message}}, {error: text}, {message}, {detail}, a list of field errors,
    Google's [{error: …}], any of them as a string inside another, plain text. A web page is no
    message: it is for a browser, and names the machine it comes from.
    """
    return _message_of(*_read_body(body))


def _read_body(body: bytes) -> tuple[str, Any]:
    """The beginning of a body as text, and its value; _NOT_JSON where it has none."""
    text = body[:_READ_BYTES_MAX].decode("utf-8", "replace").lstrip("\ufeff").strip()
    return text, _read(text)


def _message_of(text: str, value: Any) -> str | None:
    if value is not _NOT_JSON:
        return message_in(value)
    return None if _is_binary(text) else message_in(text)


def message_in(value: Any) -> str | None:
    """The error message of a decoded body, or of the `error` member of an event."""
    found = _find(value, depth=0)
    return None if found is None else fit(found, MESSAGE_CHARACTERS_MAX).strip() or None


# Of a member of a whole response that is read: counts, names and errors, nothing that grows.
MEMBER_BYTES_MAX = 16 * 1024


def member_of(raw: Raw) -> Any:
    """The value of a member of a whole response; None for one that is too long or unreadable."""
    return read_loosely(bytes(raw)) if len(memoryview(raw)) <= MEMBER_BYTES_MAX else None


def failure_of(raw: Raw) -> str | None:
    """What an `error` member of a whole response reports; None where it reports nothing."""
    reported = member_of(raw)
    if reported is None:
        return None
    return message_in(reported) or "The upstream reported an error."


def code_in(error: Any, names: Iterable[str]) -> str | None:
    """An `error` member's own code, from the first of these members that has one."""
    if not isinstance(error, Mapping):
        return None
    code = next((error[name] for name in names if error.get(name)), None)
    return str(code) if isinstance(code, str | int) else None


def _find(value: Any, *, depth: int) -> str | None:
    if depth > _DEPTH_MAX:
        return None
    if isinstance(value, str):
        return _find_in_text(value.strip(), depth=depth)
    if isinstance(value, list):
        # The first entry that states something; the rest repeat it for other fields.
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
    """Whether this was not text to begin with, such as a compressed page."""
    return "\ufffd" in text[:512] or "\x00" in text[:512]
