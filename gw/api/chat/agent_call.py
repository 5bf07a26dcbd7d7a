"""A call with an agent's key: checks, instructions and retrieval, then an ordinary call.

The order (reference 9.2): the body, the agent, its model and its bases, pictures, and only
then retrieval and hold. Nothing in the request changes which agent and account the call has.
"""

from __future__ import annotations

import time
from collections.abc import Coroutine
from typing import Any, cast

from msgspec.structs import replace

from channels.dialects.chat.dialect import DIALECT
from channels.dialects.chat.instructed import (
    InstructedTurn,
    Instructions,
    instructed_at_once,
    instructed_body,
    instructed_job,
    read_instructed,
    read_turn,
    turn_job,
)
from channels.dialects.chat.request import ChatRequest
from channels.errors import InvalidRequest
from channels.json.weight import weight_of
from channels.registry import ModelSpec
from gw import errors
from gw.agents.excerpts import framed
from gw.agents.permission import AgentRefused, model_of
from gw.agents.retrieval import QUESTION_CHARACTERS, retrieve
from gw.api.chat.collecting_writer import CollectingWriter
from gw.api.chat.conversation import converse
from gw.api.model_call import ModelCall
from gw.api.response_writer import HandlerWriter
from gw.calls.builtin_tools import lacking_tool
from gw.keys.principal import Agent
from metrics.logs import EventLog

# Switches of an agent: the tool, and the flag of models that support it.
_CAPABILITIES = {"web_search": "web_search", "image_generation": "image_gen"}
_LOG = EventLog("gw.agents")


class AgentCall:
    """One call of a model by an agent."""

    def __init__(self, call: ModelCall) -> None:
        self._call = call
        self._handler = handler = call.handler
        self._services = handler.services
        self._metrics = self._services.metrics.agents

    async def run(self) -> None:
        """Serve the call. Raises GatewayError while nothing has been sent."""
        outcome = "failed"
        try:
            await self._serve()
            outcome = "ok"
        except AgentRefused as refused:
            outcome = refused.outcome
            principal = self._handler.principal
            _LOG.info(
                "agent.refused",
                agent=principal.agent_id,
                account=principal.account_id,
                key=principal.key_id,
                reason=outcome,
            )
            kind = errors.MODEL_NO_VISION if outcome == "no_vision" else errors.PERMISSION_DENIED
            raise errors.GatewayError(kind, str(refused)) from None
        finally:
            self._metrics.called(outcome)

    async def _serve(self) -> None:
        handler = self._handler
        agent = handler.principal.agent
        if agent is not None and (instructed := self._instructed_at_once(agent)) is not None:
            await self._converse(*instructed)
            return
        turn = await self._turn(wants_text=agent is not None and bool(agent.kbs))
        model = self._model(agent)
        assert agent is not None
        handler.model_name = model.id
        reading = await self._reading(agent, model, turn)
        tools = self._tools(agent, model)
        is_collected = bool(tools) and not turn.stream
        given = Instructions(
            model=model.id,
            persona=agent.system_prompt,
            reading=reading,
            temperature=agent.temperature,
            tools=tools,
            is_collected=is_collected,
        )
        request, body = await self._instructed(given)
        if turn.fault is not None:
            request = replace(request, fault=turn.fault)
        if not is_collected:
            await self._converse(request, body)
            return
        collected = CollectingWriter(
            HandlerWriter(handler), bytes_max=self._services.current.config.max_body_bytes
        )
        await self._converse(request, body, collected)
        collected.deliver()

    def _converse(
        self, request: ChatRequest, body: bytes, writer: CollectingWriter | None = None
    ) -> Coroutine[Any, Any, None]:
        call = self._call
        call.handler.request.forget_body()
        call.weight = weight_of(body)
        call.attribute(request.object.raw)
        call.find_model(request.model, request.parameters)
        return converse(
            call,
            DIALECT,
            request,
            forwards_usage=request.include_usage,
            body=body,
            writer=writer,
        )

    def _model(self, agent: Agent | None) -> ModelSpec:
        """Return the model to be called. Raises AgentRefused."""
        default = self._services.current.config.agents.default_model
        return model_of(agent, self._services.current.registry, default)

    def _instructed_at_once(self, agent: Agent) -> tuple[ChatRequest, bytes] | None:
        """Return the request for an agent with only a persona and an ordinary body; else None."""
        if agent.kbs or agent.web_search or agent.image_generation or self._call.is_heavy:
            return None
        try:
            model = self._model(agent)
        except AgentRefused:  # an invalid body is refused first
            return None
        given = Instructions(model.id, agent.system_prompt, temperature=agent.temperature)
        return instructed_at_once(self._handler.request.body, given)

    async def _turn(self, *, wants_text: bool) -> InstructedTurn:
        """Parse the client's message. Raises GatewayError."""
        characters = QUESTION_CHARACTERS if wants_text else 0
        try:
            if not self._call.is_heavy:
                return read_turn(self._handler.request.body, text_characters=characters)
            turn, _ = await self._call.offload(turn_job, characters)
        except InvalidRequest as invalid:
            raise errors.invalid_request(invalid) from None
        return cast(InstructedTurn, turn)

    async def _reading(self, agent: Agent, model: ModelSpec, turn: InstructedTurn) -> str:
        """Return the retrieved text for the question, or an empty one. Raises AgentRefused."""
        if not agent.kbs:
            _check_vision(model, turn)
            return ""
        question = turn.text if _can_see(model, turn) else ""
        began = time.perf_counter()
        pages = await retrieve(
            self._services.agents,
            agent,
            question,
            self._services.current.config.agents,
            account_id=self._handler.principal.account_id,
        )
        _check_vision(model, turn)
        if not question.strip():
            return ""
        seconds = time.perf_counter() - began
        self._services.metrics.knowledge.searched(
            surface="agent", result="any" if pages else "none", seconds=seconds
        )
        self._metrics.retrieved(seconds=seconds, pages=len(pages))
        return framed(pages) if pages else ""

    def _tools(self, agent: Agent, model: ModelSpec) -> tuple[str, ...]:
        """Return the enabled tools that a channel of the model runs: all, or else the first."""
        wanted = tuple(
            tool
            for tool, capability in _CAPABILITIES.items()
            if getattr(agent, tool) and capability in model.capabilities
        )
        for tools in (wanted, *((tool,) for tool in wanted)):
            if tools and self._is_run(tools, model):
                return tools
        return ()

    def _is_run(self, tools: tuple[str, ...], model: ModelSpec) -> bool:
        run_over = DIALECT.family.tools_over or DIALECT.protocol
        channels = self._services.current.registry.channels
        if not any(run_over in channels[bound.channel_id].protocols for bound in model.bindings):
            return False
        lacking = lacking_tool(tools, model, channels, protocol=DIALECT.protocol, run_over=run_over)
        return lacking is None

    async def _instructed(self, given: Instructions) -> tuple[ChatRequest, bytes]:
        """Return the instructed request, and its body."""
        if self._call.is_heavy:
            request, body = await self._call.offload(instructed_job, given)
            assert body is not None
        else:
            body = instructed_body(self._handler.request.body, given)
            request = read_instructed(body)
        return request, body


def _check_vision(model: ModelSpec, turn: InstructedTurn) -> None:
    """Raise AgentRefused for pictures if the model has no vision."""
    if not _can_see(model, turn):
        raise AgentRefused("no_vision", "The model of this agent takes no images.")


def _can_see(model: ModelSpec, turn: InstructedTurn) -> bool:
    return not turn.has_images or "vision" in model.capabilities
