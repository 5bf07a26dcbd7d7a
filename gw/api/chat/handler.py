"""What the endpoints of the chat protocols share: read, resolve, run the conversation.

How a request is read is its dialect's; an endpoint whose headers, path or responses ask for more
has its own file. Everything that costs or waits is the conversation's
(`gw/calls/conversation.py`), what a channel is sent is `gw/calls/plan.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, cast

from channels.dialects.dialect import ChatDialect, ParsedChatRequest
from channels.registry import ModelSpec
from channels.translation.paths import upstream_protocols
from gw.api.model_call import ModelCallHandler
from gw.api.writer import HandlerWriter
from gw.calls.call import ChatCall
from gw.calls.conversation import Conversation
from gw.calls.framing import Framing, SseFraming
from gw.calls.plan import ChatRequest
from gw.calls.tools import lacking_tool
from gw.errors.table import TOOL_NOT_SUPPORTED, GatewayError
from metrics import genai
from metrics.spans import Attributes
from metrics.tracing import AttributeValue, CallSpan

# A pin is hashed and never stored; this bounds what is hashed.
PIN_CHARACTERS_MAX = 512


class ConversationHandler(ModelCallHandler):
    """One chat call."""

    dialect: ClassVar[ChatDialect]

    async def on_post(self) -> None:
        await self.converse(await self.read_chat())

    async def read_chat(self, **path: Any) -> Any:
        """The request, as its dialect reads it of body and `path`. Raises GatewayError."""
        if self.is_light():
            return self.read(lambda: self.dialect.read_request(self.request.body, **path))
        return await self.read_elsewhere(**path)

    async def converse(
        self,
        request: ParsedChatRequest,
        *,
        path: Mapping[str, Any] | None = None,
        own: Mapping[str, str] | None = None,
        own_headers: tuple[tuple[str, str], ...] = (),
        forwards_usage: bool = True,
        framing: Framing | None = None,
    ) -> None:
        """Serve the call. Raises GatewayError while nothing has been sent.

        `path`, `own` and `own_headers` are those of `ChatRequest`.
        """
        model = self._model
        reached = upstream_protocols(self.protocol, self.services.translations())
        if request.builtin_tools:
            self._refuse_tools(request.builtin_tools, model, reached)
        call = ChatCall(
            facts=self.facts(),
            model=model,
            cap_nano_usd=self.principal.spend_cap_nano_usd,
            is_stream=request.stream,
            forwards_usage=forwards_usage,
            content_bytes=request.content_bytes,
            body_bytes=len(self.request.body),
            max_tokens=request.max_tokens,
            pin=self._pin(),
            span=self._span(request, model),
            request=ChatRequest(
                request,
                protocol=self.protocol,
                model=model,
                body=self.request.body,
                weight=self.weight,
                offload=self.services.offload,
                redact=self.services.redact,
                path=path,
                own=own,
                own_headers=own_headers,
                is_strict=self.request.headers.get("X-Protocol-Strict", "") == "1",
            ),
            started=self.services.clock.monotonic(),
            tools=request.builtin_tools,
            tools_protocol=self.dialect.family.tools_over,
            framing=framing or SseFraming(),
            translations=reached,
            detail=self._detail,
        )
        conversation = cast(Conversation, self.settings["conversation"])
        await conversation.run(call, HandlerWriter(self))

    def _refuse_tools(self, tools: Sequence[str], model: ModelSpec, reached: Sequence[str]) -> None:
        """A tool that no channel of the model has is refused before anything is held."""
        lacking = lacking_tool(
            tools,
            model,
            self.services.registry().channels,
            protocol=self.protocol,
            run_over=self.dialect.family.tools_over or self.protocol,
            reached=reached,
        )
        if lacking is not None:
            raise GatewayError(
                TOOL_NOT_SUPPORTED,
                f"The built-in tool `{lacking}` is not supported by the channels of this model.",
                param="tools",
            )

    def _pin(self) -> str | None:
        """What keeps a conversation on one channel (spec: Agent API; contract §4)."""
        headers = self.request.headers
        session = headers.get("session_id") or headers.get("conversation_id")
        if not session:
            return None
        return f"{self.principal.account_id}/{session[:PIN_CHARACTERS_MAX]}"

    def _span(self, request: ParsedChatRequest, model: ModelSpec) -> CallSpan:
        def attributes() -> Attributes:
            pairs: dict[str, AttributeValue] = {
                genai.OPERATION_NAME: "chat",
                genai.PROVIDER_NAME: model.owned_by,
                genai.REQUEST_MODEL: model.id,
                genai.REQUEST_STREAM: request.stream,
                "gw.protocol": self.protocol,
                "gw.call": self.call_id.hex,
                "gw.account": self.principal.account_id,
            }
            if request.max_tokens is not None:
                pairs[genai.REQUEST_MAX_TOKENS] = request.max_tokens
            return pairs

        return self.services.tracing.start_call(
            name="gw.chat.complete",
            traceparent=self.request.headers.get("traceparent"),
            attributes=attributes,
        )


def endpoint(dialect: ChatDialect) -> type[ConversationHandler]:
    """The endpoint of a dialect that is served by its record alone."""
    family = dialect.family
    members = {
        "__doc__": f"The {family.public_name} protocol.",
        "dialect": dialect,
        "protocol": family.protocol,
        "route": family.protocol,
        "shape": family.error_shape,
    }
    return type(f"{family.dialect.title()}Handler", (ConversationHandler,), members)
