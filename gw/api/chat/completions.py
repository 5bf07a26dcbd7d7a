"""POST /v1/chat/completions (spec: Chat, chat-completions protocol)."""

from __future__ import annotations

from channels import families
from channels.dialects import chat
from gw.api.chat.handler import ConversationHandler


class ChatCompletionsHandler(ConversationHandler):
    """The chat-completions protocol."""

    shape = families.CHAT.error_shape
    route = "chat_completions"
    protocol = families.CHAT.protocol
    agent_keys_allowed = True
    tools_protocol = families.RESPONSES.protocol

    async def on_post(self) -> None:
        if self.is_light():
            request = self.read(lambda: chat.read_request(self.body))
        else:
            request = await self.read_elsewhere()
        await self.converse(request, forwards_usage=request.include_usage)
