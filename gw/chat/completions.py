"""POST /v1/chat/completions (spec: Chat, chat-completions protocol)."""

from __future__ import annotations

from actors.router import Candidate
from channels.adapters import chat as adapter
from channels.protocols import chat
from channels.protocols.chat import ChatRequest
from channels.protocols.dialect import CHAT
from channels.registry import ChannelSpec, ModelSpec
from channels.wire.http import UpstreamRequest
from gw.chat.handler import ConversationHandler
from gw.web.errors import INVALID_REQUEST, TOOL_NOT_SUPPORTED, GatewayError


class ChatCompletionsHandler(ConversationHandler):
    """The chat-completions protocol."""

    shape = "chat"
    route = "chat_completions"
    protocol = "chat"
    dialect = CHAT
    agent_keys_allowed = True

    async def on_post(self) -> None:
        request = self.read(lambda: chat.read_request(self.body))
        check_tools(request)

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


def check_tools(request: ChatRequest) -> None:
    """Built-in tools run over a channel's responses protocol (contract §7: Built-in tools)."""
    if not request.builtin_tools:
        return
    tool = request.builtin_tools[0]
    if not request.stream:
        raise GatewayError(
            INVALID_REQUEST,
            f"The built-in tool `{tool}` needs `stream: true` on this endpoint.",
            param="stream",
        )
    raise GatewayError(
        TOOL_NOT_SUPPORTED,
        f"The built-in tool `{tool}` is not supported by the channels of this model.",
        param="tools",
    )
