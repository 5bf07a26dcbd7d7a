"""The bill of a chat call: tokens, as the meter of its protocol reads them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from actors.live import Delivered
from actors.wallet.pricing import TokenPrice
from channels.dialects.dialect import Meter
from gw.calls.bill import Charged
from gw.calls.charge import NOTHING, Charge, Estimate, charge, delivered
from metrics import genai
from metrics.spans import Attributes, AttributeValue


class TokenBill:
    """What the meter has read, priced; what it has not, estimated."""

    def __init__(self, *, price: TokenPrice, expected: Estimate, is_stream: bool) -> None:
        self.meter: Meter | None = None  # of the attempt that gave the response
        self._price = price
        self._expected = expected
        self._is_stream = is_stream

    def __repr__(self) -> str:
        return f"<TokenBill {self.meter!r}>"

    @property
    def terms(self) -> Mapping[str, Any]:
        expected = self._expected
        return {
            "price": self._price.stated,
            "estimate": [expected.input_tokens, expected.output_tokens],
        }

    @property
    def is_complete(self) -> bool:
        return self.meter is not None and self.meter.finished

    def delivered(self) -> Delivered | None:
        if self.meter is None:
            return None
        return delivered(
            self.meter, input_estimate_tokens=self._expected.input_tokens, price=self._price
        )

    def charged(self, *, first_byte_seconds: float | None) -> Charged:
        charged = NOTHING
        if self.meter is not None and first_byte_seconds is not None:
            charged = charge(
                self.meter, input_estimate_tokens=self._expected.input_tokens, price=self._price
            )
        return Charged(
            cost_nano_usd=charged.cost_nano_usd,
            usage=charged.usage,
            is_stream=self._is_stream,
            detail=self._detail(charged),
            upstream=self._upstream(charged),
        )

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

    def _stated(self, first_byte_seconds: float | None) -> Attributes:
        """What the upstream said of its response: only what is known."""
        meter = self.meter
        pairs: dict[str, AttributeValue | None] = {}
        if meter is not None:
            pairs[genai.RESPONSE_ID] = meter.response_id
            pairs[genai.RESPONSE_MODEL] = meter.response_model
            pairs[genai.RESPONSE_FINISH_REASONS] = meter.finish_reason and [meter.finish_reason]
        if self._is_stream:
            pairs[genai.RESPONSE_TIME_TO_FIRST_CHUNK] = first_byte_seconds
        return {name: value for name, value in pairs.items() if value}

    def _detail(self, charged: Charge) -> dict[str, Any]:
        """What is paid for, and what that rests on."""
        usage = charged.usage
        detail: dict[str, Any] = {}
        if charged.basis != "stated":
            detail["basis"] = charged.basis
            if charged.basis != "nothing" and self.meter is not None:
                detail["characters"] = self.meter.characters
        if usage.cache_write_tokens:
            detail["cache_write"] = usage.cache_write_tokens
        if usage.reasoning_tokens:
            detail["reasoning"] = usage.reasoning_tokens
        return detail

    def _upstream(self, charged: Charge) -> dict[str, Any]:
        """What the upstream said of its response; its usage where that is not what is charged."""
        meter = self.meter
        if meter is None:
            return {}
        facts: dict[str, Any] = {
            "id": meter.response_id,
            "model": meter.response_model,
            "finish": meter.finish_reason,
        }
        if meter.error_seen is not None:
            facts["error"], facts["error_code"] = meter.error_seen.message, meter.error_seen.code
        if charged.basis != "stated":
            facts["usage"] = _stated_usage(meter)
        return facts


def _stated_usage(meter: Meter) -> dict[str, int]:
    """The counts that the upstream did state."""
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
