"""What a chat call may cost at most, and what it costs: pure arithmetic on tokens and bytes.

Before the call the pre-charge (spec: Limits, Chat pre-charge), after it the policy of contract §7,
"Cost of a cut call":

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

BYTES_PER_TOKEN = 4
# Spec: without an explicit maximum, the smaller of the model's own and this many tokens is held.
OUTPUT_TOKENS_DEFAULT_MAX = 32_768
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


class Estimate(Struct, frozen=True, kw_only=True):
    """Tokens assumed before the call, and what they would cost."""

    input_tokens: int
    output_tokens: int
    amount_nano_usd: int


def tokens_of_bytes(count: int) -> int:
    """Tokens assumed for so many bytes or characters: a quarter, rounded up."""
    return -(-count // BYTES_PER_TOKEN)


def estimate(
    *,
    content_bytes: int,
    max_tokens: int | None,
    model_max_output_tokens: int | None,
    price: TokenPrice,
) -> Estimate:
    """Price the conversation's bytes as input and the maximum as output.

    `content_bytes` is the length of `messages` (`input`, `contents`) as the client sent it, or of
    the whole body where that is what counts. An explicit maximum counts in full, even above the
    model's ceiling.
    """
    input_tokens = tokens_of_bytes(content_bytes)
    if max_tokens is None:
        ceiling = model_max_output_tokens or OUTPUT_TOKENS_DEFAULT_MAX
        max_tokens = min(ceiling, OUTPUT_TOKENS_DEFAULT_MAX)
    return Estimate(
        input_tokens=input_tokens,
        output_tokens=max_tokens,
        amount_nano_usd=price.estimate_nano_usd(
            input_tokens=input_tokens, output_tokens=max_tokens
        ),
    )


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
    """What was stated counts, the rest is estimated (contract §7: a stream cut early).

    Of a total alone, what the output is not estimated to be is the input.
    """
    total = partial.total_tokens
    if total is not None and total <= PLAUSIBLE_TOKENS_MAX:
        output_tokens = min(tokens_of_bytes(meter.characters), total)
        usage = Usage(input_tokens=total - output_tokens, output_tokens=output_tokens)
        return Charge(usage, price.cost_nano_usd(usage), "partly_stated")
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
