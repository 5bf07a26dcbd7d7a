"""Paths on which providers serve the wires of the simulator, beside the usual ones.

Each is the provider's own, as its documentation has it; how the key is sent there is, too: several
take it as a bearer token on messages. A request on another provider's path, or without the key in
its place, fails as it would over there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from loadtests.simulator.dialects.base import Dialect, bearer
from loadtests.simulator.dialects.chat import ChatDialect
from loadtests.simulator.dialects.messages import MessagesDialect
from loadtests.simulator.dialects.responses import ResponsesDialect
from loadtests.simulator.exchange import Exchange


class BearerMessagesDialect(MessagesDialect):
    """Messages of those who take their key as a bearer token."""

    def authenticate(self, exchange: Exchange) -> str:
        return bearer(exchange)


_CHAT = ChatDialect()
_RESPONSES = ResponsesDialect()
_BEARER_MESSAGES = BearerMessagesDialect()

ROUTES: Final[Mapping[bytes, Dialect]] = {
    # Groq
    b"/openai/v1/chat/completions": _CHAT,
    b"/openai/v1/responses": _RESPONSES,
    # OpenRouter
    b"/api/v1/chat/completions": _CHAT,
    b"/api/v1/responses": _RESPONSES,
    b"/api/v1/messages": _BEARER_MESSAGES,
    # Fireworks
    b"/inference/v1/chat/completions": _CHAT,
    b"/inference/v1/responses": _RESPONSES,
    b"/inference/v1/messages": _BEARER_MESSAGES,
    # Zhipu, Z.ai
    b"/api/paas/v4/chat/completions": _CHAT,
    b"/api/anthropic/v1/messages": MessagesDialect(),
    # Ark
    b"/api/v3/chat/completions": _CHAT,
    b"/api/v3/responses": _RESPONSES,
    # DashScope
    b"/compatible-mode/v1/chat/completions": _CHAT,
    # DeepSeek
    b"/anthropic/v1/messages": MessagesDialect(),
}
