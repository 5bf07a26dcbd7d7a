"""The bill of one call: its hold, its delivered content, its cost. Chat is billed by tokens, media
by the piece.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Literal, Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from actors.jobs.store import OpenJob
from actors.routing import Candidate
from actors.wallet.bounds import NONE_DOUBTED, Bounds, bounded
from actors.wallet.live_calls import Delivered
from actors.wallet.piece_prices import MediaPrice
from actors.wallet.pricing import Billable, Priced, TokenPrice
from actors.wallet.sheets import hold_nano_usd, token_price, unpriced_in
from channels.dialects.meter import Meter, MeterReading
from channels.dialects.token_counts import PartialUsage, Usage, UsageParts, with_parts
from channels.prices import PriceSpec
from channels.registry import ModelSpec
from gw.config.live import LiveConfig
from gw.price_list.offers import cost_of
from gw.price_list.reading import bundled
from metrics import genai
from metrics.spans import Attributes, AttributeValue

NO_TOKENS = Usage(input_tokens=0, output_tokens=0)


class Charged(Struct, frozen=True, kw_only=True):
    """The cost of a call, with the members of its row and its receipt (`call.py`).

    `units` are those of the row's `unit_type`; 0 where the call is billed by tokens. `upstream` are
    the facts that the upstream reported; `is_redacted`: in a response whose secrets were removed
    before it was read, and without empty ones.
    """

    cost_nano_usd: int
    usage: Usage = NO_TOKENS
    units: int = 0
    is_stream: bool = False
    is_redacted: bool = False
    result_urls: Sequence[str] = ()
    result_expires_at: float | None = None  # Unix seconds
    detail: Mapping[str, Any] = msgspec.field(default_factory=dict)
    upstream: dict[str, Any] = msgspec.field(default_factory=dict)
    unpriced: Sequence[str] = ()  # reported usage that has no price
    doubted: Mapping[str, int] = NONE_DOUBTED  # stated counts that are not possible


class UpstreamPrice(Struct, frozen=True):
    """The price of an upstream for a model: `model` with that price and no multiplier.

    `tokens` is the compiled price of a model that is billed by tokens.
    """

    model: ModelSpec
    tokens: TokenPrice

    def cost_nano_usd(self, usage: Usage) -> int | None:
        """Return the cost of a usage; None where a part of it has no price."""
        sheet = self.tokens.sheet
        if usage.parts is not None and (
            unpriced_in(usage) if sheet is None else sheet.unpriced(usage)
        ):
            return None
        return self.tokens.cost_nano_usd(usage)


class UpstreamPrices:
    """The operator's cost of each channel in the current configuration, compiled once.

    It is the `cost` of the channel's entry in the model, else the price of the bundled list for the
    provider. A `cost` with neither input nor output replaces members of that price.
    """

    def __init__(self, current: LiveConfig) -> None:
        bundled()  # loaded before the first call
        self._current = current

    def __repr__(self) -> str:
        return f"<UpstreamPrices of {self._current}>"

    def of(self, model: ModelSpec, candidate: Candidate) -> UpstreamPrice | None:
        """Return the price of a model at a channel; None where it is unknown."""
        found: UpstreamPrice | Literal[False] | None = model.derived.get(candidate)
        if found is None:
            found = model.derived[candidate] = self._price(model, candidate) or False
        return found or None

    def _price(self, model: ModelSpec, candidate: Candidate) -> UpstreamPrice | None:
        channel = self._current.registry.channels.get(candidate.channel_id)
        cost = None if channel is None else cost_of(model, channel, candidate.upstream_model)
        bound = (candidate.channel_id, candidate.upstream_model)
        for one in model.bindings:
            if one.cost is not None and (one.channel_id, one.upstream_model or model.id) == bound:
                cost = _stated_cost(one.cost, cost, model)
        if cost is None:
            return None
        priced = dataclasses.replace(model, price=cost, multiplier=Decimal(1))
        return UpstreamPrice(priced, token_price(cost, priced.multiplier))

    def of_job(self, open_job: OpenJob, quantity: int) -> int | None:
        """Return the cost of a job in nano-USD that produced `quantity`, which may be 0."""
        job = open_job.job
        model = self._current.registry.resolve(job.model)
        if not quantity:
            return 0
        if model is None or job.channel_id is None or job.upstream_model is None:
            return None
        price = self.of(model, Candidate(job.channel_id, job.upstream_model, job.protocol))
        if price is None:
            return None
        resolution = (open_job.detail.get("request") or {}).get("resolution")
        return MediaPrice.of(price.model, resolution=resolution).cost_nano_usd(quantity)


def _stated_cost(stated: PriceSpec, listed: PriceSpec | None, model: ModelSpec) -> PriceSpec | None:
    """Return the cost of a channel's entry, completed by the listed price where it is partial."""
    if stated.input is not None or stated.output is not None or model.endpoint_type is not None:
        return stated
    return None if listed is None else stated.over(listed)


class Bill(Protocol):
    """Reads the response of one call and prices it."""

    @property
    def hold_nano_usd(self) -> int:
        """The cost of a complete response to the request."""

    @property
    def terms(self) -> dict[str, Any]:
        """The price, and the estimate for the hold, as in the receipt; a dict of its own."""

    @property
    def is_complete(self) -> bool:
        """Whether the upstream's response is complete, so that its connection can be reused."""

    def delivered(self) -> Delivered | None:
        """Return the content sent so far, priced; None while there is none."""

    def charged(self, *, first_byte_seconds: float | None) -> Charged:
        """Return the charge. `first_byte_seconds` is None when nothing was sent to the client."""

    def upstream_cost(self, price: UpstreamPrice | None, charged: Charged) -> int | None:
        """Return the operator's cost of the response in nano-USD, also where it is not charged.

        None where it is unknown.
        """

    def attributes(self, charged: Charged, *, first_byte_seconds: float | None) -> Attributes:
        """Return the attributes of the response in the span of a sampled call."""


# The bill of a call whose quantity is known beforehand: one, or a number of characters.


class UnitBill:
    """Charges everything or nothing. `quantity` is in the unit of the row."""

    is_complete = True  # a response is read whole, or its connection is closed

    def __init__(self, price: MediaPrice, quantity: int) -> None:
        self._price = price
        self._quantity = quantity

    def __repr__(self) -> str:
        return f"<UnitBill {self._quantity} {dict(self._price.stated)}>"

    @property
    def hold_nano_usd(self) -> int:
        """The cost of the quantity."""
        return self._price.cost_nano_usd(self._quantity)

    @property
    def terms(self) -> dict[str, Any]:
        return {"price": self._price.stated}

    def delivered(self) -> Delivered | None:
        """None: the response is sent at once, when it is settled."""
        return None

    def charged(self, *, first_byte_seconds: float | None) -> Charged:
        if first_byte_seconds is None:
            return Charged(cost_nano_usd=0)
        return Charged(
            cost_nano_usd=self.hold_nano_usd,
            units=self._quantity,
            detail={"units": self._price.units(self._quantity)},
        )

    def upstream_cost(self, price: UpstreamPrice | None, charged: Charged) -> int | None:
        if not charged.units:
            return 0
        if price is None:
            return None
        return MediaPrice.of(price.model).cost_nano_usd(charged.units)

    def attributes(self, charged: Charged, *, first_byte_seconds: float | None) -> Attributes:
        return {"gw.units": charged.units}


# The highest cost of a chat call, and its real cost: pure arithmetic on tokens and bytes.
#
# Before the call the pre-charge (spec: Limits, Chat pre-charge), after it contract §7, "Cost of a
# cut call":
#
#     delivered                usage from upstream   charged
#     nothing                  –                     nothing
#     something, or a full     yes                   that usage
#     answer                   no                    an estimate: input by the pre-charge rule,
#                                                    output by the characters emitted
#                              before the last       that usage, and an estimate of the characters
#                              characters            that followed
#
# Tier and tools are charged as far as they were seen. `actors/wallet/bounds.py` bounds all counts.
#
# An error is not a delivered response: a refused or failed call has delivered nothing, and neither
# has a response that contains an error and no character.

BYTES_PER_TOKEN = 4
# Spec: without an explicit maximum, the smaller of the model's maximum and this is held.
OUTPUT_TOKENS_DEFAULT_MAX = 32_768

# Source of the token counts: stated by the upstream; stated in part, the rest estimated; estimated;
# or nothing was delivered.
Basis = Literal["stated", "partly_stated", "estimated", "nothing"]


class Charge(Struct, frozen=True):
    """Tokens and cost of a call, with the source of the counts.

    `priced` is the calculation where the price has more members than the four plain ones, `doubted`
    are the stated counts that are not possible, and are not charged.
    """

    usage: Usage
    cost_nano_usd: int
    basis: Basis
    priced: Priced | None = None
    doubted: Mapping[str, int] = NONE_DOUBTED


NOTHING = Charge(NO_TOKENS, 0, "nothing")


def tokens_of_bytes(count: int) -> int:
    """Return the tokens estimated for a number of bytes or characters: a quarter, rounded up."""
    return -(-count // BYTES_PER_TOKEN)


def charge(
    meter: MeterReading, *, input_estimate_tokens: int, price: TokenPrice, bounds: Bounds
) -> Charge:
    """Price the response that a meter has read."""
    usage, partial = meter.usage, None
    if usage is None:
        partial = meter.partial_usage
        has_run = meter.finished or (partial is not None and _runs_tools(partial.parts))
        if not meter.characters and (not has_run or meter.error_seen is not None):
            return NOTHING  # even if the upstream stated its input before
    estimate = bounds.estimate(Usage(input_estimate_tokens, tokens_of_bytes(meter.characters)))
    basis: Basis = "partly_stated"
    if usage is None:
        usage, basis = _completed(partial, estimate)
    elif not meter.unstated_characters:
        basis = "stated"
    elif not (usage.input_tokens or usage.output_tokens):
        usage, basis = replace(estimate, parts=usage.parts), "estimated"  # zeros say nothing
    else:
        most = usage.output_tokens + tokens_of_bytes(meter.unstated_characters)
        output = max(usage.output_tokens, min(most, bounds.output_tokens))
        usage = replace(usage, output_tokens=output)
    doubted = bounds.doubted(usage)
    if not doubted:
        return charge_of(usage, price, basis)
    is_estimated = basis == "estimated" or doubted.keys() >= {"input", "output"}
    priced = charge_of(
        bounded(usage, doubted, estimate), price, "estimated" if is_estimated else "partly_stated"
    )
    return msgspec.structs.replace(priced, doubted=doubted)


def charge_of(usage: Usage, price: TokenPrice, basis: Basis) -> Charge:
    """Price a usage, by all members of the price."""
    if price.sheet is None:
        return Charge(usage, price.cost_nano_usd(usage), basis)
    priced = price.sheet.priced(usage)
    return Charge(usage, priced.cost_nano_usd, basis, priced)


def _completed(partial: PartialUsage | None, estimate: Usage) -> tuple[Usage, Basis]:
    """Complete a partial usage by the estimate (contract §7: a stream cut early).

    If only a total is stated, the input is the total without the estimated output.
    """
    if partial is None:
        return estimate, "estimated"
    usage, parts, total = partial.input, partial.parts, partial.total_tokens
    basis: Basis = "partly_stated"
    if total is not None:
        output_tokens = min(estimate.output_tokens, total)
        usage = Usage(input_tokens=total - output_tokens, output_tokens=output_tokens)
    else:
        if usage is None and partial.output_tokens is None:
            basis = "estimated"
        output_tokens = max(partial.output_tokens or 0, estimate.output_tokens)
        usage = replace(usage or estimate, output_tokens=output_tokens)
    return usage if parts is None else with_parts(usage, parts), basis


def _runs_tools(parts: UsageParts | None) -> bool:
    """Whether tools are known to have run, which cost without any character."""
    return parts is not None and bool(
        parts.web_searches or parts.file_searches or parts.code_sessions
    )


def delivered(
    meter: MeterReading, *, input_estimate_tokens: int, price: TokenPrice, bounds: Bounds
) -> Delivered | None:
    """Return the charge so far for the heartbeat; None while nothing has been delivered."""
    so_far = charge(meter, input_estimate_tokens=input_estimate_tokens, price=price, bounds=bounds)
    if so_far is NOTHING:
        return None
    return Delivered(
        cost_nano_usd=so_far.cost_nano_usd,
        input_tokens=so_far.usage.input_tokens,
        output_tokens=so_far.usage.output_tokens,
        cached_tokens=so_far.usage.cached_tokens,
        cache_write_tokens=so_far.usage.cache_write_tokens,
        basis=so_far.basis,
        detail=price_detail(so_far) or None,
    )


def stated_usage(meter: MeterReading, bounds: Bounds) -> Usage | None:
    """Return the usage that an upstream stated of a response that is not used, or None.

    Nothing is estimated, because upstreams may not bill failed responses; neither is a count that
    is not possible.
    """
    usage, partial = meter.usage, meter.partial_usage
    if usage is None and partial is not None and partial.input is not None:
        usage = replace(partial.input, output_tokens=partial.output_tokens or 0)
    return None if usage is None or bounds.doubted(usage) else usage


def price_detail(charge: Charge) -> dict[str, Any]:
    """Return the calculation of a cost for the row's detail, and what the upstream reported besides
    plain tokens: a part without a price may have one in another list."""
    detail: dict[str, Any] = {}
    if charge.priced is not None:
        detail["price"] = charge.priced.stated
        if charge.priced.parts:
            detail["parts"] = charge.priced.parts
    if charge.usage.parts is not None:
        detail["reported"] = msgspec.to_builtins(charge.usage.parts)
    return detail


class TokenBill(Struct, eq=False):
    """The bill of a chat call: the usage read by its meter, or an estimate.

    The tokens are those estimated before the call, at whose cost it is held.
    """

    price: TokenPrice  # at the channel of the response, if that has one of its own
    input_tokens: int
    output_tokens: int
    hold_nano_usd: int
    is_stream: bool
    bounds: Bounds
    is_repriced: bool = False  # the price is not the one that was held by
    meter: Meter | None = None  # of the attempt that gave the response

    def __repr__(self) -> str:
        return f"<TokenBill {self.meter!r}>"

    @property
    def terms(self) -> dict[str, Any]:
        return {"price": self.price.stated, "estimate": [self.input_tokens, self.output_tokens]}

    @property
    def is_complete(self) -> bool:
        return self.meter is not None and self.meter.finished

    def served_by(self, channel_id: str, meter: Meter) -> None:
        """Set the channel of the response, whose price applies, and its meter."""
        self.meter = meter
        if self.price.channels is not None and channel_id in self.price.channels:
            self.price, self.is_repriced = self.price.channels[channel_id], True

    def delivered(self) -> Delivered | None:
        if self.meter is None:
            return None
        so_far = delivered(
            self.meter,
            input_estimate_tokens=self.input_tokens,
            price=self.price,
            bounds=self.bounds,
        )
        if so_far is not None and self.is_repriced:
            detail = {"price": self.price.stated, **(so_far.detail or {})}
            so_far = dataclasses.replace(so_far, detail=detail)
        return so_far

    def charged(self, *, first_byte_seconds: float | None) -> Charged:
        charged = NOTHING
        if self.meter is not None and first_byte_seconds is not None:
            charged = self._charge(self.meter)
        usage = charged.usage
        return Charged(
            cost_nano_usd=charged.cost_nano_usd,
            usage=usage,
            is_stream=self.is_stream,
            is_redacted=not self.is_stream,
            detail=self._detail(charged),
            upstream={} if self.meter is None else _reported(self.meter, charged.basis),
            unpriced=() if usage.parts is None else self._unpriced(usage),
            doubted=charged.doubted,
        )

    def upstream_cost(self, price: UpstreamPrice | None, charged: Charged) -> int | None:
        usage = charged.usage
        if usage == NO_TOKENS:
            if self.meter is not None:  # perhaps nothing of it was sent
                usage = self._charge(self.meter).usage
            if usage == NO_TOKENS:
                return 0
        return None if price is None else price.cost_nano_usd(usage)

    def attributes(self, charged: Charged, *, first_byte_seconds: float | None) -> Attributes:
        usage = charged.usage
        return {
            genai.USAGE_INPUT_TOKENS: usage.input_tokens,
            genai.USAGE_OUTPUT_TOKENS: usage.output_tokens,
            genai.USAGE_CACHE_READ_INPUT_TOKENS: usage.cached_tokens,
            genai.USAGE_CACHE_CREATION_INPUT_TOKENS: usage.cache_write_tokens,
            genai.USAGE_REASONING_OUTPUT_TOKENS: usage.reasoning_tokens,
            **self._stated(first_byte_seconds),
        }

    def _charge(self, meter: Meter) -> Charge:
        return charge(
            meter,
            input_estimate_tokens=self.input_tokens,
            price=self.price,
            bounds=self.bounds,
        )

    def _stated(self, first_byte_seconds: float | None) -> Attributes:
        """Return the span's attributes for the facts that the upstream reported."""
        meter = self.meter
        pairs: dict[str, AttributeValue | None] = {}
        if meter is not None:
            pairs[genai.RESPONSE_ID] = meter.response_id
            pairs[genai.RESPONSE_MODEL] = meter.response_model
            pairs[genai.RESPONSE_FINISH_REASONS] = meter.finish_reason and [meter.finish_reason]
        if self.is_stream:
            pairs[genai.RESPONSE_TIME_TO_FIRST_CHUNK] = first_byte_seconds
        return {name: value for name, value in pairs.items() if value}

    def _detail(self, charged: Charge) -> dict[str, Any]:
        """Return the part of the receipt that explains the charge."""
        usage = charged.usage
        detail: dict[str, Any] = {}
        if charged.basis != "stated":
            detail["basis"] = charged.basis
            if charged.basis != "nothing" and self.meter is not None:
                detail["characters"] = self.meter.characters
        if charged.doubted:
            detail["doubted"] = charged.doubted
        if usage.cache_write_tokens:
            detail["cache_write"] = usage.cache_write_tokens
        if usage.reasoning_tokens:
            detail["reasoning"] = usage.reasoning_tokens
        if self.is_repriced:
            detail["price"] = self.price.stated
        if charged.priced is not None or usage.parts is not None:
            detail |= price_detail(charged)
        return detail

    def _unpriced(self, usage: Usage) -> Sequence[str]:
        sheet = self.price.sheet
        return unpriced_in(usage) if sheet is None else sheet.unpriced(usage)


def estimate(
    *,
    content_bytes: int,
    max_tokens: int | None,
    model_max_output_tokens: int | None,
    price: TokenPrice,
    bounds: Bounds,
    billable: Billable | None = None,
    is_stream: bool = False,
) -> TokenBill:
    """Return the bill of a call: held for its bytes as input and the maximum as output.

    `content_bytes` is the length of `messages` (`input`, `contents`) as the client sent it, or of
    the whole body where that is configured. An explicit maximum counts in full, even above the
    model's ceiling. `billable` is set where the price depends on other members of the request.
    """
    input_tokens = tokens_of_bytes(content_bytes)
    if max_tokens is None:
        ceiling = model_max_output_tokens or OUTPUT_TOKENS_DEFAULT_MAX
        max_tokens = min(ceiling, OUTPUT_TOKENS_DEFAULT_MAX)
    if billable is None:
        amount = price.estimate_nano_usd(input_tokens=input_tokens, output_tokens=max_tokens)
    else:
        amount = hold_nano_usd(
            price, input_tokens=input_tokens, output_tokens=max_tokens, billable=billable
        )
    return TokenBill(price, input_tokens, max_tokens, amount, is_stream, bounds)


def _reported(meter: Meter, basis: Basis) -> dict[str, Any]:
    """Return the facts that the upstream reported; its usage only if that is not charged."""
    facts: dict[str, Any] = {}
    if meter.response_id:
        facts["id"] = meter.response_id
    if meter.response_model:
        facts["model"] = meter.response_model
    if meter.finish_reason:
        facts["finish"] = meter.finish_reason
    if meter.error_seen is not None:
        facts["error"], facts["error_code"] = meter.error_seen.message, meter.error_seen.code
    if basis != "stated" and (usage := _stated_usage(meter)):
        facts["usage"] = usage
    return facts


def _stated_usage(meter: Meter) -> dict[str, int]:
    """Return the counts that the upstream stated."""
    stated, output = meter.usage, None
    if stated is not None:
        output = stated.output_tokens
    elif meter.partial_usage is not None:
        stated, output = meter.partial_usage.input, meter.partial_usage.output_tokens
    counts: dict[str, int | None] = {"output": output}
    if stated is not None:
        counts["input"] = stated.input_tokens
        counts["cached"] = stated.cached_tokens or None
        counts["cache_write"] = stated.cache_write_tokens or None
    return {name: count for name, count in counts.items() if count is not None}
