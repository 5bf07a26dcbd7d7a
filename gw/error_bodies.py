"""An error as the body of the endpoint's protocol (spec: Errors), and the JSON of every response.

Three shapes, and the images endpoint's variant of the first. Knows nothing of HTTP beyond the
status number that the gemini shape repeats.
"""

from __future__ import annotations

from typing import Any

import ujson

from channels.family import ErrorShape
from gw.errors import GatewayError
from metrics.log_redaction import without_keys


def render(shape: ErrorShape, error: GatewayError) -> bytes:
    """Render `error` as a JSON body in UTF-8."""
    return dumps(_body(shape, error, without_keys(_encodable(error.message))))


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
        details = _retry_info(error) if error.details is None else error.details
        if details is not None:
            shown["details"] = details
        return {"error": shown}
    body: dict[str, Any] = {"message": message, "type": kind.chat_type, "code": kind.code}
    if shape is ErrorShape.IMAGES:
        body["param"] = error.param
    elif error.upstream_param is not None:
        body["param"] = error.upstream_param
    return {"error": body}


def _retry_info(error: GatewayError) -> list[dict[str, str]] | None:
    """Return when to come back after a 429, as clients of the gemini shape read it."""
    seconds = error.headers.get("Retry-After", "")
    if error.http_status != 429 or not seconds.isdecimal():
        return None
    return [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{seconds}s"}]


def _encodable(text: str) -> str:
    """Replace lone surrogates, which a client's own JSON may have put into a message."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
