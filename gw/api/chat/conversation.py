"""The conversation of a chat request: how it is named, what is stated of it, and that it is run.

Everything that costs or waits is the use-case's (`gw/calls/chat.py`), what a channel is sent is
`gw/calls/chat_request.py`.
"""

from __future__ import annotations

import math
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from actors.wallet.pricing import Billable
from channels.conversation import (
    MEMBERS,
    NAME_CHARACTERS_MAX,
    PREFIX,
    conversation_of,
    label_of,
    session_of,
)
from channels.credentials import Pairs
from channels.dialects.address import Address
from channels.dialects.dialect import ChatDialect, ParsedChatRequest
from channels.dialects.responses.dialect import DIALECT as RESPONSES
from channels.registry import ModelSpec
from channels.translation.paths import upstream_protocols
from gw.api.attribution import CONVERSATION_HEADERS, conversation_in
from gw.api.call_spans import begin_span
from gw.api.chat.provider_headers import provider_headers
from gw.api.handler import ApiHandler
from gw.api.model_call import ModelCall
from gw.api.response_writer import HandlerWriter
from gw.calls.billable import billed_by, refuse_advisor
from gw.calls.builtin_tools import lacking_tool
from gw.calls.call import ResponseWriter
from gw.calls.chain import Chain
from gw.calls.chat_request import ChatCall, ChatClientRequest
from gw.calls.stream_events import Framing, SseFraming
from gw.errors import TOOL_NOT_SUPPORTED, GatewayError
from gw.http.tornado.headers import RequestHeaders, spelled
from gw.keys.principal import AGENT, Principal
from metrics import genai
from metrics.log_redaction import redact
from metrics.spans import Attributes, AttributeValue


def number_of(text: str | None) -> float | None:
    """Return a parameter shown in the call log as a number, or None."""
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) else None


# A shorter single turn, without instructions or tools, has no prefix that any provider caches.
PREFIX_BYTES_MIN = 4 * 1024


def converse(
    call: ModelCall,
    dialect: ChatDialect,
    request: ParsedChatRequest,
    *,
    path: Mapping[str, Any] | None = None,
    own: Mapping[str, str] | None = None,
    forwards_usage: bool = True,
    framing: Framing | None = None,
    body: bytes | None = None,
    writer: ResponseWriter | None = None,
    address: Address | None = None,
) -> Coroutine[Any, Any, None]:
    """Return the coroutine that serves the call. Both raise GatewayError while nothing is sent.

    `path`, `own` and `address` are those of `ChatClientRequest`; a call with an address of its
    own is not translated. `body` replaces the client's body if the request was parsed from another
    one, `writer` the client's connection.
    """
    handler, model, protocol = call.handler, call.model, dialect.family.protocol
    services, principal, headers = handler.services, handler.principal, handler.request.headers
    current, tools = services.current, request.builtin_tools
    if body is None:
        body = handler.request.body
    named, is_strict = None, False
    own_headers: Pairs = ()
    if headers.unread_by is not dialect and _are_read(headers, dialect):
        named, is_strict = conversation_in(headers), headers.get(_STRICT_HEADER) == "1"
        own_headers = provider_headers(headers, dialect)
    conversation, pin = named or _conversation(principal, request, len(body)), None
    is_named = conversation is not None and not conversation.startswith(PREFIX)
    if conversation is not None:
        label = call.detail["conversation"] = label_of(conversation)
        if is_named:
            call.belongs_to(label)
        pin = f"{principal.account_id}/{conversation}"  # an account can only use its own pins
    started = services.clock.monotonic()
    reached = upstream_protocols(protocol, current.config.translations) if address is None else ()
    chain, billable = None, None
    if model.chain:
        served = services.chat_calls.served_models
        models = model.chain if pin is None else served.order(model, pin, started)
        billed = partial(_billed, call, dialect, request, body, reached)
        chain = Chain.of(model, models, call.agreed, billed)
        model = replace(model, chain=tuple(one.model for one in chain.steps.values()))
    else:
        billable = _billed(call, dialect, request, body, reached, model)
    # At most 12 arguments by name beside 6: with more, Python makes a dict of them first.
    chat_call = ChatCall(
        call.facts(),
        model,
        principal.spend_cap_nano_usd,
        call.spender(),
        call.demand,
        begin_span(handler, model, _attributes, handler, request),
        forwards_usage=forwards_usage,
        pin=pin,
        is_named=is_named,
        request=ChatClientRequest(
            request,
            protocol,
            body,
            call.weight,
            call.helpers,
            path,
            model=model,
            redact=current.redact,
            is_repeated=partial(services.openings.is_repeated, principal.account_id, started),
            own=own,
            own_headers=own_headers,
            session=named,
            is_strict=is_strict,
            address=address,
        ),
        started=started,
        billable=billable,
        chain=chain,
        tools=tools,
        tools_protocol=dialect.family.tools_over,
        framing=framing or _PASSED_ON,
        translations=reached,
        detail=call.detail,
    )
    return services.chat_calls.run_call(chat_call, writer or HandlerWriter(handler))


def _billed(
    call: ModelCall,
    dialect: ChatDialect,
    request: ParsedChatRequest,
    body: bytes,
    reached: Sequence[str],
    model: ModelSpec,
) -> Billable | None:
    """Return what a request is billed by at a model. Raises GatewayError: it lacks something."""
    if tools := request.builtin_tools:
        refuse_advisor(model, tools)
        _refuse_tools(call, dialect, tools, reached, model)
    return billed_by(model, request.parameters, body)


def _refuse_tools(
    call: ModelCall,
    dialect: ChatDialect,
    tools: Sequence[str],
    reached: Sequence[str],
    model: ModelSpec,
) -> None:
    """Refuse a tool that no channel of the model has, before anything is held."""
    lacking = lacking_tool(
        tools,
        model,
        call.handler.services.current.registry.channels,
        protocol=dialect.protocol,
        run_over=dialect.family.tools_over or dialect.protocol,
        reached=reached,
    )
    if lacking is not None:
        message = f"The built-in tool `{lacking}` is not supported by the channels of this model."
        if dialect.protocol == RESPONSES.protocol and lacking == _SEARCH:
            message += f" {_CODEX}"
        raise GatewayError(TOOL_NOT_SUPPORTED, message, param="tools")


_SEARCH = "web_search"
# It asks for the tool unless its configuration says otherwise.
_CODEX = 'Codex sends none with `web_search = "disabled"` in its config.toml.'
_STRICT_HEADER = "X-Protocol-Strict"
_HEADERS_READ = frozenset(map(spelled, (*CONVERSATION_HEADERS, _STRICT_HEADER)))
_PASSED_ON = SseFraming()


def _are_read(headers: RequestHeaders, dialect: ChatDialect) -> bool:
    """Whether a call may read one of these headers, which most requests have none of."""
    if headers.has_any(_HEADERS_READ) or headers.may_begin(spelled(dialect.header_prefix)):
        return True
    headers.unread_by = dialect
    return False


def _conversation(principal: Principal, request: ParsedChatRequest, body_bytes: int) -> str | None:
    """What keeps a conversation together that no header names; None for a lone short turn.

    An agent's instructions are in all of its calls, and make no conversation of one.
    """
    raw, parameters = request.object.raw, request.parameters
    if body_bytes < PREFIX_BYTES_MIN and MEMBERS.isdisjoint(raw):
        turns = parameters.get("messages") or parameters.get("contents") or parameters.get("input")
        if turns is None or turns == ("2" if principal.kind == AGENT else "1"):
            return None
    return conversation_of(raw)


def _attributes(handler: ApiHandler, request: ParsedChatRequest) -> Attributes:
    """Return the attributes of the request in the span of a sampled call."""
    parameters = request.parameters
    session = conversation_in(handler.request.headers) or session_of(request.object.raw)
    pairs: dict[str, AttributeValue | None] = {
        genai.REQUEST_STREAM: request.stream,
        genai.REQUEST_MAX_TOKENS: request.max_tokens,
        genai.REQUEST_TEMPERATURE: number_of(parameters.get("temperature")),
        genai.REQUEST_TOP_P: number_of(parameters.get("top_p")),
        genai.CONVERSATION_ID: redact(session[:NAME_CHARACTERS_MAX]) if session else None,
    }
    return {name: value for name, value in pairs.items() if value is not None}
