"""Prices: the table, tokens, units, sheets of dimensions."""

import json
import math
from decimal import ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction
from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from actors.wallet.money import (
    MAX_NANO_USD,
)
from actors.wallet.piece_prices import ImagePrice
from actors.wallet.pricing import TokenPrice
from actors.wallet.receipt import lines_of, multiplier_of, total_nano_usd
from actors.wallet.sheets import price_of
from channels.dialects.token_counts import Usage, UsageParts
from channels.prices import PriceSpec
from channels.registry import Binding
from gw.keys.agreed_prices import AgreedPrices
from tests.support.rows import cases, each
from tests.support.specs import make_model

prices = st.decimals(min_value=0, max_value=500, places=6)
tokens = st.integers(min_value=0, max_value=2_000_000)
multipliers = st.sampled_from([Decimal(1), Decimal("0.6"), Decimal("0.3")]) | st.decimals(
    "0.001", 1000, places=9
)


def exact(parts: list[tuple[int, Decimal]], multiplier: Decimal) -> int:
    """The documented arithmetic, in wide decimals."""
    with localcontext() as context:
        context.prec = 60
        total = sum((count * price for count, price in parts), Decimal(0)) * multiplier * 1000
        return int(total.quantize(Decimal(1), rounding=ROUND_HALF_UP))


@given(st.tuples(*[prices] * 4), multipliers, st.tuples(*[tokens] * 4))
def test_every_token_is_priced_once(
    usd: tuple[Decimal, ...], multiplier: Decimal, counts: tuple[int, ...]
) -> None:
    spec = PriceSpec(input=usd[0], cached_input=usd[1], cache_write=usd[2], output=usd[3])
    usage = Usage(
        input_tokens=sum(counts[:3]),
        output_tokens=counts[3],
        cached_tokens=counts[1],
        cache_write_tokens=counts[2],
    )
    by_hand = exact(list(zip(counts, usd, strict=True)), multiplier)
    assert TokenPrice.of(spec, multiplier).cost_nano_usd(usage) == by_hand


def test_missing_price_of_the_cache_is_the_input_price() -> None:
    spec = PriceSpec(input=Decimal(2), cached_input=Decimal(1), output=Decimal(8))
    written = Usage(input_tokens=1000, output_tokens=10, cache_write_tokens=300)
    assert TokenPrice.of(spec, Decimal(1)).cost_nano_usd(written) == 2_080_000
    price = TokenPrice.of(PriceSpec(input=Decimal(2), output=Decimal(8)), Decimal(1))
    plain = Usage(input_tokens=1000, output_tokens=10)
    cached = Usage(input_tokens=1000, output_tokens=10, cached_tokens=400, cache_write_tokens=300)
    assert price.cost_nano_usd(plain) == price.cost_nano_usd(cached) == 2_080_000


def test_estimate_takes_all_input_as_fresh_and_the_multiplier() -> None:
    spec = PriceSpec(input=Decimal(1), output=Decimal(2), cached_input=Decimal(0))
    price = TokenPrice.of(spec, Decimal("0.6"))
    assert price.estimate_nano_usd(input_tokens=10, output_tokens=5) == 12_000


AREA = PriceSpec(
    per_image=Decimal("0.04"),
    per_image_large=Decimal("0.08"),
    area_threshold_mp=Decimal("2.36"),
    per_reference=Decimal("0.005"),
)
unit_prices = st.decimals(0, 1000, places=12) | st.none()
counts = st.integers(0, 20)


def test_references_without_an_image_are_free() -> None:
    assert ImagePrice.of(AREA, Decimal(1)).cost_nano_usd(standard=0, large=0, references=10) == 0


@cases("pixels, is_large", (1536 * 1536, False), (2_360_000, False), (2_360_001, True))
def test_more_than_the_threshold_is_large(pixels: int, is_large: bool) -> None:
    assert ImagePrice.of(AREA, Decimal(1)).is_large(pixels) is is_large


def test_without_a_large_price_nothing_is_large() -> None:
    price = ImagePrice.of(PriceSpec(per_image=Decimal("0.04")), Decimal(1))
    assert not price.is_large(10**12)
    assert price.cost_nano_usd(standard=0, large=1, references=0) == 40_000_000


@given(st.tuples(*[unit_prices] * 3), multipliers, counts, counts, counts)
def test_cost_is_the_exact_product_rounded_once(
    usd: tuple[Decimal | None, ...],
    multiplier: Decimal,
    standard: int,
    larger: int,
    references: int,
) -> None:
    one, large, fee = usd
    threshold = None if large is None else Decimal(1)
    spec = PriceSpec(
        per_image=one, per_image_large=large, area_threshold_mp=threshold, per_reference=fee
    )
    price = ImagePrice.of(spec, multiplier)
    usual = Fraction(one or 0)
    exact = usual * standard + (usual if large is None else Fraction(large)) * larger
    exact += Fraction(fee or 0) * references
    nano = exact * Fraction(multiplier) * 10**9 if standard + larger else Fraction(0)
    cost = price.cost_nano_usd(standard=standard, large=larger, references=references)
    assert cost == math.floor(nano + Fraction(1, 2))


def test_cost_is_never_more_than_the_ledger_holds() -> None:
    price = ImagePrice.of(PriceSpec(per_image=Decimal(1_000_000)), Decimal(1000))
    assert price.cost_nano_usd(standard=100, large=0, references=0) == MAX_NANO_USD


XAI = "https://docs.x.ai/developers/pricing 2026-11-22"
ANTHROPIC = "https://platform.claude.com/docs/en/about-claude/pricing 2026-10-24"
FAST_OPUS = "https://octavus.ai/docs/protocol/fast-mode 2026-11-22"
FAST = "https://openai.com/API-fast-mode/ 2026-11-22"
ULTRA = "https://developers.openai.com/api/docs/guides/ultrafast-mode 2026-10-06"
OPENAI = "https://developers.openai.com/api/docs/pricing 2026-10-03"
GEMINI = "https://ai.google.dev/gemini-api/docs/pricing 2026-10-03"
TIERS = "https://ai.google.dev/gemini-api/docs/optimization 2026-11-22"
PERPLEXITY = "https://docs.perplexity.ai/guides/pricing 2026-11-22"
RESELLER = "https://github.com/apimart-22w/gpt-5.5-api/wiki 2026-09-17"


def table_prices(text: str) -> dict[str, Any]:
    """Prices as stated, from `name 1.5, …`."""
    return dict(pair.split() for pair in text.split(", "))


GROK = {
    **table_prices("input 1.25, output 2.5, cached_input 0.2"),
    # "Once its prompt reaches 200k": the bound itself is long.
    "above_tokens": [{"above": 199_999, **table_prices("input 2.5, output 5, cached_input 0.4")}],
}
OPUS = table_prices("input 5, output 25, cached_input 0.5, cache_write 6.25, cache_write_1h 10")
SOL = {
    **table_prices("input 4, output 20, cached_input 0.4"),
    "above_tokens": [{"above": 272_000, **table_prices("input 8, output 30, cached_input 0.8")}],
    "service_tiers": {
        "priority": {
            **table_prices("input 8, output 40, cached_input 0.8"),
            "above_tokens": [
                {"above": 272_000, **table_prices("input 16, output 60, cached_input 1.6")}
            ],
        },
        "flex": {"factor": "0.5"},
    },
}
PRO = {
    **table_prices("input 1.25, output 10, cached_input 0.125"),
    "above_tokens": [{"above": 200_000, **table_prices("input 2.5, output 15, cached_input 0.25")}],
    "service_tiers": {"batch": {"factor": "0.5"}, "priority": {"factor": "1.8"}},
}


class Case(NamedTuple):
    """A usage at a price, which comes to `nano_usd` by hand: the sum is above each case, its tokens
    at USD per million."""

    name: str
    source: str
    price: dict[str, Any]
    usage: Usage
    nano_usd: int
    channel: dict[str, Any] | None = None
    factor: str | None = None  # agreed with the account


def usage(taken: int, given: int, *, cached: int = 0, written: int = 0, **parts: Any) -> Usage:
    return Usage(
        input_tokens=taken,
        output_tokens=given,
        cached_tokens=cached,
        cache_write_tokens=written,
        parts=UsageParts(**parts) if parts else None,
    )


# fmt: off
CASES = [
    # 199,999 x 1.25 + 100 x 2.5
    Case("a token below the bound", XAI, GROK, usage(199_999, 100), 250_248_750),
    # 200,000 x 2.5 + 100 x 5
    Case("at the bound that counts as long", XAI, GROK, usage(200_000, 100), 500_500_000),
    # 50,000 x 2.5 + 150,000 x 0.4 + 100 x 5
    Case("the cached part makes it long", XAI, GROK, usage(200_000, 100, cached=150_000),
         185_500_000),
    # (1,000 x 1.25 + 100 x 2.5) x 1.1
    Case("a region", XAI, GROK, usage(1_000, 100), 1_650_000, channel={"factor": "1.1"}),
    # (200,000 x 2.5 + 100 x 5) x 1.1
    Case("a region, long", XAI, GROK, usage(200_000, 100), 550_550_000, channel={"factor": "1.1"}),
    # (1,000 x 1.25 + 100 x 2.5) x 1.1 + 2 x 0.005
    Case("a region, and tools at the usual price", XAI, {**GROK, "per_web_search": "0.005"},
         usage(1_000, 100, web_searches=2), 11_650_000, channel={"factor": "1.1"}),
    # 100 x 5 + 400 x 0.5 + 300 x 6.25 + 200 x 10 + 50 x 25
    Case("both lifetimes of a cache", ANTHROPIC, OPUS,
         usage(1_000, 50, cached=400, written=500, cache_write_1h_tokens=200), 5_825_000),
    # (100 x 5 + 400 x 0.5 + 300 x 6.25 + 200 x 10 + 50 x 25) x 1.1 + 3 x 0.01
    Case("inference in one country, with searches", ANTHROPIC, {**OPUS, "per_web_search": "0.01"},
         usage(1_000, 50, cached=400, written=500, cache_write_1h_tokens=200, web_searches=3),
         36_407_500, channel={"factor": "1.1"}),
    # (100 x 5 + 400 x 0.5 + 300 x 6.25 + 200 x 10 + 50 x 25) x 2
    Case("the fast mode doubles the cache, too", FAST_OPUS,
         {**OPUS, "service_tiers": {"fast": {"factor": "2"}}},
         usage(1_000, 50, cached=400, written=500, cache_write_1h_tokens=200, service_tier="fast"),
         11_650_000),
    # 600 x 8 + 400 x 0.8 + 100 x 40
    Case("a tier with prices of its own", FAST, SOL,
         usage(1_000, 100, cached=400, service_tier="priority"), 9_120_000),
    # 272,001 x 16 + 100 x 60
    Case("a tier, long", FAST, SOL, usage(272_001, 100, service_tier="priority"), 4_358_016_000),
    # 272,000 x 4 + 100 x 20
    Case("the bound that does not count as long", OPENAI, SOL, usage(272_000, 100), 1_090_000_000),
    # (272,001 x 8 + 100 x 30) x 0.5
    Case("half the price of a long prompt", OPENAI, SOL, usage(272_001, 100, service_tier="flex"),
         1_089_504_000),
    # asked for more, served in the standard tier: 600 x 4 + 400 x 0.4 + 100 x 20
    Case("served in the standard tier", FAST, SOL, usage(1_000, 100, cached=400), 4_560_000),
    # (1,000 x 10 + 100 x 50) x 6
    Case("six times the price", ULTRA,
         {**table_prices("input 10, output 50"), "service_tiers": {"ultrafast": {"factor": "6"}}},
         usage(1_000, 100, service_tier="ultrafast"), 90_000_000),
    # (250,000 x 2.5 + 1,000 x 15) x 0.5
    Case("a batch of long prompts", GEMINI, PRO, usage(250_000, 1_000, service_tier="batch"),
         320_000_000),
    # (900 x 1.25 + 100 x 0.125 + 10 x 10) x 1.8
    Case("priority at 80 % more", TIERS, PRO,
         usage(1_000, 10, cached=100, service_tier="priority"), 2_227_500),
    # 500 x 1 + 200 x 1 + 3 x 0.005
    Case("three searches of one request", PERPLEXITY,
         {**table_prices("input 1, output 1"), "per_web_search": "0.005"},
         usage(500, 200, web_searches=3), 15_700_000),
    # 1,000 x 1 + 500 x 1 + 0.012
    Case("a fee of the request, by context size", PERPLEXITY,
         {**table_prices("input 1, output 1"), "per_web_search":
             {"low": "0.005", "medium": "0.008", "high": "0.012"}},
         usage(1_000, 500, web_searches=1, web_search_size="high"), 13_500_000),
    # 1,000 x 4 + 100 x 24
    Case("the same model at a cheaper channel", RESELLER, table_prices("input 5, output 30"),
         usage(1_000, 100), 6_400_000, channel=table_prices("input 4, output 24")),
    # (200,000 x 2.5 + 100 x 5) x 1.1 x 0.85
    Case("an agreed factor on a region's long prompt", XAI, GROK, usage(200_000, 100), 467_967_500,
         channel={"factor": "1.1"}, factor="0.85"),
    # 1 x 1.25 x 0.3333: 416.625 nano-USD
    Case("rounded once, half up", XAI, GROK, usage(1, 0), 417, factor="0.3333"),
]
# fmt: on


@each("case", CASES)
def test_a_sheet_comes_to_the_sum_by_hand(case: Case) -> None:
    own = None if case.channel is None else PriceSpec.of_stated(case.channel)
    model = make_model(Binding("a", price=own), price=PriceSpec.of_stated(case.price))
    if case.factor is not None:
        row = {"id": "p", "models": ["*"], "factor": case.factor, "prices": None}
        agreed = AgreedPrices.of_rows([{**row, "valid_from": 0, "valid_until": None}])
        model, _ = agreed.model_at(model, 1)
    price = price_of(model)
    price = price if price.channels is None else price.channels["a"]
    assert price.cost_nano_usd(case.usage) == case.nano_usd
    detail: dict[str, Any] = {"price": price.stated, "cache_write": case.usage.cache_write_tokens}
    if price.sheet is not None:
        worked_out = price.sheet.priced(case.usage)
        detail |= {"price": worked_out.stated, "parts": worked_out.parts}
    kept = json.loads(json.dumps(detail))
    lines = lines_of(
        kept,
        input_tokens=case.usage.input_tokens,
        cached_tokens=case.usage.cached_tokens,
        output_tokens=case.usage.output_tokens,
    )
    assert total_nano_usd(lines, multiplier_of(kept)) == case.nano_usd


def test_every_case_names_its_source_and_its_day() -> None:
    assert len(CASES) > 20
    assert all(case.source.startswith("https://") for case in CASES)
    assert all(case.source.rpartition(" ")[2].startswith("202") for case in CASES)
    assert Decimal(CASES[-1].nano_usd) == 417
