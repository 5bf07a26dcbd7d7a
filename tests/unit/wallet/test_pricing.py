"""The price of a call: exact, rounded once."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal, localcontext

from hypothesis import given
from hypothesis import strategies as st

from actors.wallet.pricing import TokenPrice
from channels.dialects.meter import Usage
from channels.prices import PriceSpec

prices = st.decimals(min_value=0, max_value=500, places=6)
tokens = st.integers(min_value=0, max_value=2_000_000)
multipliers = st.sampled_from([Decimal(1), Decimal("0.6"), Decimal("0.3"), Decimal("1.25")])


def exact(parts: list[tuple[int, Decimal]], multiplier: Decimal) -> int:
    """The specification's arithmetic, in wide decimals."""
    with localcontext() as context:
        context.prec = 60
        total = sum((count * price for count, price in parts), Decimal(0)) * multiplier * 1000
        return int(total.quantize(Decimal(1), rounding=ROUND_HALF_UP))


@given(prices, prices, prices, prices, multipliers, tokens, tokens, tokens, tokens)
def test_every_token_is_priced_once(
    fresh: Decimal,
    cached: Decimal,
    write: Decimal,
    output: Decimal,
    multiplier: Decimal,
    fresh_tokens: int,
    cached_tokens: int,
    written_tokens: int,
    output_tokens: int,
) -> None:
    spec = PriceSpec(input=fresh, cached_input=cached, cache_write=write, output=output)
    usage = Usage(
        input_tokens=fresh_tokens + cached_tokens + written_tokens,
        output_tokens=output_tokens,
        cached_tokens=cached_tokens,
        cache_write_tokens=written_tokens,
    )
    assert TokenPrice.of(spec, multiplier).cost_nano_usd(usage) == exact(
        [
            (fresh_tokens, fresh),
            (cached_tokens, cached),
            (written_tokens, write),
            (output_tokens, output),
        ],
        multiplier,
    )


def test_missing_price_of_the_cache_is_the_input_price() -> None:
    spec = PriceSpec(input=Decimal(2), cached_input=Decimal(1), output=Decimal(8))
    written = Usage(input_tokens=1000, output_tokens=10, cache_write_tokens=300)
    assert TokenPrice.of(spec, Decimal(1)).cost_nano_usd(written) == 2_080_000
    price = TokenPrice.of(PriceSpec(input=Decimal(2), output=Decimal(8)), Decimal(1))
    plain = Usage(input_tokens=1000, output_tokens=10)
    cached = Usage(input_tokens=1000, output_tokens=10, cached_tokens=400, cache_write_tokens=300)
    assert price.cost_nano_usd(plain) == price.cost_nano_usd(cached) == 2_080_000


def test_the_published_example_is_exact() -> None:
    spec = PriceSpec(input=Decimal("1.25"), output=Decimal(10), cached_input=Decimal("0.125"))
    price = TokenPrice.of(spec, Decimal(1))
    usage = Usage(input_tokens=1000, output_tokens=500, cached_tokens=800)
    # 200 x 1250 + 800 x 125 + 500 x 10000 nano-USD
    assert price.cost_nano_usd(usage) == 250_000 + 100_000 + 5_000_000


def test_estimate_takes_all_input_as_fresh_and_the_multiplier() -> None:
    spec = PriceSpec(input=Decimal(1), output=Decimal(2), cached_input=Decimal(0))
    price = TokenPrice.of(spec, Decimal("0.6"))
    assert price.estimate_nano_usd(input_tokens=10, output_tokens=5) == 12_000
