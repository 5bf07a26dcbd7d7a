"""One call as the use-case sees it: what was asked, and the client's side of the connection.

Nothing here knows HTTP, so a whole call runs in a test without a socket.
"""

from __future__ import annotations

import time
from asyncio import Future
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec
from msgspec import Struct

from actors.routing import Candidate, ChannelView, candidates
from actors.wallet.messages import CallFacts
from channels.dialects.dialect import (
    ChatDialect,
    Hosted,
    Hosting,
    Meter,
    ParsedChatRequest,
    hosting_for,
)
from channels.dialects.error_body import error_reported
from channels.dialects.table import CHAT_DIALECTS
from channels.errors import ErrorMembers, ErrorReported, InvalidRequest, UpstreamMalformed
from channels.http.interfaces import UpstreamRequest
from channels.http.sse import SseEvent, SseSplitter
from channels.json import EVENT_VALUES_MAX, TRANSLATED_VALUES_MAX, is_heavy_event
from channels.offload.jobs import translated_body
from channels.offload.pool import Helpers
from channels.registry import BUILTIN_TOOLS, PLAIN, ChannelSpec, ModelSpec
from channels.translation.session import TranslatedCall, TranslatedStream, translation_between
from gw.calls.bills import OUTPUT_TOKENS_DEFAULT_MAX
from gw.calls.request import ClientRequest
from gw.errors import INVALID_REQUEST, GatewayError, invalid_request
from metrics.spans import CallSpan

# What a channel is sent for a chat call, and how its response will be read: one plan an attempt.
#
# A channel that speaks the client's protocol gets the client's bytes, but for what the gateway has
# to change; any other gets their translation (`channels/translation`), whose way back stays in the
# plan.


class UpstreamPlan(Struct, frozen=True):
    """The request to one channel, the dialect of its response, and the way back if translated.

    `hosting` says how the response is read where the dialect is hosted elsewhere.
    """

    request: UpstreamRequest
    dialect: ChatDialect
    translated: TranslatedCall | None = None
    hosting: Hosting | None = None

    @property
    def headers(self) -> Mapping[str, str]:
        """What the client is told of a translation (spec: Translation paths)."""
        if self.translated is None:
            return {}
        headers = {}
        if header := self.translated.translation.header:
            headers["X-Protocol-Translation"] = header
        warning = self.translated.report.warning()
        if warning is not None:
            headers["X-Protocol-Warning"] = warning
        return headers


class ConversationRequest(ClientRequest):
    """A checked request of a chat protocol.

    `own` are values for its dialect's own headers; these and `own_headers` go to channels of the
    client's own protocol only. `is_strict`: the client asks that nothing be dropped for it
    (`X-Protocol-Strict: 1`). `redact` makes an upstream's message fit for a client.
    """

    def __init__(
        self,
        parsed: ParsedChatRequest,
        *,
        protocol: str,
        model: ModelSpec,
        body: bytes,
        weight: int,
        helpers: Helpers,
        redact: Callable[[str], str],
        path: Mapping[str, Any] | None = None,
        own: Mapping[str, str] | None = None,
        own_headers: tuple[tuple[str, str], ...] = (),
        is_strict: bool = False,
    ) -> None:
        super().__init__(
            parsed, protocol=protocol, body=body, weight=weight, helpers=helpers, path=path
        )
        self._chat = parsed
        self._model = model
        self._redact = redact
        self._own = own or {}
        self._own_headers = own_headers
        self._is_strict = is_strict

    async def plan_for(self, candidate: Candidate, channel: ChannelSpec) -> UpstreamPlan:
        """What this channel is sent. Raises GatewayError for what cannot be said to it."""
        dialect = CHAT_DIALECTS[candidate.protocol]
        is_own = candidate.protocol == self.protocol
        own_headers = self._own_headers if is_own else ()
        address, hosting, hosted = dialect.address, None, None
        if dialect.hostings and (wire := channel.wire.get(candidate.protocol, PLAIN)) != PLAIN:
            wire, hosting = hosting_for(dialect.hostings, wire, candidate.upstream_model)
            hosted = Hosted(wire, own_headers)
            address, own_headers = hosting.address, hosting.headers(own_headers)
        try:
            if hosting is not None and hosting.rewrite is not None and self._chat.fault is not None:
                raise self._chat.fault  # which an upstream of the dialect's own form would judge
            if is_own:
                body = await self.passthrough_body(
                    dialect.options(candidate.upstream_model, channel, self._model), hosted
                )
                translated = None
            else:
                translated, body = await self._translation(candidate, channel, hosted)
                self._refuse_losses(translated)
        except InvalidRequest as invalid:
            raise invalid_request(invalid) from None
        except RecursionError:
            # Read once already, but with fewer calls on the stack.
            raise GatewayError(
                INVALID_REQUEST, "The request body is nested too deeply to be translated."
            ) from None
        request = address.request(
            channel,
            body,
            protocol=candidate.protocol,
            upstream_model=candidate.upstream_model,
            stream=self._chat.stream,
            own=self._own if is_own else {},
            extra_headers=own_headers,
        )
        return UpstreamPlan(request, dialect, translated, hosting)

    async def _translation(
        self, candidate: Candidate, channel: ChannelSpec, hosted: Hosted | None
    ) -> tuple[TranslatedCall, bytes]:
        """The way back, and the body for a channel of another protocol. Raises InvalidRequest."""
        if self._chat.fault is not None:  # which an upstream of the client's own would judge
            raise self._chat.fault
        made, written = await self.done(
            translated_body,
            self.protocol,
            candidate.protocol,
            self._translation_options(candidate, channel),
            [name for name, _ in self._own_headers],
            hosted,
            values_max=TRANSLATED_VALUES_MAX,
        )
        assert written is not None
        translation = translation_between(self.protocol, candidate.protocol)
        translated = TranslatedCall.resumed(
            translation, names=made.names, report=made.report, redact=self._redact
        )
        return translated, written

    def _translation_options(self, candidate: Candidate, channel: ChannelSpec) -> dict[str, Any]:
        """What the translation of a request has to know of the channel."""
        dialect = CHAT_DIALECTS[candidate.protocol]
        maximum = self._chat.max_tokens or self._model.max_output_tokens
        if maximum is None and dialect.needs_max_tokens:
            maximum = OUTPUT_TOKENS_DEFAULT_MAX
        options: dict[str, Any] = {
            "model": candidate.upstream_model,
            "stream": self._chat.stream,
            "max_tokens": maximum,
        }
        if dialect.takes_max_tokens_param and channel.max_tokens_param is not None:
            options["max_tokens_param"] = channel.max_tokens_param
        return options

    def _refuse_losses(self, translated: TranslatedCall) -> None:
        """A client may ask that nothing be dropped for it. Raises GatewayError."""
        warning = translated.report.warning()
        if warning is not None and self._is_strict:
            raise GatewayError(
                INVALID_REQUEST,
                f"The channel of this model speaks another protocol, which cannot say: {warning}.",
                param=translated.report.dropped[0],
            )


# What becomes of an event of a stream: metered, and written as it came or translated.
#
# A channel that speaks the client's protocol has its events passed on as they are. Otherwise a
# translation (`channels/translation`) reads and writes beside the meter: usage is always metered as
# the upstream states it.

# A client that is sent nothing for so long is told that the response is still coming.
SILENCE_SECONDS = 10.0


class Framing(Protocol):
    """How the events of a stream reach the client.

    `keeps_events`: server-sent events are passed on as they are, so that bytes that are some
    already need not be taken apart.
    """

    @property
    def content_type(self) -> str: ...

    @property
    def keeps_events(self) -> bool: ...

    def event(self, event: SseEvent) -> bytes:
        """The bytes of one event; none where the form cannot carry it."""

    def end(self) -> bytes:
        """The bytes that end a complete response."""

    def broken(self, message: str) -> bytes:
        """The bytes that end one that failed: none, but where the gateway closes its streams.

        `message` says why, to the client (spec: Stream failure behaviour 1, 3).
        """


class SseFraming:
    """Server-sent events as the upstream sent them, byte for byte."""

    content_type = "text/event-stream; charset=utf-8"
    keeps_events = True

    def event(self, event: SseEvent) -> bytes:
        return event.raw

    def end(self) -> bytes:
        return b""

    def broken(self, message: str) -> bytes:
        return b""


class EventWriter(Protocol):
    """Writes the events of one stream.

    `is_verbatim`: they leave byte for byte as they came, so what was read need not be taken apart.
    `needs_data_only`: nothing of an event but its data is looked at.
    """

    @property
    def is_verbatim(self) -> bool: ...

    @property
    def needs_data_only(self) -> bool: ...

    def write(self, event: SseEvent, data: bytes) -> bytes | None:
        """Meter an event; the client's bytes for it, None where it is not for this client."""

    def comment(self, event: SseEvent) -> bytes:
        """The client's bytes for an event without data."""

    def refuse_failure(self, data: bytes, written: bytes) -> None:
        """Raise ErrorReported where the first event that is the client's, with these data, fails.

        `written` is not out yet, so another channel may still be asked.
        """


class PassthroughEvents:
    """Events as the upstream sent them; usage is withheld from a client that did not ask for it."""

    needs_data_only = False

    def __init__(self, meter: Meter, framing: Framing, *, forwards_usage: bool) -> None:
        self._meter = meter
        self._framing = framing
        self._forwards_usage = forwards_usage
        self.is_verbatim = framing.keeps_events

    def write(self, event: SseEvent, data: bytes) -> bytes | None:
        """See EventWriter. Raises UpstreamMalformed for an event of too many values."""
        if not self._meter.reads_any_size and is_heavy_event(data):
            raise _too_heavy()
        is_clients = self._meter.event(data) or self._forwards_usage
        return self._framing.event(event) if is_clients else None

    def comment(self, event: SseEvent) -> bytes:
        return self._framing.event(event)

    def refuse_failure(self, data: bytes, written: bytes) -> None:
        """See EventWriter. Behind an event that is no error, one is the client's, as it came."""
        if self._meter.error_seen is not None:
            raise error_reported(data)


class TranslatedFraming:
    """The upstream's events as the client's protocol has them, in the form the client asked for.

    The translation is given what the meter has read, so that an event is decoded once; it decides
    by itself who is sent the usage.
    """

    is_verbatim = False
    needs_data_only = True

    def __init__(
        self,
        stream: TranslatedStream,
        framing: Framing,
        meter: Meter,
        *,
        has_terminator: bool,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._monotonic = monotonic
        self._spoke = monotonic()
        self._stream = stream
        self._framing = framing
        self._splitter = SseSplitter()
        self._meter = meter
        self._has_terminator = has_terminator
        self._has_ended = False
        self.content_type = framing.content_type
        self.keeps_events = framing.keeps_events

    def write(self, event: SseEvent, data: bytes) -> bytes | None:
        """See EventWriter. Raises UpstreamMalformed for an event of too many values."""
        if is_heavy_event(data):
            raise _too_heavy()
        read = self._meter.read(data)
        self._meter.take(read)
        return self.take(read)

    def comment(self, event: SseEvent) -> bytes:
        """See EventWriter."""
        return self.event(event)

    def refuse_failure(self, data: bytes, written: bytes) -> None:
        """See EventWriter. What the upstream still says, its usage too, is dropped."""
        error = self._stream.failed or self._meter.error_seen
        if error is not None and not written:
            status = error_reported(data).status
            raise ErrorReported(ErrorMembers(error.message), status=status)

    def event(self, event: SseEvent) -> bytes:
        """What a client gets for an event that says nothing, such as a comment."""
        return self._sent(self._framed(self._filler()))

    def take(self, read: Any) -> bytes:
        """The bytes for an event of the upstream that has been read and metered."""
        written = self._sent(self._framed(self._stream.take(read) or self._filler()))
        if self._meter.finished and self._has_terminator:
            return written + self.end()
        return written

    def _sent(self, written: bytes) -> bytes:
        if written:
            self._spoke = self._monotonic()
        return written

    def _filler(self) -> bytes:
        """What keeps the connection alive, where the upstream only says that it is still there.

        Its own comments and pings, and thoughts that the client's protocol cannot carry, say
        nothing to the client; what stands between them cuts connections that are silent.
        """
        if self._monotonic() - self._spoke < SILENCE_SECONDS:
            return b""
        return self._stream.keep_alive

    def end(self) -> bytes:
        """The client's end of a complete response; once, and none after an error."""
        if self._has_ended or self._stream.failed is not None:
            return b""
        self._has_ended = True
        return self._framed(self._stream.end()) + self._framing.end()

    def broken(self, message: str) -> bytes:
        """What closes a stream that failed; none where it just ends."""
        return self._framed(self._stream.broken(message))

    def _framed(self, written: bytes) -> bytes:
        """A translation writes whole events; a client may want them in another form."""
        if not written or self.keeps_events:
            return written
        return b"".join(map(self._framing.event, self._splitter.feed(written)))


def _too_heavy() -> UpstreamMalformed:
    return UpstreamMalformed(f"an event of more than {EVENT_VALUES_MAX} values")


class ClientGone(Exception):
    """The client closed its connection."""


class Client(Protocol):
    """Who makes the call, as far as its money is concerned."""

    @property
    def client_gone(self) -> bool:
        """Has the client closed its connection?"""

    def owns_row(self) -> None:
        """From here on the call writes its own row, however it ends."""


class ResponseWriter(Client, Protocol):
    """The client's side of the call."""

    @property
    def sends_at_once(self) -> bool:
        """Whether what is written of a stream goes out; else a stream that fails delivers nothing,
        and costs nothing."""

    def forget_request(self) -> None:
        """Let go of the request's bytes: no other channel is asked any more."""

    def begin(
        self, content_type: str, headers: Mapping[str, str], *, http_status: int = 200
    ) -> None:
        """A response of this type follows. Nothing is sent yet."""

    def write(self, block: bytes) -> Future[None] | None:
        """Send some events of a stream, headers first.

        A client that does not keep up gives a future, which is done when it does. That one raises
        ClientGone, and so does this, once its connection is closed.
        """

    def finish(self, block: bytes) -> None:
        """Send the last events, if any, and end the response."""

    def send(self, body: bytes) -> None:
        """Send a whole response."""


class PaidCall(Protocol):
    """A call that has passed every check except money and channels, whatever it is billed by."""

    @property
    def facts(self) -> CallFacts: ...

    @property
    def model(self) -> ModelSpec: ...

    @property
    def cap_nano_usd(self) -> int | None: ...

    @property
    def span(self) -> CallSpan: ...

    @property
    def started(self) -> float:
        """Monotonic seconds."""

    @property
    def detail(self) -> dict[str, Any]:
        """What its row keeps for the receipt (`attempts.py`); filled as the call goes on."""


class ChatCall(Struct, frozen=True, kw_only=True):
    """A chat call, in whichever protocol."""

    facts: CallFacts
    model: ModelSpec
    cap_nano_usd: int | None
    is_stream: bool
    forwards_usage: bool  # the client asked for the usage chunk
    content_bytes: int  # of `messages` as sent, for the pre-charge
    body_bytes: int  # of all that was sent
    max_tokens: int | None
    pin: str | None
    span: CallSpan
    request: ConversationRequest
    started: float  # monotonic seconds
    tools: tuple[str, ...] = ()  # built-in ones that were asked for
    tools_protocol: str | None = None  # what these run over, where it is not the client's
    framing: Framing = msgspec.field(default_factory=SseFraming)
    translations: tuple[str, ...] = ()  # protocols this one may be translated to
    detail: dict[str, Any] = msgspec.field(default_factory=dict)


# Which channels may take a call, by the built-in tools it asks for: those that a provider runs.
#
# No translation carries such a tool, so only channels that are spoken to in the client's protocol
# count; on chat-completions, where the tools run over responses, those that speak that (contract
# §7: Built-in tools). Whether any channel of a model has a tool is known from the configuration
# alone, and asked before anything is held; which of them are tried is decided when the call is.

# The flag of a model that a tool wants (spec: Model catalog entry).
_CAPABILITIES = {"web_search": "web_search", "image_generation": "image_gen"}


def lacking_tool(
    tools: Sequence[str],
    model: ModelSpec,
    channels: Mapping[str, ChannelSpec],
    *,
    protocol: str,
    run_over: str,
    reached: Sequence[str] = (),
) -> str | None:
    """The tool that the channels of the model lack; None also where the model has no channel.

    `protocol` is the client's, `run_over` the one that tools are run over, which is the same but on
    chat-completions; `reached` are those the client's may be translated to.
    """
    if not tools or model.endpoint_type is not None:
        return None
    bound = [
        (channel, channel.spoken(binding.upstream_model or model.id))
        for binding in model.bindings
        for channel in (channels[binding.channel_id],)
    ]
    if not any({protocol, run_over, *reached} & spoken for _, spoken in bound):
        return None
    if run_over != protocol:
        for tool in tools:
            if not is_run_for(tool, model):
                return tool
    speaking = [channel for channel, spoken in bound if run_over in spoken]
    if any(_configured(tools) <= channel.tools for channel in speaking):
        return None
    offered = {tool for channel in speaking for tool in channel.tools}
    return next((tool for tool in tools if tool not in offered), tools[0])


def is_run_for(tool: str, model: ModelSpec) -> bool:
    """Whether the gateway runs a tool for a model: not where the model's flags leave it out.

    A model of which no flag is configured is taken at its channels' word.
    """
    capability = _CAPABILITIES.get(tool)
    if capability is None:
        return False
    return not model.capabilities or capability in model.capabilities


def channels_for(
    call: ChatCall, channels: Mapping[str, ChannelView]
) -> tuple[list[Candidate], list[Candidate]]:
    """The channels considered, in order, and those of them to try, which have the tools."""
    protocol = call.facts.protocol
    if not call.tools:
        usual = candidates(
            call.model, protocol, channels, pin=call.pin, translations=call.translations
        )
        return usual, usual
    considered = candidates(call.model, call.tools_protocol or protocol, channels, pin=call.pin)
    wanted = _configured(call.tools)
    return considered, [one for one in considered if wanted <= channels[one.channel_id].spec.tools]


def _configured(tools: Sequence[str]) -> frozenset[str]:
    """Of what a provider runs beside these the configuration says nothing: it judges itself."""
    return frozenset(BUILTIN_TOOLS).intersection(tools)
