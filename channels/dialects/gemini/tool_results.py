"""What a function gave back, as the object that the gemini protocol wants, both ways.

Elsewhere a result is text. Under `output` and `error` the protocol itself looks for text; any other
object is the result as a whole, which is its JSON elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from channels.json.text import dumps, object_in
from channels.translation.model import Text

_OUTPUT = "output"
_ERROR = "error"


def read_response(response: Any) -> tuple[tuple[Text, ...], bool]:
    """The text of a `response` member, and whether it is an error; no text where it is empty."""
    if not isinstance(response, Mapping):
        return (), False
    is_error = False
    value: Any = response
    if len(response) == 1:
        name, held = next(iter(response.items()))
        is_error = name == _ERROR and held is not None
        if is_error or name == _OUTPUT:
            value = held
    text = value if isinstance(value, str) else dumps(value).decode()
    return ((Text(text),) if text else ()), is_error


def write_response(texts: Sequence[str], *, is_error: bool, is_exact: bool) -> dict[str, Any]:
    """The `response` member. `is_exact`: JSON is taken apart only where it was put together here.

    Text that is a JSON object is that object, unless it would be read as something else.
    """
    text = "\n".join(texts)
    if is_error:
        return {_ERROR: text}
    value = object_in(text) if text.strip() else None
    if value is None or (len(value) == 1 and next(iter(value)) in (_OUTPUT, _ERROR)):
        return {_OUTPUT: text}
    if is_exact and dumps(value).decode() != text:
        return {_OUTPUT: text}
    return value
