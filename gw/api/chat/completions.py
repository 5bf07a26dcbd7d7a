"""POST /v1/chat/completions (spec: Chat, chat-completions protocol)."""

from __future__ import annotations

from channels.dialects.chat.dialect import DIALECT
from gw.api.base import ApiHandler
from gw.api.chat.handler import converse
from gw.api.model_call import ModelCall


class ChatCompletionsHandler(ApiHandler):
    """The chat-completions protocol."""

    shape = DIALECT.family.error_shape
    route = "chat_completions"
    protocol = DIALECT.protocol
    limited = billed = True
    agent_keys_allowed = True

    async def on_post(self) -> None:
        call = ModelCall(self)
        request = await call.read(DIALECT)
        await converse(call, DIALECT, request, forwards_usage=request.include_usage)
