"""What a call costs, given what was delivered: the policy of contract §7, "Cost of a cut call".

    delivered                usage from upstream   charged
    nothing                  –                     nothing
    something, or a full     yes                   that usage
    answer                   no                    an estimate: input by the pre-charge rule,
                                                   output by the characters emitted

Errors are never delivered responses: a refused or failed call has delivered nothing, nor has a
response that holds an error and not one character beside it.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from actors.live import Delivered
from actors.wallet.pricing import TokenPrice
from channels.dialects.dialect import MeterReading
from channels.usage import PartialUsage, Usage
from gw.calls.estimate import tokens_of_bytes

# No response has this many tokens. An upstream that says so is not believed: one number must not
# empty a wallet, nor overflow the ledger.
PLAUSIBLE_TOKENS_MAX = 1_000_000_000


# What the tokens rest on: the upstream's word; its word for a part of them, the rest estimated; the
# estimate alone; or nothing was delivered.
Basis = Literal["stated", "partly_stated", "estimated", "nothing"]


class Charge(Struct, frozen=True):
    """Tokens and cost of a call, and what the tokens rest on."""

    usage: Usage
    cost_nano_usd: int
    basis: Basis


NOTHING = Charge(Usage(input_tokens=0, output_tokens=0), 0, "nothing")


def charge(meter: MeterReading, *, input_estimate_tokens: int, price: TokenPrice) -> Charge:
    """Price what the meter has read."""
    usage = meter.usage
    if usage is not None and _is_plausible(usage):
        return Charge(usage, price.cost_nano_usd(usage), "stated")
    if not meter.characters and (not meter.finished or meter.error_seen is not None):
        return NOTHING  # also where an upstream stated its input and then said nothing
    partial = meter.partial_usage
    if partial is not None:
        return _completed(partial, meter, input_estimate_tokens, price)
    estimated = Usage(
        input_tokens=input_estimate_tokens, output_tokens=tokens_of_bytes(meter.characters)
    )
    return Charge(estimated, price.cost_nano_usd(estimated), "estimated")


def _completed(
    partial: PartialUsage, meter: MeterReading, input_estimate_tokens: int, price: TokenPrice
) -> Charge:
    """What was stated counts, the rest is estimated (contract §7: a stream cut early)."""
    stated = partial.input
    if stated is None or not _is_plausible(stated):
        stated = Usage(input_tokens=input_estimate_tokens, output_tokens=0)
    output_tokens = max(partial.output_tokens or 0, tokens_of_bytes(meter.characters))
    usage = replace(stated, output_tokens=min(output_tokens, PLAUSIBLE_TOKENS_MAX))
    return Charge(usage, price.cost_nano_usd(usage), "partly_stated")


def delivered(
    meter: MeterReading, *, input_estimate_tokens: int, price: TokenPrice
) -> Delivered | None:
    """The charge so far as the heartbeat reports it; None while nothing has been delivered."""
    so_far = charge(meter, input_estimate_tokens=input_estimate_tokens, price=price)
    if so_far is NOTHING:
        return None
    return Delivered(
        cost_nano_usd=so_far.cost_nano_usd,
        input_tokens=so_far.usage.input_tokens,
        output_tokens=so_far.usage.output_tokens,
        cached_tokens=so_far.usage.cached_tokens,
        cache_write_tokens=so_far.usage.cache_write_tokens,
        basis=so_far.basis,
    )


def _is_plausible(usage: Usage) -> bool:
    return (
        max(usage.input_tokens, usage.output_tokens, usage.cached_tokens, usage.cache_write_tokens)
        <= PLAUSIBLE_TOKENS_MAX
    )
