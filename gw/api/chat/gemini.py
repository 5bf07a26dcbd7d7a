"""POST /v1beta/models/{model}:generateContent and :streamGenerateContent (reference 2.1).

A stream is server-sent events with `alt=sse` and one JSON array without it (reference 2.1); the
upstream is asked for events either way.
"""

from __future__ import annotations

from channels.dialects.gemini.array_stream import CONTENT_TYPE, ArrayFraming
from channels.dialects.gemini.dialect import DIALECT as GEMINI
from channels.dialects.validation import is_repeatable
from channels.http.sse import SseEvent
from gw.api.chat.conversation import converse
from gw.api.handler import ApiHandler
from gw.api.model_call import ModelCall
from gw.errors import INVALID_REQUEST, GatewayError

STREAM = "streamGenerateContent"


class GeminiHandler(ApiHandler):
    """The native-content protocol."""

    def named_model(self) -> str | None:
        named: str = self.path_args[0]
        return self.model_name or (named if is_repeatable(named) else None)

    def unknown_path(self) -> GatewayError:
        return unfit_model()

    async def on_post(self, model_id: str = "", verb: str = "") -> None:
        path = {"model": model_id, "stream": verb == STREAM}
        call = ModelCall(self)
        request = await call.read_request(GEMINI, **path)
        is_sse = self.get_query_argument("alt", "") == "sse"
        framing = None if is_sse else ArrayStream()
        await converse(call, GEMINI, request, path=path, framing=framing)


def unfit_model() -> GatewayError:
    """Return the error for a path that names no model."""
    return GatewayError(INVALID_REQUEST, "model: control characters are not allowed.")


class ArrayStream:
    """A stream as the elements of one JSON array; an array left open was cut."""

    content_type = CONTENT_TYPE
    keeps_events = False

    def __init__(self) -> None:
        self._framing = ArrayFraming()

    def event(self, event: SseEvent) -> bytes:
        return b"" if event.data is None else self._framing.element(event.data)

    def end(self) -> bytes:
        return self._framing.end()

    def broken(self, message: str) -> bytes:
        return b""
