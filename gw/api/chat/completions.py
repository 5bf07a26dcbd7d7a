"""POST /v1/chat/completions (reference 2.1, 9.2)."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from channels.dialects.chat.dialect import DIALECT as CHAT
from gw.api.chat.agent_call import AgentCall
from gw.api.chat.conversation import converse
from gw.api.handler import ApiHandler
from gw.api.model_call import ModelCall
from gw.keys.principal import AGENT


class CompletionsHandler(ApiHandler):
    """Serves keys of every kind; those of agents work only on this endpoint."""

    def on_post(self) -> Coroutine[Any, Any, None]:
        call = ModelCall(self)
        if self.principal.kind == AGENT:
            return AgentCall(call).run()
        if call.is_heavy:
            return self._run_heavy(call)
        request = call.read_here(CHAT)
        return converse(call, CHAT, request, forwards_usage=request.include_usage)

    async def _run_heavy(self, call: ModelCall) -> None:
        request = await call.read_request(CHAT)
        await converse(call, CHAT, request, forwards_usage=request.include_usage)

    def named_model(self) -> str | None:
        """Return the agent's model; the client's model name is ignored."""
        if self.principal.kind == AGENT:
            agent = self.principal.agent
            own = None if agent is None else agent.model or agent.default_model
            return self.model_name or own
        return super().named_model()
