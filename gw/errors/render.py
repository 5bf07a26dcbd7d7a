"""Writes an error as the body of the endpoint's protocol (spec: Errors).

Three shapes, and the images endpoint's variant of the first. Knows nothing of HTTP beyond the
status number that the gemini shape repeats.
"""

from __future__ import annotations

from typing import Any

import ujson

from channels.families import ErrorShape
from gw.errors.table import GatewayError


def render(shape: ErrorShape, error: GatewayError) -> bytes:
    """Render `error` as a JSON body in UTF-8."""
    return dumps(_body(shape, error, _encodable(error.message)))


def dumps(value: Any) -> bytes:
    """Write JSON the way every response of the gateway is written: UTF-8, `/` as it is.

    Strings must be encodable; money must be strings already (a Decimal would become a float).
    """
    text: str = ujson.dumps(
        value, ensure_ascii=False, escape_forward_slashes=False, allow_nan=False
    )
    return text.encode()


def _body(shape: ErrorShape, error: GatewayError, message: str) -> dict[str, Any]:
    kind = error.kind
    if shape is ErrorShape.MESSAGES:
        shown: dict[str, Any] = {"type": kind.messages_type, "message": message}
        if error.details is not None:
            shown["details"] = error.details
        return {"type": "error", "error": shown}
    if shape is ErrorShape.GEMINI:
        shown = {"code": error.http_status, "message": message, "status": kind.gemini_status}
        if error.details is not None:
            shown["details"] = error.details
        return {"error": shown}
    body: dict[str, Any] = {"message": message, "type": kind.chat_type, "code": kind.code}
    if shape is ErrorShape.IMAGES:
        body["param"] = error.param
    elif error.upstream_param is not None:
        body["param"] = error.upstream_param
    return {"error": body}


def _encodable(text: str) -> str:
    """Replace lone surrogates, which a client's own JSON may have put into a message."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
