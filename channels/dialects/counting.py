"""Input tokens of a request that is only counted: from an upstream, else estimated.

The upstream's path, the form of the response and the weights of the estimate (`token_estimate.py`)
are data of each dialect (`Counting`, in its record).
"""

from __future__ import annotations

import msgspec

from channels.dialects.table import counting_of
from channels.dialects.token_estimate import INNER, TURNS
from channels.dialects.validation import check_model
from channels.errors import InvalidRequest
from channels.json.json_object import JsonObject

_NAME = "models/"


def read_count(body: bytes, protocol: str) -> tuple[str, None]:
    """Return the model that a body names, after the gateway's checks. Raises InvalidRequest.

    Empty if the protocol has the model in the path. A job, like `estimate`.
    """
    counting = counting_of(protocol)
    request = JsonObject.parse(body)
    if counting.needs and not any(name in request.raw for name in counting.needs):
        raise InvalidRequest(f"{counting.needs[0]}: this field is required.", counting.needs[0])
    for name in request.raw.keys() & set(TURNS):
        first = bytes(memoryview(request.raw[name])[:1])
        if first != b"[" and not (name == "input" and first == b'"'):
            raise InvalidRequest(f"{name}: a list is expected.", name)
    if counting.is_in_path:
        return "", None
    try:
        model = msgspec.json.decode(request.raw["model"], type=str)
    except KeyError:
        raise InvalidRequest("model: this field is required.", "model") from None
    except msgspec.DecodeError:
        raise InvalidRequest("model: a string is expected.", "model") from None
    return check_model(model), None


def counted_body(body: bytes, upstream_model: str) -> tuple[None, bytes]:
    """Return the body with the upstream's name of the model, if it names one; else unchanged."""
    request = JsonObject.parse(body)
    if "model" in request.raw:
        return None, request.edited(replace={"model": msgspec.json.encode(upstream_model)}, add={})
    if INNER not in request.raw:
        return None, body
    inner = JsonObject.parse(bytes(request.raw[INNER]))
    if "model" not in inner.raw:
        return None, body
    named = msgspec.json.encode(_NAME + upstream_model)
    written = inner.edited(replace={"model": named}, add={})
    return None, request.edited(replace={INNER: written}, add={})
