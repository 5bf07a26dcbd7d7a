"""The endpoints of the chat protocols, and the model call common to all endpoints with a model.

A model call reads the body, finds the model and begins the row, whatever the protocol. The model of
a call, and its key's permission, are decided here (contract §7: order of checks); a use-case of
`gw/calls` runs the call.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from actors.wallet.messages import CallFacts
from channels.conversation import (
    MEMBERS,
    NAME_CHARACTERS_MAX,
    PREFIX,
    conversation_of,
    label_of,
    session_of,
)
from channels.dialects.chat.dialect import DIALECT as CHAT
from channels.dialects.dialect import Address, ChatDialect, Dialect, ParsedChatRequest
from channels.dialects.gemini.array_stream import CONTENT_TYPE, ArrayFraming
from channels.dialects.gemini.dialect import DIALECT as GEMINI
from channels.dialects.messages.dialect import DIALECT as MESSAGES
from channels.dialects.messages.dialect import VERSION, VERSION_HEADER
from channels.dialects.multipart import FormRequest
from channels.dialects.responses.dialect import COMPACT
from channels.dialects.responses.dialect import DIALECT as RESPONSES
from channels.dialects.validate import is_repeatable
from channels.errors import InvalidRequest
from channels.http.sse import SseEvent
from channels.json.weight import COUNTED_BYTES_MAX, READ_VALUES_MAX, weight_of
from channels.offload.jobs import read_form_request, read_request
from channels.offload.pool import Helpers
from channels.offload.process import Job
from channels.registry import ModelSpec, Pairs, Registry
from channels.translation.session import upstream_protocols
from gw.api.call_spans import begin_span
from gw.api.handler import ApiHandler
from gw.api.response_writer import HandlerWriter
from gw.calls.call import ResponseWriter
from gw.calls.request import (
    ChatCall,
    ChatClientRequest,
    billed_by,
    lacking_tool,
    offloaded,
    refuse_advisor,
)
from gw.calls.stream import Framing, SseFraming
from gw.errors import (
    INVALID_REQUEST,
    MODEL_NOT_ALLOWED,
    MODEL_NOT_FOUND,
    TOOL_NOT_SUPPORTED,
    GatewayError,
    invalid_request,
    unserved,
)
from gw.http.tornado.headers import RequestHeaders, spelled
from gw.keys.principal import AGENT, Principal
from metrics import genai
from metrics.log_redaction import redact
from metrics.spans import Attributes, AttributeValue

# No model has a name this long; it is truncated where it is shown.
SHOWN_CHARACTERS_MAX = 100

F = TypeVar("F", bound=FormRequest)


class ModelCall:
    """One call of a model, over the handler of its request.

    `weight`: the number of values in the body (`channels/json/weight.py`). `model` and `detail` are
    set once the model is found; `detail` is the row's detail of the request.
    """

    __slots__ = ("detail", "handler", "model", "weight")

    detail: dict[str, Any]
    model: ModelSpec

    def __init__(self, handler: ApiHandler) -> None:
        self.handler = handler
        self.weight = weight_of(handler.request.body)

    def __repr__(self) -> str:
        return f"<ModelCall {self.handler.call_id} of {self.handler.model_name}>"

    @property
    def is_heavy(self) -> bool:
        """Whether the body is parsed in a helper process, and only its bytes are here."""
        return self.weight > READ_VALUES_MAX

    def helpers(self) -> Helpers:
        """Return the helper processes, scheduled per account."""
        return self.handler.services.offload.of(self.handler.principal.account_id)

    def read_here(self, dialect: Dialect, **path: Any) -> Any:
        """Return the same as `read`, of a body that is not heavy."""
        try:
            request = dialect.read_request(self.handler.request.body, **path)
        except InvalidRequest as invalid:
            raise invalid_request(invalid) from None
        self.find_model(request.model, request.parameters)
        return request

    async def read(self, dialect: Dialect, **path: Any) -> Any:
        """Return the request, parsed by its dialect from body and `path`; find its model.

        Raises GatewayError.
        """
        if not self.is_heavy:
            return self.read_here(dialect, **path)
        try:
            request, _ = await self.offload(read_request, self.handler.protocol, path)
        except InvalidRequest as invalid:
            raise invalid_request(invalid) from None
        self.find_model(request.model, request.parameters)
        return request

    async def read_form(self, reading: Callable[[bytes, str | None], F]) -> F:
        """Return the form parsed by `reading`; find its model, which must be the endpoint's.

        Its files have no values that weigh, but a long one takes long to be searched. Raises
        GatewayError.
        """
        request: F
        body, stated = self.handler.request.body, self.handler.request.headers.get("Content-Type")
        try:
            if len(body) > COUNTED_BYTES_MAX:
                request, _ = await self.offload(read_form_request, reading, stated)
            else:
                request = reading(body, stated)
        except InvalidRequest as invalid:
            raise invalid_request(invalid) from None
        self.find_model(request.model, request.parameters)
        self.require_served()
        return request

    def require_served(self) -> None:
        """Raise GatewayError for a model of another endpoint.

        The media endpoints check it before the hold, because such a model has no price there; the
        chat endpoints when they look for channels (spec: General facts 4).
        """
        if not self.model.is_served_on(self.handler.protocol):
            serving = self.handler.services.chat_calls.serving(self.model)
            raise unserved(f"the model `{self.model.id}` on this endpoint", serving, param="model")

    async def offload(self, job: Job, *arguments: Any) -> tuple[Any, bytes | None]:
        """Run a job on the body. Raises the errors of the job, or GatewayError."""
        return await offloaded(self.helpers(), job, self.handler.request.body, *arguments)

    def find_model(self, named: str, parameters: Mapping[str, str]) -> None:
        """Find the named model; `parameters` are those shown in the call log.

        Raises GatewayError.
        """
        handler = self.handler
        handler.model_name = named
        model, principal = handler.services.current.registry.resolve(named), handler.principal
        # An unknown name may be any text, even a misplaced key.
        shown = redact(named) if model is None else named
        self.detail = handler.row_detail = {"request": {"model": shown, **parameters}}
        self.model = permitted_model(model, named, principal)
        if principal.prices is not None:
            now = handler.services.clock.now()
            self.model, agreed = principal.prices.model_at(self.model, now)
            if agreed is not None:
                self.detail["account_price"] = agreed

    def facts(self) -> CallFacts:
        """Return the facts of the call before its admission."""
        handler = self.handler
        principal = handler.principal
        return CallFacts(
            call_id=handler.call_id,
            account_id=principal.account_id,
            key_id=principal.key_id,
            protocol=handler.protocol,
            model=self.model.id,
            submitted_at=handler.request.submitted_at,
        )


def permitted_model(model: ModelSpec | None, named: str, principal: Principal) -> ModelSpec:
    """Return the model found by a name. Raises GatewayError: unknown, placeholder, forbidden."""
    if model is None or not model.callable:
        shown = redact(named)[:SHOWN_CHARACTERS_MAX]
        fault = f"The model `{shown}` does not exist." if shown else "The endpoint has no default."
        raise GatewayError(
            MODEL_NOT_FOUND,
            f"{fault} GET /v1/models lists the models there are.",
            param="model",
        )
    allowed = principal.allowed_models
    if allowed is not None and model.id not in allowed:
        raise GatewayError(
            MODEL_NOT_ALLOWED,
            f"This API key may not use the model `{model.id}`.",
            param="model",
        )
    return model


def first_of(registry: Registry, endpoint_type: str) -> str:
    """Return the first callable model of a type, the default of requests; empty without one."""
    models = registry.models.values()
    return next((m.id for m in models if m.endpoint_type == endpoint_type and m.callable), "")


# The conversation of a chat request: how it is named, what is stated of it, and that it is run.
#
# Everything that costs or waits is the conversation's (`gw/calls/chat.py`), what a channel is sent
# is `gw/calls/request.py`.


def number_of(text: str | None) -> float | None:
    """Return a parameter shown in the call log as a number, or None."""
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) else None


# Headers by which clients name a conversation; the first one present counts (contract §4).
CONVERSATION_HEADERS = (
    *("session_id", "session-id"),  # the specification's, and that of agents of the responses
    *("conversation_id", "thread-id"),  # protocol, older and newer
    "x-claude-code-session-id",
    *("x-session-id", "x-session-affinity", "x-opencode-session"),
)
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
        named, is_strict = _named(headers), headers.get(_STRICT_HEADER) == "1"
        own_headers = provider_headers(headers, dialect)
    conversation, pin = named or _conversation(principal, request, len(body)), None
    if conversation is not None:
        call.detail["conversation"] = label_of(conversation)
        pin = f"{principal.account_id}/{conversation}"  # an account can only use its own pins
    started = services.clock.monotonic()
    reached = upstream_protocols(protocol, current.config.translations) if address is None else ()
    if tools:
        refuse_advisor(model, tools)
        _refuse_tools(call, dialect, tools, reached)
    chat_call = ChatCall(
        facts=call.facts(),
        model=model,
        cap_nano_usd=principal.spend_cap_nano_usd,
        forwards_usage=forwards_usage,
        pin=pin,
        is_named=conversation is not None and not conversation.startswith(PREFIX),
        span=begin_span(handler, model, partial(_attributes, handler, request)),
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
        billable=billed_by(model, request.parameters, body),
        tools=tools,
        tools_protocol=dialect.family.tools_over,
        framing=framing or _PASSED_ON,
        translations=reached,
        detail=call.detail,
    )
    return services.chat_calls.run(chat_call, writer or HandlerWriter(handler))


def _refuse_tools(
    call: ModelCall, dialect: ChatDialect, tools: Sequence[str], reached: Sequence[str]
) -> None:
    """Refuse a tool that no channel of the model has, before anything is held."""
    lacking = lacking_tool(
        tools,
        call.model,
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


def _named(headers: RequestHeaders) -> str | None:
    """Return the conversation's name in the client's headers (spec: Agent API; contract §4)."""
    for name in CONVERSATION_HEADERS:
        named: str | None = headers.get(name)
        if named:
            return named[:NAME_CHARACTERS_MAX]
    return None


# Of a client's headers those of its protocol's provider go to channels of that protocol, whichever
# they are, so that a feature that is new there works at once. Left out is what the provider knows
# its clients by, since a channel is another one, and what concerns the client's own connection.

PROVIDER_HEADERS_MAX = 16
PROVIDER_NAME_CHARACTERS_MAX = 64
PROVIDER_VALUE_CHARACTERS_MAX = 2048
PROVIDER_CHARACTERS_MAX = 8 * 1024  # of all of them together
# A header whose name contains one of these words between hyphens is left out.
_CLIENTS_OWN = frozenset(
    {
        *("key", "token", "auth", "authorization", "secret", "cookie", "credential", "credentials"),
        *("organization", "project", "workspace", "account", "user", "version", "browser"),
    }
)


def provider_headers(headers: RequestHeaders, dialect: ChatDialect) -> Pairs:
    """Return the client's headers for channels of its own protocol. Raises GatewayError."""
    prefix = spelled(dialect.header_prefix)
    names = [name for name in headers if prefix and name.startswith(prefix)]
    if not names:
        return ()
    hop = {name.strip().lower() for name in headers.get("Connection", "").split(",")}
    pairs = [
        (name.lower(), _provider_value(name.lower(), headers.get(name, "").strip()))
        for name in names
        if name.lower() not in hop and _CLIENTS_OWN.isdisjoint(name.lower().split("-"))
    ]
    found = tuple(pair for pair in pairs if pair[1])
    _check_bounds(found, dialect.header_prefix)
    return found


def _check_bounds(found: Pairs, prefix: str) -> None:
    if (
        len(found) > PROVIDER_HEADERS_MAX
        or any(len(name) > PROVIDER_NAME_CHARACTERS_MAX for name, _ in found)
        or sum(len(name) + len(value) for name, value in found) > PROVIDER_CHARACTERS_MAX
    ):
        raise GatewayError(
            INVALID_REQUEST,
            f"At most {PROVIDER_HEADERS_MAX} headers {prefix}* are passed on, with "
            f"names of {PROVIDER_NAME_CHARACTERS_MAX} characters and "
            f"{PROVIDER_CHARACTERS_MAX} characters together.",
        )


def _provider_value(name: str, value: str) -> str:
    """Return a value to forward; empty if it contains a key of the gateway. Raises GatewayError."""
    is_text = value.isascii() and value.isprintable()
    if not is_text or len(value) > PROVIDER_VALUE_CHARACTERS_MAX:
        shown = name[:PROVIDER_NAME_CHARACTERS_MAX]
        raise GatewayError(
            INVALID_REQUEST,
            f"{shown}: expected ASCII text, {PROVIDER_VALUE_CHARACTERS_MAX} characters at most.",
            param=shown,
        )
    return value if redact(value) == value else ""


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
    session = _named(handler.request.headers) or session_of(request.object.raw)
    pairs: dict[str, AttributeValue | None] = {
        genai.REQUEST_STREAM: request.stream,
        genai.REQUEST_MAX_TOKENS: request.max_tokens,
        genai.REQUEST_TEMPERATURE: number_of(parameters.get("temperature")),
        genai.REQUEST_TOP_P: number_of(parameters.get("top_p")),
        genai.CONVERSATION_ID: redact(session[:NAME_CHARACTERS_MAX]) if session else None,
    }
    return {name: value for name, value in pairs.items() if value is not None}


def endpoint(
    dialect: ChatDialect, *, on_get: Callable[[ApiHandler], Awaitable[None]] | None = None
) -> type[ApiHandler]:
    """The endpoint of a dialect that is served by its record alone, but for what a GET does."""
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
    if on_get is not None:
        DialectHandler.on_get = on_get  # type: ignore[attr-defined]
    return DialectHandler


# POST /v1/chat/completions (spec: Chat, chat-completions protocol).


class ChatCompletionsHandler(ApiHandler):
    """The chat-completions protocol; what agents' keys call is `completions.py`'s."""

    shape = CHAT.family.error_shape
    route = "chat_completions"
    protocol = CHAT.protocol
    limited = billed = True

    def on_post(self) -> Coroutine[Any, Any, None]:
        if self.principal.kind == AGENT:
            return self.run_agent()
        call = ModelCall(self)
        if call.is_heavy:
            return self._run_heavy(call)
        request = call.read_here(CHAT)
        return converse(call, CHAT, request, forwards_usage=request.include_usage)

    async def _run_heavy(self, call: ModelCall) -> None:
        request = await call.read(CHAT)
        await converse(call, CHAT, request, forwards_usage=request.include_usage)

    async def run_agent(self) -> None:
        """Serve the call of an agent. Raises GatewayError while nothing has been sent."""
        raise NotImplementedError


# POST /v1beta/models/{model}:generateContent and :streamGenerateContent (spec: native-content).
#
# A stream is server-sent events with `alt=sse` and one JSON array without it (contract §5); the
# upstream is asked for events either way.

STREAM = "streamGenerateContent"


class GeminiHandler(ApiHandler):
    """The native-content protocol."""

    shape = GEMINI.family.error_shape
    route = "native"
    protocol = GEMINI.protocol
    limited = billed = True

    def named_model(self) -> str | None:
        named: str = self.path_args[0]
        return self.model_name or (named if is_repeatable(named) else None)

    def unknown_path(self) -> GatewayError:
        return GatewayError(INVALID_REQUEST, "model: control characters are not allowed.")

    async def on_post(self, model_id: str = "", verb: str = "") -> None:
        path = {"model": model_id, "stream": verb == STREAM}
        call = ModelCall(self)
        request = await call.read(GEMINI, **path)
        is_sse = self.get_query_argument("alt", "") == "sse"
        framing = None if is_sse else ArrayStream()
        await converse(call, GEMINI, request, path=path, framing=framing)


class ArrayStream:
    """A stream as the elements of one JSON array; an array left open was cut."""

    content_type = CONTENT_TYPE
    keeps_events = False

    def __init__(self) -> None:
        self._framing = ArrayFraming()

    def event(self, event: SseEvent) -> bytes:
        return b"" if event.data is None else self._framing.element(event.data)

    def end(self) -> bytes:
        return self._framing.end()

    def broken(self, message: str) -> bytes:
        return b""


# POST /v1/messages (spec: Chat, messages protocol; contract §5: version header).

# The specification's role-named header, and the name that official client libraries send.
VERSION_HEADERS = ("messages-api-version", VERSION_HEADER)


class MessagesHandler(ApiHandler):
    """The messages protocol."""

    shape = MESSAGES.family.error_shape
    route = "messages"
    protocol = MESSAGES.protocol
    limited = billed = True

    async def on_post(self) -> None:
        own = {VERSION_HEADER: self._version()}
        call = ModelCall(self)
        request = await call.read(MESSAGES)
        await converse(call, MESSAGES, request, own=own)

    def _version(self) -> str:
        """The client's version of the protocol; a missing one is the first there was."""
        for name in VERSION_HEADERS:
            version: str = self.request.headers.get(name, "").strip()
            if version:
                break
        else:
            return VERSION
        supported = self.services.config.messages_versions
        if version not in supported:
            raise GatewayError(
                INVALID_REQUEST,
                f"{name}: this version is not supported; use one of {', '.join(supported)}.",
                param=name,
            )
        return version


class CompactHandler(ApiHandler):
    """`POST /v1/responses/compact`: a conversation made into one item, billed by its usage."""

    protocol = RESPONSES.protocol
    route = "compact"
    shape = RESPONSES.family.error_shape
    limited = billed = True

    async def on_post(self) -> None:
        call = ModelCall(self)
        request = await call.read(RESPONSES)
        if request.stream:
            raise GatewayError(
                INVALID_REQUEST,
                "stream: a compaction comes whole; leave it out or send false.",
                param="stream",
            )
        await converse(call, RESPONSES, request, address=COMPACT)
