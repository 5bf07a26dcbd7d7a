"""POST /v1/chat/completions (spec: Chat, chat-completions protocol)."""

from __future__ import annotations

from channels import families
from channels.dialects import chat
from channels.dialects.chat import address as adapter
from channels.dialects.dialect import CHAT
from gw.api.chat.handler import ConversationHandler, NativeSpeech


class ChatCompletionsHandler(ConversationHandler):
    """The chat-completions protocol."""

    shape = families.CHAT.error_shape
    route = "chat_completions"
    protocol = families.CHAT.protocol
    dialect = CHAT
    agent_keys_allowed = True
    tools_protocol = families.RESPONSES.protocol

    async def on_post(self) -> None:
        if self.is_light():
            request = self.read(lambda: chat.read_request(self.body))
        else:
            request = await self.read_elsewhere()

        native = NativeSpeech(
            write=chat.upstream_body,
            options=lambda candidate, channel, model: {
                "upstream_model": candidate.upstream_model,
                "max_tokens_param": channel.max_tokens_param,
                "default_max_tokens": model.max_output_tokens,
            },
            address=lambda candidate, channel, body: adapter.request(channel, body),
        )
        await self.converse(request, native, forwards_usage=request.include_usage)
