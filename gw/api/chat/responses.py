"""POST /v1/responses, and its WebSocket (spec: Chat, responses protocol)."""

from __future__ import annotations

from channels.dialects.responses.dialect import DIALECT as RESPONSES
from gw.api.chat.conversation import converse
from gw.api.chat.socket import serve_socket
from gw.api.handler import ApiHandler
from gw.api.model_call import ModelCall


class ResponsesHandler(ApiHandler):
    """The responses protocol."""

    on_get = serve_socket

    async def on_post(self) -> None:
        call = ModelCall(self)
        await converse(call, RESPONSES, await call.read_request(RESPONSES))
