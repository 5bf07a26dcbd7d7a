"""What a chat call may cost at most: the pre-charge (spec: Limits, Chat pre-charge; contract §7).

Pure arithmetic; the hold itself is made by the wallet (`actors/wallet`).
"""

from __future__ import annotations

from msgspec import Struct

from actors.wallet.pricing import TokenPrice

BYTES_PER_TOKEN = 4
# Spec: without an explicit maximum, the smaller of the model's own and this many tokens is held.
OUTPUT_TOKENS_DEFAULT_MAX = 32_768


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
