"""Results of functions, which are objects in the gemini protocol, both ways.

In other protocols a result is text. The protocol itself looks for text in `output` and `error`,
and for a reference to the result's media in `$ref` at any depth; an object without these is the
whole result, which is its JSON in other protocols.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from channels.json.lenient import UNREADABLE, dumps
from channels.translation.model import Text

_OUTPUT = "output"
_ERROR = "error"
_REFERENCE = "$ref"
_OBJECT = msgspec.json.Decoder(dict[str, object])


def read_response(response: object) -> tuple[tuple[Text, ...], bool]:
    """Return the texts of a `response` member, empty if it is, and whether it is an error."""
    if not isinstance(response, Mapping):
        return (), False
    is_error = False
    value: object = response
    if len(response) == 1:
        name, payload = next(iter(response.items()))
        is_error = name == _ERROR and payload is not None
        if is_error or name == _OUTPUT:
            value = payload
    text = value if isinstance(value, str) else dumps(value).decode()
    return ((Text(text),) if text else ()), is_error


def write_response(texts: Sequence[str], *, is_error: bool) -> dict[str, object]:
    """Return the `response` member.

    Text that is a JSON object becomes that object, unless it would be decoded differently (as NaN
    would), or the provider gives one of its keys a meaning of its own.
    """
    text = "\n".join(texts)
    if is_error:
        return {_ERROR: text}
    try:
        value = _OBJECT.decode(text)
    except (*UNREADABLE, UnicodeEncodeError):  # the last of a lone surrogate
        return {_OUTPUT: text}
    if not value.keys().isdisjoint((_OUTPUT, _ERROR)):
        return {_OUTPUT: text}
    if (_REFERENCE in text or "\\u" in text) and _has_reference(value):
        return {_OUTPUT: text}
    return value


def _has_reference(value: object) -> bool:
    """Whether an object within a value has a member that the provider would resolve."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Mapping):
            if _REFERENCE in one:
                return True
            waiting.extend(one.values())
        elif isinstance(one, list):
            waiting.extend(one)
    return False
