"""The bill of a chat call, by tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from actors.wallet.bounds import Bounds
from actors.wallet.live_calls import Delivered
from actors.wallet.pricing import Billable, TokenPrice
from actors.wallet.sheets import hold_nano_usd, unpriced_in
from channels.dialects.meter import Meter
from channels.dialects.token_counts import Usage
from gw.calls import token_charge
from gw.calls.bills import NO_TOKENS, Bill, Charged
from gw.calls.token_charge import delivered
from gw.calls.upstream_prices import UpstreamPrice
from metrics import genai
from metrics.spans import Attributes, AttributeValue


class TokenBill(Bill, Struct, eq=False):
    """The bill of a chat call: the usage read by its meter, or an estimate.

    The tokens are those estimated before the call, at whose cost it is held; `body_tokens` those of
    the whole body. Of a chain, `served` is the model that it is charged for, and what is held is
    that of its dearest model.
    """

    price: TokenPrice  # at the channel of the response, if that has one of its own
    input_tokens: int
    output_tokens: int
    hold_nano_usd: int
    is_stream: bool
    bounds: Bounds
    body_tokens: int
    billable: Billable | None
    is_repriced: bool = False  # the price is not the one that was held by
    served: str = ""
    budget_most_nano_usd: int | None = None  # of a chain, what is held on budgets
    meter: Meter | None = None  # of the attempt that gave the response

    def __repr__(self) -> str:
        return f"<TokenBill {self.meter!r}>"

    @property
    def budget_hold_nano_usd(self) -> int:
        if self.budget_most_nano_usd is not None:
            return self.budget_most_nano_usd
        if self.body_tokens == self.input_tokens:
            return self.hold_nano_usd
        return _cost_nano_usd(self.price, self.body_tokens, self.output_tokens, self.billable)

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
            detail = {**self._repriced(), **(so_far.detail or {})}
            so_far = replace(so_far, detail=detail)
        return so_far

    def charged(self, *, first_byte_seconds: float | None) -> Charged:
        charged = token_charge.NOTHING
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

    def _charge(self, meter: Meter) -> token_charge.TokenCharge:
        return token_charge.charge(
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

    def _detail(self, charged: token_charge.TokenCharge) -> dict[str, Any]:
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
            detail |= self._repriced()
        if charged.priced is not None or usage.parts is not None:
            detail |= token_charge.price_detail(charged)
        return detail

    def _repriced(self) -> dict[str, Any]:
        """Return what the row says of the price, as it is not the one that was held by."""
        stated = {"price": self.price.stated}
        return {**stated, "served": self.served} if self.served else stated

    def _unpriced(self, usage: Usage) -> Sequence[str]:
        sheet = self.price.sheet
        return unpriced_in(usage) if sheet is None else sheet.unpriced(usage)


def estimate(
    *,
    content_bytes: int,
    body_bytes: int,
    max_tokens: int | None,
    model_max_output_tokens: int | None,
    price: TokenPrice,
    bounds: Bounds,
    billable: Billable | None = None,
    is_stream: bool = False,
) -> TokenBill:
    """Return the bill of a call: held for its bytes as input and the maximum as output.

    `content_bytes` is the length of `messages` (`input`, `contents`) as the client sent it, or of
    the whole body, `body_bytes`, where that is configured. An explicit maximum counts in full, even
    above the model's ceiling. `billable` is set where the price depends on other members of the
    request.
    """
    input_tokens = token_charge.tokens_of_bytes(content_bytes)
    if max_tokens is None:
        ceiling = model_max_output_tokens or token_charge.OUTPUT_TOKENS_DEFAULT_MAX
        max_tokens = min(ceiling, token_charge.OUTPUT_TOKENS_DEFAULT_MAX)
    amount = _cost_nano_usd(price, input_tokens, max_tokens, billable)
    body_tokens = token_charge.tokens_of_bytes(body_bytes)
    return TokenBill(
        price, input_tokens, max_tokens, amount, is_stream, bounds, body_tokens, billable
    )


def _cost_nano_usd(
    price: TokenPrice, input_tokens: int, output_tokens: int, billable: Billable | None
) -> int:
    """Return the most that so many tokens may cost."""
    if billable is None:
        return price.estimate_nano_usd(input_tokens=input_tokens, output_tokens=output_tokens)
    return hold_nano_usd(
        price, input_tokens=input_tokens, output_tokens=output_tokens, billable=billable
    )


def _reported(meter: Meter, basis: token_charge.Basis) -> dict[str, Any]:
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
