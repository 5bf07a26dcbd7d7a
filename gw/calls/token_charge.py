"""The highest cost of a chat call, and its real cost: pure arithmetic on tokens and bytes.

Before the call the pre-charge (reference 5.3), after it reference 5.6:

    delivered                usage from upstream   charged
    nothing                  –                     nothing
    something, or a full     yes                   that usage
    answer                   no                    an estimate: input by the pre-charge rule,
                                                   output by the characters emitted
                             before the last       that usage, and an estimate of the characters
                             characters            that followed

Tier and tools are charged as far as they were seen. `actors/wallet/bounds.py` bounds all counts.

An error is not a delivered response: a refused or failed call has delivered nothing, and neither
has a response that contains an error and no character.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from actors.wallet.bounds import NONE_DOUBTED, Bounds, bounded
from actors.wallet.live_calls import Delivered
from actors.wallet.pricing import Priced, TokenPrice
from channels.dialects import token_counts
from channels.dialects.meter import MeterReading
from gw.calls.bills import NO_TOKENS

BYTES_PER_TOKEN = 4
# Without an explicit maximum, the smaller of the model's maximum and this is held (reference 5.3).
OUTPUT_TOKENS_DEFAULT_MAX = 32_768

# Source of the token counts: stated by the upstream; stated in part, the rest estimated; estimated;
# or nothing was delivered.
Basis = Literal["stated", "partly_stated", "estimated", "nothing"]


class TokenCharge(Struct, frozen=True):
    """Tokens and cost of a call, with the source of the counts.

    `priced` is the calculation where the price has more members than the four plain ones, `doubted`
    are the stated counts that are not possible, and are not charged.
    """

    usage: token_counts.Usage
    cost_nano_usd: int
    basis: Basis
    priced: Priced | None = None
    doubted: Mapping[str, int] = NONE_DOUBTED


NOTHING = TokenCharge(NO_TOKENS, 0, "nothing")


def tokens_of_bytes(count: int) -> int:
    """Return the tokens estimated for a number of bytes or characters: a quarter, rounded up."""
    return -(-count // BYTES_PER_TOKEN)


def charge(
    meter: MeterReading, *, input_estimate_tokens: int, price: TokenPrice, bounds: Bounds
) -> TokenCharge:
    """Price the response that a meter has read."""
    usage, partial = meter.usage, None
    if usage is None:
        partial = meter.partial_usage
        has_run = meter.finished or (partial is not None and _runs_tools(partial.parts))
        if not meter.characters and (not has_run or meter.error_seen is not None):
            return NOTHING  # even if the upstream stated its input before
    basis: Basis = "partly_stated"
    if usage is None:
        usage, basis = _completed(partial, _estimate(meter, input_estimate_tokens, bounds))
    elif not meter.unstated_characters:
        basis = "stated"
    elif not (usage.input_tokens or usage.output_tokens):  # zeros say nothing
        estimate = _estimate(meter, input_estimate_tokens, bounds)
        usage, basis = replace(estimate, parts=usage.parts), "estimated"
    else:
        most = usage.output_tokens + tokens_of_bytes(meter.unstated_characters)
        output = max(usage.output_tokens, min(most, bounds.output_tokens))
        usage = replace(usage, output_tokens=output)
    doubted = bounds.doubted(usage)
    if not doubted:
        return charge_of(usage, price, basis)
    is_estimated = basis == "estimated" or doubted.keys() >= {"input", "output"}
    estimate = _estimate(meter, input_estimate_tokens, bounds)
    priced = charge_of(
        bounded(usage, doubted, estimate), price, "estimated" if is_estimated else "partly_stated"
    )
    return msgspec.structs.replace(priced, doubted=doubted)


def _estimate(
    meter: MeterReading, input_estimate_tokens: int, bounds: Bounds
) -> token_counts.Usage:
    """Return the usage of a response by the pre-charge rule and the characters emitted."""
    output_tokens = tokens_of_bytes(meter.characters)
    return bounds.estimate(token_counts.Usage(input_estimate_tokens, output_tokens))


def charge_of(usage: token_counts.Usage, price: TokenPrice, basis: Basis) -> TokenCharge:
    """Price a usage, by all members of the price."""
    if price.sheet is None:
        return TokenCharge(usage, price.cost_nano_usd(usage), basis)
    priced = price.sheet.priced(usage)
    return TokenCharge(usage, priced.cost_nano_usd, basis, priced)


def _completed(
    partial: token_counts.PartialUsage | None, estimate: token_counts.Usage
) -> tuple[token_counts.Usage, Basis]:
    """Complete a partial usage by the estimate (reference 5.6).

    If only a total is stated, the input is the total without the estimated output.
    """
    if partial is None:
        return estimate, "estimated"
    usage, parts, total = partial.input, partial.parts, partial.total_tokens
    basis: Basis = "partly_stated"
    if total is not None:
        output_tokens = min(estimate.output_tokens, total)
        usage = token_counts.Usage(input_tokens=total - output_tokens, output_tokens=output_tokens)
    else:
        if usage is None and partial.output_tokens is None:
            basis = "estimated"
        output_tokens = max(partial.output_tokens or 0, estimate.output_tokens)
        usage = replace(usage or estimate, output_tokens=output_tokens)
    return usage if parts is None else token_counts.with_parts(usage, parts), basis


def _runs_tools(parts: token_counts.UsageParts | None) -> bool:
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


def stated_usage(meter: MeterReading, bounds: Bounds) -> token_counts.Usage | None:
    """Return the usage that an upstream stated of a response that is not used, or None.

    Nothing is estimated, because upstreams may not bill failed responses; neither is a count that
    is not possible.
    """
    usage, partial = meter.usage, meter.partial_usage
    if usage is None and partial is not None and partial.input is not None:
        usage = replace(partial.input, output_tokens=partial.output_tokens or 0)
    return None if usage is None or bounds.doubted(usage) else usage


def price_detail(charge: TokenCharge) -> dict[str, Any]:
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
