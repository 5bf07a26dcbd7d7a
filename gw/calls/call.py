"""One call of any kind: its facts, its ending, and its observer.

A failure becomes an `Ending` (contract §7: failure classes and row status), which carries the error
for the client as long as nothing is sent. `CallObserver` writes span, metrics and receipt; the code
that runs calls knows only the observer.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from types import MappingProxyType
from typing import Any, Literal, Protocol

import msgspec
from msgspec import Struct

from actors.clock import Clock
from actors.failover import FailedAttempt, FailoverExhausted
from actors.routing import Candidate
from actors.wallet.messages import CallFacts, NewJob, RowStatus
from channels.errors import (
    CredentialsRefused,
    ErrorReported,
    UnexpectedStatus,
    UpstreamCut,
    UpstreamError,
    UpstreamFailed,
    UpstreamMalformed,
    UpstreamRefusal,
    UpstreamTimedOut,
    UpstreamUnreachable,
)
from channels.families import CHAT_PROTOCOLS, UNIT_TYPES
from channels.http.client import address_of
from channels.http.interfaces import UpstreamRequest
from channels.redaction import Redactor
from channels.registry import ChannelSpec, ModelSpec
from channels.translation.session import TranslatedCall
from gw import errors as errors
from gw import upstream_errors
from gw.calls.bills import NO_TOKENS, Bill, Charged
from gw.errors import GatewayError
from gw.idempotency.claim import IdempotencyClaim
from metrics import genai
from metrics.logs import EventLog
from metrics.prometheus import Metrics
from metrics.spans import (
    FIRST_CHUNK,
    NO_ATTRIBUTES,
    RESPONSE_HEAD,
    Attributes,
    AttributeValue,
    CallSpan,
    ChildSpan,
    RequestTrace,
)


class ClientGone(Exception):
    """The client closed its connection."""


class Client(Protocol):
    """The client of a call, as far as settlement uses it."""

    @property
    def client_gone(self) -> bool:
        """Whether the client has closed its connection."""

    def hold_decided(self) -> None:
        """The call has its hold, or will have none: from now on it writes its row itself."""


class ResponseWriter(Client, Protocol):
    """The client's side of the call."""

    @property
    def sends_at_once(self) -> bool:
        """Whether blocks of a stream are sent at once; otherwise a failed stream delivers nothing
        and costs nothing."""

    def forget_request(self) -> None:
        """Release the request's bytes: no other channel will be tried."""

    def begin(
        self, content_type: str, headers: Mapping[str, str], *, http_status: int = 200
    ) -> None:
        """Set type and headers of the response. Nothing is sent yet."""

    def write(self, block: bytes) -> Future[None] | None:
        """Send events of a stream, headers first.

        Returns a future to wait for when the client reads slowly, else None. Both raise ClientGone
        once the connection is closed.
        """

    def finish(self, block: bytes) -> None:
        """Send the last events, if any, and end the response."""

    def break_off(self, block: bytes) -> None:
        """Send the last events, if any, and end the response as an incomplete one."""

    def send(self, body: bytes, before_write: Callable[[], None] | None = None) -> None:
        """Send a whole response.

        With `before_write`, which is called right before its bytes are written, that may be in the
        loop's next turn.
        """


class Call(Struct, frozen=True, kw_only=True):
    """A call that has passed every check except money and channels.

    `detail` collects the receipt of its row. `idempotency` is set when the request has an
    idempotency key. `cheaper` is the advice in the error of a client without enough balance.
    """

    facts: CallFacts
    model: ModelSpec
    cap_nano_usd: int | None
    span: CallSpan
    started: float  # monotonic seconds
    idempotency: IdempotencyClaim | None = None
    detail: dict[str, Any] = msgspec.field(default_factory=dict)
    cheaper: str
    job: NewJob | None = None  # the job begun by the call


# Bound of a header value passed on from an upstream; a date has 29 characters, a digest 64.
HEADER_CHARACTERS_MAX = 128
# Bound of `Retry-After`: libraries give up on longer ones.
RETRY_AFTER_MAX_SECONDS = 60


# Refusals of an upstream that its client has not caused: the channel's key, its credit, its rights.
CHANNEL_REFUSALS = (401, 402, 403)

FaultSide = Literal["upstream", "timeout", "gateway"]


@dataclass(frozen=True, slots=True)
class Ending:
    """Status, error code and message of the row; `error` is for the client."""

    status: RowStatus
    code: str | None
    message: str | None
    error: GatewayError | None = field(default=None, compare=False)
    is_clients: bool = field(default=False, compare=False)  # the client has caused the failure

    @property
    def fault(self) -> FaultSide | None:
        """The side at fault; None for a call that succeeded or was failed by its client."""
        if self.is_clients:
            return None
        if self.status == "error":
            return "gateway" if self.code == errors.INTERNAL_ERROR.code else "upstream"
        is_timeout = self.code == errors.UPSTREAM_TIMEOUT.code
        return "timeout" if self.status == "interrupted" and is_timeout else None


SUCCESS = Ending("success", None, None)
CLIENT_GONE = Ending("interrupted", "client_disconnected", "The client closed its connection.")
STOPPING = Ending("interrupted", "gateway_stopping", "The gateway was stopped.")

# The client's message when the channels' own actors are gone or overrun.
NO_CHANNEL = "No channel can take this request at the moment."


def shown(status: RowStatus, error: GatewayError) -> Ending:
    """Return an ending whose row has the client's message."""
    return Ending(status, error.kind.code, error.message, error)


def ending_of_failure(
    failure: FailoverExhausted, redactor: Redactor, *, serving: Sequence[str] = ()
) -> Ending:
    """Return the ending of a call without a response; the last channel tried decides.

    If none was tried, none was available. If none was passed over either, the configuration has no
    way from the protocol to the model, a retry is useless, and the message names the protocols of
    `serving` (contract §7: 503 and draining). A channel without a response was unreachable; a
    response that cannot be used is an upstream error (contract §7: A 2xx that cannot be used).
    """
    if not failure.failed:
        return shown("rejected", _no_channel(failure, serving))
    error = failure.failed[-1].error
    if isinstance(error, UpstreamTimedOut):
        return shown("interrupted", GatewayError(errors.UPSTREAM_TIMEOUT, str(error)))
    if isinstance(error, CredentialsRefused):
        refusal = UpstreamRefusal(
            error.status, error.members, error.retry_after, headers=error.headers, is_of_key=True
        )
        return ending_of_refusal(refusal, redactor)
    if isinstance(error, UpstreamFailed | ErrorReported):
        return shown("error", _from_upstream(error, _message(error, redactor), redactor))
    if isinstance(error, UpstreamUnreachable):
        return shown("error", GatewayError(errors.UPSTREAM_UNREACHABLE, str(error)))
    return shown("error", upstream_errors.from_upstream(502, _message(error, redactor)))


def ending_of_unknown(failure: FailoverExhausted, redactor: Redactor) -> Ending:
    """Return the ending of a submission whose acceptance is unknown (contract for media §2)."""
    error = failure.failed[-1].error
    if isinstance(error, UpstreamCut):
        return shown("interrupted", GatewayError(errors.UPSTREAM_UNREACHABLE, str(error)))
    return replace(ending_of_failure(failure, redactor), status="interrupted")


def ending_of_refusal(refusal: UpstreamRefusal, redactor: Redactor) -> Ending:
    """Return the ending for an upstream's 4xx: status and redacted message are passed through."""
    message = redactor.text(refusal.members.message) if refusal.members.message else None
    message = message or "The upstream refused the request."
    status: RowStatus = "rejected" if refusal.is_rejected else "error"
    ending = shown(status, _from_upstream(refusal, message, redactor, refusal.headers))
    is_channels = refusal.status in CHANNEL_REFUSALS or refusal.is_of_key
    return replace(ending, is_clients=not is_channels)


def ending_of_report(message: str, redactor: Redactor) -> Ending:
    """Return the ending for a failure that an upstream's response reports."""
    return shown("error", upstream_errors.from_upstream(502, redactor.text(message)))


def attempt_row(attempt: FailedAttempt, redactor: Redactor) -> dict[str, object]:
    """Return a failed attempt as the call log keeps it (spec: Call log row, attempts)."""
    return {
        "seq": attempt.seq,
        "created_at": attempt.started_at,
        "latency_ms": round(attempt.seconds * 1000),
        "error_code": _code(attempt.error),
        "error_message": _message(attempt.error, redactor),
    }


def _code(error: UpstreamError) -> str:
    """Return the error code of a failed attempt in the call log."""
    if isinstance(error, UpstreamFailed | UnexpectedStatus):
        return f"upstream_{error.status}"
    if isinstance(error, UpstreamTimedOut):
        return "upstream_timeout"
    if isinstance(error, UpstreamMalformed):
        return "upstream_malformed"
    if isinstance(error, ErrorReported):
        return "upstream_error"
    return "upstream_unreachable" if isinstance(error, UpstreamUnreachable) else "upstream_cut"


def sendable(value: str | None, redactor: Redactor) -> str | None:
    """Return an upstream's header value if it may be sent to the client, else None."""
    if value is None or not (value.isascii() and value.isprintable()):
        return None
    if not 0 < len(value) <= HEADER_CHARACTERS_MAX:
        return None
    stated = value.encode()
    return value if redactor.errors.redacted(stated) is stated else None


def _from_upstream(
    refusal: UpstreamRefusal | UpstreamFailed | ErrorReported,
    message: str,
    redactor: Redactor,
    headers: Mapping[str, str] = MappingProxyType({}),
) -> GatewayError:
    return upstream_errors.from_upstream(
        refusal.status,
        message,
        details=redactor.value(refusal.members.details),
        param=redactor.value(refusal.members.param),
        headers={**headers, **retry_after_of(refusal.status, refusal.retry_after, redactor)},
    )


def retry_after_of(status: int, stated: str | None, redactor: Redactor) -> dict[str, str]:
    """Return the `Retry-After` of a busy upstream as a header, where it may be sent on."""
    value = sendable(stated, redactor) if status in (429, 503) else None
    return {} if value is None else {"Retry-After": value}


def _message(error: UpstreamError, redactor: Redactor) -> str:
    if isinstance(error, UpstreamFailed | ErrorReported) and error.members.message:
        return redactor.text(error.members.message)
    if isinstance(error, UpstreamFailed | UnexpectedStatus):
        return f"The upstream answered with status {error.status}."
    return str(error)


def _no_channel(failure: FailoverExhausted, serving: Sequence[str]) -> GatewayError:
    if not failure.passed_over:
        return errors.unserved("this model on this protocol", serving)
    if all(reason == "full" for reason in failure.passed_over.values()):
        message = "Every channel of this model is busy at the moment. Try again shortly."
    else:
        message = "No channel of this model is available at the moment. Try again shortly."
    seconds = min(max(1, ceil(failure.cooldown_seconds)), RETRY_AFTER_MAX_SECONDS)
    headers = {"Retry-After": str(seconds)}
    return GatewayError(errors.NO_CHANNEL_AVAILABLE, message, headers=headers)


# The names of a call's spans, and their attributes of how it ended.

# Steps of a call, as its trace shows them.
HOLD = "gw.wallet.hold"
SETTLE = "gw.wallet.settle"
ACCEPT_JOB = "gw.job.accept"


def operation_of(protocol: str) -> str:
    """Return the operation name of a protocol's calls."""
    return genai.CHAT if protocol in CHAT_PROTOCOLS else genai.GENERATE


def end_call(span: CallSpan, ending: Ending, attributes: Attributes = NO_ATTRIBUTES) -> None:
    """End the span of a call with its error; only errors of the server's side mark it as failed.

    That is the OpenTelemetry convention for servers.
    """
    ended: dict[str, AttributeValue] = {"gw.status": ending.status}
    is_failure = ending.fault is not None
    if ending.error is not None:
        status = ended[genai.RESPONSE_STATUS_CODE] = ending.error.http_status
        is_failure = is_failure or status >= 500
    span.end(error_type=ending.code, is_failure=is_failure, attributes={**ended, **attributes})


# The detail of a call's row: the decisions made for it, and the figures of its receipt.
#
# Collected while the call runs and written with its settlement (`call_logs.detail`). Channels are
# named for operators; `gw/api/logs` selects what a client sees. Names are short and defaults are
# left out, because every call has one:
#
#   request        what was asked, without the conversation     {name: text}
#   price          USD per 1M tokens (`TokenPrice.stated`)      {input, output, …}
#                  or per piece (`ImagePrice.stated`)           {per_image, …}
#   account_price  the agreement that it was priced by          its id
#   hold           nano-USD held                                integer
#   estimate       tokens it was held for                       [input, output]
#   order          channels considered, in order                [[channel, protocol], …]
#   conversation   which calls belong together (`label_of`)     16 hex digits
#   pinned         the order is that of a pinned conversation   true
#   passed_over    why some of them were not tried              {channel: reason}
#   tried          attempts, the answered one last              [[channel, Unix s, ms, outcome], …]
#   bought         attempts that may be billed, where failed    [[channel, whether it was used,
#                  ones are among them; null: unknown           [input, cached, written, output],
#                                                               nano-USD], …]
#   first_byte_ms  when the client was sent the first byte      integer
#   translation    by which translation, and what was lost      header value or the path's name;
#                                                               `dropped`: [field, …]
#   upstream       what the upstream reported of its response   {status, id, model, finish, …}
#   basis          what the tokens rest on, unless "stated"     `bills.Basis`
#   doubted        stated counts that are not possible          {input, output, …: integer}
#   units          pieces by their price                        {standard, large, references}
#   characters     counted where output was estimated           integer
#   cache_write, reasoning   tokens, parts of input and output  integers
#   parts          counts billed by a price of their own        {member of `price`: integer}
#   trace_id       OpenTelemetry's, of a call that is traced    32 hex digits

_LOG = EventLog("gw.calls")
_NOTHING: Mapping[str, Any] = MappingProxyType({})

# Members of `upstream` that are the upstream's own: sentences, and names.
_TEXTS, _NAMES = ("error", "error_code"), ("id", "model", "finish")


class CallObserver(Struct, eq=False):
    """Writes span, metrics and receipt of one call. It decides nothing.

    Channel and times are those of the last attempt: `started_at` in Unix seconds, `started` in
    monotonic ones. `attempt` is its span where the call is sampled.
    """

    call: Call
    clock: Clock
    metrics: Metrics
    channel_id: str = ""
    propagates: bool = False
    started_at: float = 0.0
    started: float = 0.0
    attempt: ChildSpan | None = None
    first_byte_seconds: float | None = None

    def __repr__(self) -> str:
        return f"<CallObserver {self.channel_id or 'no channel'} {', '.join(self.call.detail)}>"

    # --- Channels and attempts ---

    def considered(self, order: Sequence[Candidate], *, is_pinned: bool = False) -> None:
        """Record the channels that may serve the call, in order."""
        self.call.detail["order"] = [[c.channel_id, c.protocol] for c in order]
        if is_pinned:
            self.call.detail["pinned"] = True

    def tries_first(self, channel_id: str) -> None:
        """Record a trial: this channel is tried before its turn."""
        self.call.detail["order"].sort(key=lambda one: one[0] != channel_id)

    def passed_over(self, reasons: Mapping[str, str]) -> None:
        """Record the channels that were not tried, with the reason."""
        if reasons:
            self.call.detail.setdefault("passed_over", {}).update(reasons)

    def attempt_begins(self, candidate: Candidate, channel: ChannelSpec, began: int) -> None:
        """Record the begin of an attempt; `began` (`CallSpan.now`) is before its lease."""
        call = self.call
        self.channel_id = candidate.channel_id
        self.propagates = channel.propagate_trace
        self.started_at = self.clock.now()
        self.started = self.clock.monotonic()
        if call.span.sampled:
            operation = operation_of(call.facts.protocol)
            self.attempt = call.span.attempt(
                f"{operation} {candidate.upstream_model}",
                began=began,
                attributes={
                    genai.OPERATION_NAME: operation,
                    genai.PROVIDER_NAME: genai.provider_of(channel.kind, call.model.owned_by),
                    genai.REQUEST_MODEL: candidate.upstream_model,
                    "gw.channel": candidate.channel_id,
                    "gw.protocol": candidate.protocol,
                },
            )

    def request_trace(self, request: UpstreamRequest) -> RequestTrace | None:
        """Return the trace of a request of a call that has one."""
        span = self.call.span
        return span.request_trace(
            propagates=self.propagates,
            attributes=_server_of(request) if span.sampled else NO_ATTRIBUTES,
        )

    def response_head(self) -> None:
        """Record the head of the attempt's response."""
        if self.attempt is not None:
            self.attempt.event(RESPONSE_HEAD)

    def first_chunk(self) -> None:
        """Record the first chunk of a stream."""
        if self.attempt is not None:
            self.attempt.event(FIRST_CHUNK)

    def translated(self, call: TranslatedCall) -> None:
        """Record the translation of the call and its losses."""
        self.call.detail["translation"] = call.translation.header or call.translation.path
        if call.report.dropped:
            self.call.detail["dropped"] = list(call.report.dropped)

    def attempt_ended(self, outcome: str, status: int | None, *, is_ok: bool) -> float:
        """Record the end of an attempt; return its duration in seconds."""
        call, channel_id = self.call, self.channel_id
        seconds = self.clock.monotonic() - self.started
        self.metrics.attempt(channel_id, outcome, seconds, call.span.exemplar)
        tried = [channel_id, round(self.started_at * 1000) / 1000, round(seconds * 1000), outcome]
        call.detail.setdefault("tried", []).append(tried)
        if self.attempt is not None:
            attributes: dict[str, AttributeValue] = {"gw.outcome": outcome}
            if status is not None:
                attributes[genai.RESPONSE_STATUS_CODE] = status
            error_type = None if is_ok else _error_type(outcome, status)
            self.attempt.end(error_type=error_type, attributes=attributes)
            self.attempt = None
        return seconds

    # --- The call ---

    def first_byte(self) -> None:
        """Record that the first byte is sent."""
        call = self.call
        seconds = self.first_byte_seconds = self.clock.monotonic() - call.started
        self.metrics.first_byte(call.facts.protocol, call.model.id, seconds, call.span.exemplar)
        call.detail["first_byte_ms"] = round(seconds * 1000)

    def receipt(
        self, charged: Charged, http_status: int | None, redactor: Redactor
    ) -> Mapping[str, Any]:
        """Complete the detail with the charge and the facts that the upstream reported; return it.

        `http_status` is that of the last attempt's response, None where there was none.
        """
        detail = self.call.detail
        upstream = charged.upstream
        if not charged.is_redacted or "error" in upstream:
            upstream = _redacted(upstream, redactor)
        if http_status:
            upstream["status"] = http_status
        if upstream:
            detail["upstream"] = upstream
        detail.update(charged.detail)
        return detail

    def call_ended(
        self,
        ending: Ending,
        bill: Bill,
        charged: Charged,
        seconds: float,
        upstream_nano_usd: int | None,
    ) -> None:
        """Record the end of the call: its duration, its charge, and its cost to the operator."""
        metrics, call, usage = self.metrics, self.call, charged.usage
        protocol, model = call.facts.protocol, call.model.id
        code, exemplar = ending.code or "ok", call.span.exemplar
        metrics.call_finished(protocol, model, ending.status, code, seconds, exemplar)
        if ending is not SUCCESS and ending.fault is not None:
            metrics.call_failed(model=model, fault=ending.fault)
        if usage.input_tokens or usage.output_tokens:
            self._response_ended(ending, charged, seconds)
        if usage is not NO_TOKENS or charged.cost_nano_usd or upstream_nano_usd != 0:
            metrics.sales.settled(
                channel=self.channel_id,
                model=model,
                input_tokens=usage.input_tokens,
                cached_tokens=usage.cached_tokens,
                output_tokens=usage.output_tokens,
                nano_usd=charged.cost_nano_usd,
                upstream_nano_usd=upstream_nano_usd,
                is_sold=ending.status == "success" or charged.cost_nano_usd > 0,
            )
        if charged.units:
            metrics.units(model=model, unit=UNIT_TYPES[protocol], count=charged.units)
        for what in charged.unpriced:
            if metrics.usage_unpriced(model=model, what=what):
                _LOG.warning("usage_unpriced", model=model, what=what)
        if charged.doubted:
            self._usage_doubted(charged.doubted)
        if call.span.sampled:
            described = bill.attributes(charged, first_byte_seconds=self.first_byte_seconds)
            end_call(call.span, ending, {"gw.cost_nano_usd": charged.cost_nano_usd, **described})

    def _usage_doubted(self, doubted: Mapping[str, int]) -> None:
        """Raise the alarm for stated counts that are not possible, and were not charged."""
        call, channel = self.call, self.channel_id
        for what, count in doubted.items():
            self.metrics.usage_doubted(channel=channel, what=what)
            _LOG.warning(
                "usage_doubted",
                channel=channel,
                model=call.model.id,
                what=what,
                stated=count,
                request_id=call.facts.call_id.hex,
            )

    def _response_ended(self, ending: Ending, charged: Charged, seconds: float) -> None:
        """Count the model that responded, and the time per output token."""
        call, model = self.call, self.call.model.id
        named = call.detail.get("upstream", _NOTHING).get("model")
        if named is not None:
            requested = call.detail.get("request", _NOTHING).get("model", model)
            self.metrics.models.responded(requested, model, named)
        if charged.is_stream and ending.status == "success" and self.first_byte_seconds:
            # The first token comes with the first byte.
            seconds, later = seconds - self.first_byte_seconds, charged.usage.output_tokens - 1
            if later > 0:
                self.metrics.output_token(model, seconds / later)


def _redacted(facts: Mapping[str, Any], redactor: Redactor) -> dict[str, Any]:
    """Return an upstream's facts, redacted: its error's texts, and the names in its response."""
    upstream = {}
    for name, value in facts.items():
        if value and (shown := redactor.text(value) if name in _TEXTS else value):
            upstream[name] = shown
    names = [name for name in _NAMES if name in upstream]
    # Checked together, because a secret in them is rare; no secret contains the separator.
    if not redactor.responses.is_clear("\0".join([upstream[name] for name in names]).encode()):
        for name in names:
            upstream[name] = redactor.responses.redacted(upstream[name].encode()).decode()
    return upstream


def _server_of(request: UpstreamRequest) -> Attributes:
    origin = address_of(request.url).origin
    return {genai.SERVER_ADDRESS: origin.host, genai.SERVER_PORT: origin.port}


def status_outcome(status: int) -> str:
    """Return the outcome of an attempt that a status ended: 429 has its own, since it
    blames neither the request nor the channel."""
    return "rate_limited" if status == 429 else f"status_{status // 100}xx"


def _error_type(outcome: str, status: int | None) -> str:
    """Return the error type of an attempt: the status, where nothing else is known."""
    is_status = status is not None and outcome == status_outcome(status)
    return str(status) if is_status else outcome
