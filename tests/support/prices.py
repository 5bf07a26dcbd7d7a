"""Prices with every dimension there is, and usages with every part, drawn at random."""

from decimal import Decimal
from random import Random
from typing import Any

from actors.wallet.pricing import Billable, TokenPrice
from actors.wallet.sheets import calls_of_tools
from channels.dialects.token_counts import Usage, UsageParts
from channels.families import EACH_PRICES, SERVICE_TIERS, TOKEN_PART_PRICES, TOKEN_PRICES
from channels.prices import PriceSpec, PriceStep, TierPrice
from gw.calls.token_charge import TokenCharge, price_detail

MEMBERS = (*TOKEN_PRICES, *TOKEN_PART_PRICES)
SIZES = ("low", "medium", "high")


def usd(random: Random) -> Decimal:
    """An amount of up to nine decimals, mostly a short one."""
    places = random.choice((0, 2, 3, 9))
    return Decimal(random.randrange(10 ** random.randrange(1, 6))).scaleb(-places)


def some(random: Random, names: tuple[str, ...]) -> dict[str, Decimal]:
    return {name: usd(random) for name in names if random.random() < 0.5}


def steps_of(random: Random) -> tuple[PriceStep, ...]:
    bounds = sorted(random.sample((0, 1, 999, 200_000, 272_000), random.randrange(3)))
    return tuple(PriceStep(above, some(random, MEMBERS)) for above in bounds)


def tier_of(random: Random) -> TierPrice:
    if random.random() < 0.5:
        return TierPrice(factor=random.choice((Decimal("0.5"), Decimal(2), Decimal("1.75"))))
    return TierPrice(prices=some(random, MEMBERS), above_tokens=steps_of(random))


def spec_of(random: Random) -> PriceSpec:
    """A price in which anything may be stated."""
    members: dict[str, Any] = some(random, (*MEMBERS, *EACH_PRICES))
    if random.random() < 0.3:
        members["per_web_search"] = {size: usd(random) for size in SIZES[: random.randrange(1, 4)]}
    if random.random() < 0.5:
        members["above_tokens"] = steps_of(random)
    if random.random() < 0.5:
        names = random.sample(SERVICE_TIERS, random.randrange(1, 4))
        members["service_tiers"] = {name: tier_of(random) for name in names}
    if random.random() < 0.5:
        members["regions"] = {"us": random.choice((Decimal("1.1"), Decimal("0.9")))}
    if random.random() < 0.3:
        members["factor"] = random.choice((Decimal("1.1"), Decimal("0.333333333333")))
    return PriceSpec(**members)


def billable_of(usage: Usage) -> Billable:
    """A request that can come to this usage."""
    parts = usage.parts or UsageParts()
    return Billable(
        tier=parts.service_tier,
        region=parts.region,
        members=frozenset(MEMBERS),
        tools=calls_of_tools(usage),
        search_size=parts.web_search_size or "medium",
    )


def kept_of(price: TokenPrice, usage: Usage) -> dict[str, Any]:
    """What the row of a call keeps of its price."""
    kept: dict[str, Any] = {"price": price.stated, "cache_write": usage.cache_write_tokens}
    return (
        kept
        if price.sheet is None
        else kept | price_detail(TokenCharge(usage, 0, "stated", price.sheet.priced(usage)))
    )


def usage_of(random: Random) -> Usage:
    """A usage whose parts are within what they are parts of."""

    def tokens() -> int:
        return random.randrange(10 ** random.randrange(1, 7)) if random.random() < 0.7 else 0

    audio, image, cached_audio, cached_image, written_1h = (tokens() for _ in range(5))
    audio_out, image_out, reasoning = (tokens() for _ in range(3))
    cached, written = cached_audio + cached_image + tokens(), written_1h + tokens()
    return Usage(
        input_tokens=audio + image + cached + written + tokens(),
        output_tokens=audio_out + image_out + reasoning + tokens(),
        cached_tokens=cached,
        cache_write_tokens=written,
        reasoning_tokens=reasoning,
        parts=None
        if random.random() < 0.2
        else UsageParts(
            cache_write_1h_tokens=written_1h,
            audio_input_tokens=audio + cached_audio,
            cached_audio_tokens=cached_audio,
            image_input_tokens=image + cached_image,
            cached_image_tokens=cached_image,
            audio_output_tokens=audio_out,
            image_output_tokens=image_out,
            web_searches=random.randrange(4),
            file_searches=random.randrange(3),
            code_sessions=random.randrange(3),
            web_search_size=random.choice((None, *SIZES)),
            service_tier=random.choice((None, *SERVICE_TIERS)),
            region=random.choice((None, "us", "eu")),
        ),
    )
