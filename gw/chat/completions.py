"""POST /v1/chat/completions (spec: Chat, chat-completions protocol)."""

from __future__ import annotations

from actors.router import Candidate
from channels.adapters import chat as adapter
from channels.protocols import chat
from channels.protocols.dialect import CHAT
from channels.registry import ChannelSpec, ModelSpec
from channels.wire.http import UpstreamRequest
from gw.chat.handler import ConversationHandler


class ChatCompletionsHandler(ConversationHandler):
    """The chat-completions protocol."""

    shape = "chat"
    route = "chat_completions"
    protocol = "chat"
    dialect = CHAT
    agent_keys_allowed = True
    tools_protocol = "responses"

    async def on_post(self) -> None:
        request = self.read(lambda: chat.read_request(self.body))

        def prepare(
            candidate: Candidate, channel: ChannelSpec, model: ModelSpec
        ) -> UpstreamRequest:
            body = chat.upstream_body(
                request,
                upstream_model=candidate.upstream_model,
                max_tokens_param=channel.max_tokens_param,
                default_max_tokens=model.max_output_tokens,
            )
            return adapter.request(channel, body)

        await self.converse(request, prepare, forwards_usage=request.include_usage)
