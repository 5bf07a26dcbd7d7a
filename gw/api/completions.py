"""A call with an agent's key: checks, instructions and retrieval, then an ordinary call.

The order is the contract's (§6): the body, the agent, its model and its bases, pictures, and only
then retrieval and hold. Nothing in the request changes which agent and account the call has.
"""

from __future__ import annotations

import time
from asyncio import Future
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, cast

import msgspec
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
from channels.errors import InvalidRequest, UpstreamMalformed
from channels.http.sse import SseSplitter
from channels.json.weight import weight_of
from channels.registry import ModelSpec
from gw.agents.excerpts import framed
from gw.agents.permission import AgentRefused, model_of
from gw.agents.retrieval import QUESTION_CHARACTERS, retrieve
from gw.api.chat import ChatCompletionsHandler, ModelCall, converse
from gw.api.response_writer import HandlerWriter
from gw.calls.chat import TIMED_OUT
from gw.calls.request import lacking_tool
from gw.errors import (
    MODEL_NO_VISION,
    PERMISSION_DENIED,
    UPSTREAM_TIMEOUT,
    GatewayError,
    from_upstream,
    invalid_request,
)
from gw.keys.principal import AGENT, Agent
from metrics.logs import EventLog

# Collects a stream of chat-completions into one response.
#
# Tools run by the provider require a stream on this protocol; a client that requested none receives
# the response in one piece, once it is complete and settled.

_CUT = "The upstream ended its answer before it was complete."
_TOO_LARGE = "The upstream's answer is too large."
_DONE = b"[DONE]"


class CollectingWriter:
    """A response writer that collects a stream; `deliver` sends the result.

    A stream longer than `bytes_max` is a failed one.
    """

    sends_at_once = False

    def __init__(self, writer: HandlerWriter, *, bytes_max: int) -> None:
        self._writer = writer
        self._room = bytes_max
        self._splitter = SseSplitter()
        self._headers: Mapping[str, str] = {}
        self._whole: dict[str, Any] = {}
        self._choices: dict[int, _Choice] = {}
        self._error: str | None = None
        self._is_done = False

    @property
    def client_gone(self) -> bool:
        return self._writer.client_gone

    def hold_decided(self) -> None:
        self._writer.hold_decided()

    def forget_request(self) -> None:
        self._writer.forget_request()

    def begin(
        self, content_type: str, headers: Mapping[str, str], *, http_status: int = 200
    ) -> None:
        self._headers = headers

    def write(self, block: bytes) -> Future[None] | None:
        self._room -= len(block)
        if self._room < 0:
            self._choices.clear()
            raise UpstreamMalformed(_TOO_LARGE)
        for event in self._splitter.feed(block):
            if event.data == _DONE:
                self._is_done = True
            elif event.data is not None:
                self._take(msgspec.json.decode(event.data))
        return None

    def finish(self, block: bytes) -> None:
        if self._room >= 0:
            self.write(block)

    def break_off(self, block: bytes) -> None:
        self.finish(block)

    def send(self, body: bytes, before_write: Callable[[], None] | None = None) -> None:
        raise AssertionError("what is asked for as a stream comes as one")

    def deliver(self) -> None:
        """Send the response. Raises GatewayError if the stream failed, which is settled."""
        if self._room < 0:
            raise from_upstream(502, _TOO_LARGE)
        if self._error == TIMED_OUT:
            raise GatewayError(UPSTREAM_TIMEOUT, self._error)
        if self._error is not None or not self._is_done:
            raise from_upstream(502, self._error or _CUT)
        choices = [
            {
                "index": index,
                "message": choice.message(),
                "finish_reason": choice.finish_reason,
            }
            for index, choice in sorted(self._choices.items())
        ]
        whole = {**self._whole, "object": "chat.completion", "choices": choices}
        self._writer.begin("application/json", self._headers)
        self._writer.send(msgspec.json.encode(whole))

    def _take(self, chunk: dict[str, Any]) -> None:
        if "error" in chunk:
            self._error = str(chunk["error"].get("message") or _CUT)
            return
        for choice in chunk.pop("choices", None) or ():
            self._take_choice(choice)
        self._whole |= {name: value for name, value in chunk.items() if value is not None}

    def _take_choice(self, choice: dict[str, Any]) -> None:
        kept = self._choices.setdefault(choice["index"], _Choice())
        kept.finish_reason = choice.get("finish_reason") or kept.finish_reason
        for name, piece in (choice.get("delta") or {}).items():
            if piece is not None:
                kept.pieces.setdefault(name, []).append(piece)


class _Choice:
    """The received part of one choice: the pieces of each member of its message, in order."""

    def __init__(self) -> None:
        self.finish_reason: str | None = None
        self.pieces: dict[str, list[Any]] = {}

    def message(self) -> dict[str, Any]:
        members = {name: _joined(pieces) for name, pieces in self.pieces.items()}
        return {"content": None, **members, "role": "assistant"}


def _joined(pieces: list[Any]) -> Any:
    """Concatenate texts and lists; of other values the last one counts."""
    if all(isinstance(piece, str) for piece in pieces):
        return "".join(pieces)
    if all(isinstance(piece, list) for piece in pieces):
        return [one for piece in pieces for one in piece]
    return pieces[-1]


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
            kind = MODEL_NO_VISION if outcome == "no_vision" else PERMISSION_DENIED
            raise GatewayError(kind, str(refused)) from None
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
            raise invalid_request(invalid) from None
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


# POST /v1/chat/completions (spec: Chat, chat-completions protocol; Agent API).


class CompletionsHandler(ChatCompletionsHandler):
    """Serves keys of every kind; those of agents work only on this endpoint."""

    agent_keys_allowed = True

    async def run_agent(self) -> None:
        await AgentCall(ModelCall(self)).run()

    def named_model(self) -> str | None:
        """Return the agent's model; the client's model name is ignored."""
        if self.principal.kind == AGENT:
            agent = self.principal.agent
            own = None if agent is None else agent.model or agent.default_model
            return self.model_name or own
        return super().named_model()
