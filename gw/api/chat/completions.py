"""POST /v1/chat/completions (spec: Chat, chat-completions protocol; Agent API)."""

from __future__ import annotations

from channels.dialects.chat.dialect import DIALECT
from gw.api.base import ApiHandler
from gw.api.chat.agent_call import AgentCall
from gw.api.chat.handler import converse
from gw.api.model_call import ModelCall
from gw.keys.principal import AGENT


class ChatCompletionsHandler(ApiHandler):
    """The chat-completions protocol, and the one endpoint that agents' keys work on."""

    shape = DIALECT.family.error_shape
    route = "chat_completions"
    protocol = DIALECT.protocol
    limited = billed = True
    agent_keys_allowed = True

    async def on_post(self) -> None:
        call = ModelCall(self)
        if self.principal.kind == AGENT:
            await AgentCall(call).run()
            return
        request = await call.read(DIALECT)
        await converse(call, DIALECT, request, forwards_usage=request.include_usage)

    def named_model(self) -> str | None:
        """Of an agent, what it calls: the client's word for it counts for nothing."""
        if self.principal.kind == AGENT:
            agent = self.principal.agent
            own = None if agent is None else agent.model or agent.default_model
            return self.model_name or own
        return super().named_model()
