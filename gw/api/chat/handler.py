"""What the endpoints of the chat protocols share: the conversation is run, and how it is named.

How a request is read is its dialect's; an endpoint whose headers, path or responses ask for more
has its own file. Everything that costs or waits is the conversation's
(`gw/calls/conversation.py`), what a channel is sent is `gw/calls/plan.py`.
"""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from channels.dialects.dialect import ChatDialect, ParsedChatRequest
from channels.translation.paths import upstream_protocols
from gw.api.base import ApiHandler
from gw.api.call_spans import begin_span
from gw.api.chat.stated import conversation_of, number_of
from gw.api.model_call import ModelCall
from gw.api.writer import HandlerWriter
from gw.calls.call import ChatCall, ResponseWriter
from gw.calls.conversation import Conversation
from gw.calls.framing import Framing, SseFraming
from gw.calls.plan import ConversationRequest
from gw.calls.tools import lacking_tool
from gw.errors.table import TOOL_NOT_SUPPORTED, GatewayError
from metrics import genai
from metrics.redact import redact
from metrics.spans import Attributes, AttributeValue

# A pin is hashed and never stored; this bounds what is hashed.
PIN_CHARACTERS_MAX = 512


def converse(
    call: ModelCall,
    dialect: ChatDialect,
    request: ParsedChatRequest,
    *,
    path: Mapping[str, Any] | None = None,
    own: Mapping[str, str] | None = None,
    own_headers: tuple[tuple[str, str], ...] = (),
    forwards_usage: bool = True,
    framing: Framing | None = None,
    body: bytes | None = None,
    writer: ResponseWriter | None = None,
) -> Coroutine[Any, Any, None]:
    """Serve the call: what is returned has to be awaited. Both raise GatewayError while nothing has
    been sent.

    `path`, `own` and `own_headers` are those of `ConversationRequest`. `body` is what `request` was
    read of where that is not the client's, `writer` what takes a response that is not its client's.
    """
    handler, model = call.handler, call.model
    services = handler.services
    if body is None:
        body = handler.request.body
    reached = upstream_protocols(dialect.protocol, services.translations())
    if request.builtin_tools:
        _refuse_tools(call, dialect, request.builtin_tools, reached)
    chat_call = ChatCall(
        facts=call.facts(),
        model=model,
        cap_nano_usd=handler.principal.spend_cap_nano_usd,
        is_stream=request.stream,
        forwards_usage=forwards_usage,
        content_bytes=request.content_bytes,
        body_bytes=len(body),
        max_tokens=request.max_tokens,
        pin=_pin(handler),
        span=begin_span(handler, model, lambda: _attributes(handler, request)),
        request=ConversationRequest(
            request,
            protocol=dialect.protocol,
            model=model,
            body=body,
            weight=call.weight,
            offload=services.offload,
            redact=services.redact,
            path=path,
            own=own,
            own_headers=own_headers,
            is_strict=handler.request.headers.get("X-Protocol-Strict", "") == "1",
        ),
        started=services.clock.monotonic(),
        tools=request.builtin_tools,
        tools_protocol=dialect.family.tools_over,
        framing=framing or SseFraming(),
        translations=reached,
        detail=call.detail,
    )
    conversation: Conversation = handler.settings["conversation"]
    return conversation.run(chat_call, writer or HandlerWriter(handler))


def _refuse_tools(
    call: ModelCall, dialect: ChatDialect, tools: Sequence[str], reached: Sequence[str]
) -> None:
    """A tool that no channel of the model has is refused before anything is held."""
    lacking = lacking_tool(
        tools,
        call.model,
        call.handler.services.registry().channels,
        protocol=dialect.protocol,
        run_over=dialect.family.tools_over or dialect.protocol,
        reached=reached,
    )
    if lacking is not None:
        raise GatewayError(
            TOOL_NOT_SUPPORTED,
            f"The built-in tool `{lacking}` is not supported by the channels of this model.",
            param="tools",
        )


def _pin(handler: ApiHandler) -> str | None:
    """What keeps a conversation on one channel (spec: Agent API; contract §4)."""
    headers = handler.request.headers
    session = headers.get("session_id") or headers.get("conversation_id")
    if not session:
        return None
    return f"{handler.principal.account_id}/{session[:PIN_CHARACTERS_MAX]}"


def _attributes(handler: ApiHandler, request: ParsedChatRequest) -> Attributes:
    """What the span of a sampled call says of its request."""
    headers, parameters = handler.request.headers, request.parameters
    named = headers.get("session_id") or headers.get("conversation_id")
    session = named or conversation_of(request.object)
    pairs: dict[str, AttributeValue | None] = {
        genai.REQUEST_STREAM: request.stream,
        genai.REQUEST_MAX_TOKENS: request.max_tokens,
        genai.REQUEST_TEMPERATURE: number_of(parameters.get("temperature")),
        genai.REQUEST_TOP_P: number_of(parameters.get("top_p")),
        genai.CONVERSATION_ID: redact(session[:PIN_CHARACTERS_MAX]) if session else None,
    }
    return {name: value for name, value in pairs.items() if value is not None}


def endpoint(dialect: ChatDialect) -> type[ApiHandler]:
    """The endpoint of a dialect that is served by its record alone."""
    family = dialect.family

    class DialectHandler(ApiHandler):
        protocol = family.protocol
        route = family.protocol
        shape = family.error_shape
        limited = billed = True

        async def on_post(self) -> None:
            call = ModelCall(self)
            await converse(call, dialect, await call.read(dialect))

    DialectHandler.__name__ = f"{family.dialect.title()}Handler"
    DialectHandler.__doc__ = f"The {family.public_name} protocol."
    return DialectHandler
