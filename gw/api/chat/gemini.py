"""POST /v1beta/models/{model}:generateContent and :streamGenerateContent (spec: native-content).

A stream is server-sent events with `alt=sse` and one JSON array without it (contract §5); the
upstream is asked for events either way.
"""

from __future__ import annotations

from channels.dialects import gemini
from channels.dialects.gemini.dialect import DIALECT
from channels.dialects.validate import is_repeatable
from channels.http.sse import SseEvent
from gw.api.base import ApiHandler
from gw.api.chat.handler import converse
from gw.api.model_call import ModelCall

STREAM = "streamGenerateContent"


class GeminiHandler(ApiHandler):
    """The native-content protocol."""

    shape = DIALECT.family.error_shape
    route = "native"
    protocol = DIALECT.protocol
    limited = billed = True

    def named_model(self) -> str | None:
        named: str = self.path_args[0]
        return self.model_name or (named if is_repeatable(named) else None)

    async def on_post(self, model_id: str = "", verb: str = "") -> None:
        path = {"model": model_id, "stream": verb == STREAM}
        call = ModelCall(self)
        request = await call.read(DIALECT, **path)
        is_sse = self.get_query_argument("alt", "") == "sse"
        framing = None if is_sse else ArrayStream()
        await converse(call, DIALECT, request, path=path, framing=framing)


class ArrayStream:
    """A stream as the elements of one JSON array; an array left open was cut."""

    content_type = gemini.CONTENT_TYPE
    keeps_events = False

    def __init__(self) -> None:
        self._framing = gemini.ArrayFraming()

    def event(self, event: SseEvent) -> bytes:
        return b"" if event.data is None else self._framing.element(event.data)

    def end(self) -> bytes:
        return self._framing.end()

    def broken(self, message: str) -> bytes:
        return b""
