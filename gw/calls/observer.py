"""The detail of a call's row: the decisions made for it, and the figures of its receipt.

Collected while the call runs and written with its settlement (`call_logs.detail`). Channels are
named for operators; `gw/api/logs` selects what a client sees. Names are short and defaults are
left out, because every call has one:

  request        what was asked, without the conversation     {name: text}
  price          USD per 1M tokens (`TokenPrice.stated`)      {input, output, …}
                 or per piece (`ImagePrice.stated`)           {per_image, …}
  account_price  the agreement that it was priced by          its id
  hold           nano-USD held                                integer
  estimate       tokens it was held for                       [input, output]
  budget         which budget refused it, in nano-USD         {id, limit, spent, held, needed}
  demanded       what key, account and header demanded for its data    "region=eu; retention=0"
  promised       what the channel tried last promises     the same, where something was demanded
  order          channels considered, in order                [[channel, protocol], …]
  chain          of a chain: the model of each attempt        [id, …]
  served         of a chain: the model that gave the response  its id
  skipped        of a chain: models that would lose members   {model: [member, …]}
  conversation   which calls belong together (`label_of`)     16 hex digits
  pinned         the order is that of a pinned conversation   true
  passed_over    why some of them were not tried              {channel: reason}
  tried          attempts, the answered one last              [[channel, Unix s, ms, outcome], …]
  bought         attempts that may be billed, where failed    [[channel, whether it was used,
                 ones are among them; null: unknown           [input, cached, written, output],
                                                              nano-USD, of a chain: model], …]
  first_byte_ms  when the client was sent the first byte      integer
  translation    by which translation, and what was lost      header value or the path's name;
                                                              `dropped`: [field, …]
  upstream       what the upstream reported of its response   {status, id, model, finish, …}
  basis          what the tokens rest on, unless "stated"     `token_charge.Basis`
  estimated_by   what an estimated measure rests on           "request", "response" or "hold"
  doubted        stated counts that are not possible          {input, output, …: integer}
  units          pieces by their price                        {standard, large, references}
  characters     counted where output was estimated           integer
  cache_write, reasoning   tokens, parts of input and output  integers
  parts          counts billed by a price of their own        {member of `price`: integer}
  trace_id       OpenTelemetry's, of a call that is traced    32 hex digits
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from msgspec import Struct

from actors.clock import Clock
from actors.routing import Candidate
from channels.families import UNIT_TYPES
from channels.http.interfaces import UpstreamRequest
from channels.http.origin import address_of
from channels.redaction import Redactor
from channels.registry import ChannelSpec
from channels.translation.session import TranslatedCall
from gw.calls.bills import NO_TOKENS, Bill, Charged
from gw.calls.call import Call
from gw.calls.call_spans import end_call, operation_of
from gw.calls.endings import SUCCESS, Ending
from metrics import genai, spans
from metrics.logs import EventLog
from metrics.prometheus import Metrics

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
    step: str = ""  # the model of a chain
    attempt: spans.ChildSpan | None = None
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
        """Record the begin of an attempt; `began` is `CallSpan.now`."""
        call = self.call
        self.channel_id, self.step = candidate.channel_id, candidate.step
        if call.demand is not None:
            call.detail["promised"] = str(channel.data_promise)
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
                    genai.PROVIDER_NAME: genai.provider_of(
                        channel.kind, call.sold_as(candidate).owned_by
                    ),
                    genai.REQUEST_MODEL: candidate.upstream_model,
                    "gw.channel": candidate.channel_id,
                    "gw.protocol": candidate.protocol,
                },
            )

    def request_trace(self, request: UpstreamRequest) -> spans.RequestTrace | None:
        """Return the trace of a request of a call that has one."""
        span = self.call.span
        return span.request_trace(
            propagates=self.propagates,
            attributes=_server_of(request) if span.sampled else spans.NO_ATTRIBUTES,
        )

    def response_head(self) -> None:
        """Record the head of the attempt's response."""
        if self.attempt is not None:
            self.attempt.event(spans.RESPONSE_HEAD)

    def first_chunk(self) -> None:
        """Record the first chunk of a stream."""
        if self.attempt is not None:
            self.attempt.event(spans.FIRST_CHUNK)

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
        if self.step:
            call.detail.setdefault("chain", []).append(self.step)
        if self.attempt is not None:
            attributes: dict[str, spans.AttributeValue] = {"gw.outcome": outcome}
            if status is not None:
                attributes[genai.RESPONSE_STATUS_CODE] = status
            error_type = None if is_ok else _error_type(outcome, status)
            self.attempt.end(error_type=error_type, attributes=attributes)
            self.attempt = None
        return seconds

    def attempt_skipped(self, channel_id: str, lost: Sequence[str]) -> None:
        """Record that a chain's model was not called, for what its request would lose.

        `channel_id`: of the attempt before.
        """
        self.call.detail.setdefault("skipped", {})[self.step] = list(lost)
        self.channel_id, self.step = channel_id, ""
        if self.attempt is not None:
            self.attempt.end(attributes={"gw.outcome": "skipped"})
            self.attempt = None

    def served(self) -> None:
        """Record that a chain's model has responded, by another channel than one skipped."""
        self.metrics.chain_served(chain=self.call.model.id, model=self.step)
        skipped = self.call.detail.get("skipped")
        if skipped and skipped.pop(self.step, None) and not skipped:
            del self.call.detail["skipped"]

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
            self.metrics.models.responded(requested, call.detail.get("served", model), named)
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


def _server_of(request: UpstreamRequest) -> spans.Attributes:
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
