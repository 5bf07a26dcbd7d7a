"""POST /v1/chat/completions (spec: Chat, chat-completions protocol)."""

from __future__ import annotations

from channels.dialects.chat.dialect import DIALECT
from gw.api.chat.handler import ConversationHandler


class ChatCompletionsHandler(ConversationHandler):
    """The chat-completions protocol."""

    shape = DIALECT.family.error_shape
    route = "chat_completions"
    protocol = DIALECT.protocol
    dialect = DIALECT
    agent_keys_allowed = True

    async def on_post(self) -> None:
        request = await self.read_chat()
        await self.converse(request, forwards_usage=request.include_usage)
