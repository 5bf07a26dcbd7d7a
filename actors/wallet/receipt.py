"""The cost of a call once more, from what its row keeps: count times price, line by line.

Deliberately by another way than `pricing.py`, which compiles prices into integers: exact fractions
of the decimals as stated, so that one proves the other. Pure; reading rows is `gw/api/logs`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from actors.wallet.pricing import MAX_NANO_USD, NANO_PER_USD, div_round_half_up, format_usd

TOKENS_PER_PRICE = 1_000_000


@dataclass(frozen=True, slots=True)
class Line:
    """So many of something at a price in USD for `per` of them."""

    name: str
    count: int
    usd: str
    per: int


class NoPrice(Exception):
    """The row keeps no price for what it counts."""


# What may be billed apart: a member of the price, its line, and the line that its tokens are then
# taken from; None of what is no token, and has a price for one.
_PARTS: Mapping[str, tuple[str, str | None]] = {
    "cache_write_1h": ("input_cache_write_1h", "input_cache_write"),
    "audio_input": ("input_audio", "input_uncached"),
    "image_input": ("input_image", "input_uncached"),
    "cached_audio_input": ("input_audio_cached", "input_cached"),
    "cached_image_input": ("input_image_cached", "input_cached"),
    "audio_output": ("output_audio", "output"),
    "image_output": ("output_image", "output"),
    "reasoning_output": ("output_reasoning", "output"),
    "per_web_search": ("web_search", None),
    "per_file_search": ("file_search", None),
    "per_code_session": ("code_session", None),
    "per_request": ("request", None),
}


def token_lines(
    price: Mapping[str, str],
    *,
    input_tokens: int,
    cached_tokens: int,
    cache_write_tokens: int,
    output_tokens: int,
    parts: Mapping[str, int] | None = None,
) -> list[Line]:
    """The buckets of a call billed by tokens; `price` and `parts` are as `Priced` has them.

    One of the four without a price of its own costs what input costs. Raises NoPrice.
    """
    if "input" not in price or "output" not in price:
        raise NoPrice
    parts = parts or {}
    if not parts.keys() <= price.keys() & _PARTS.keys():
        raise NoPrice
    counts = {
        "input_uncached": input_tokens - cached_tokens - cache_write_tokens,
        "input_cached": cached_tokens,
        "input_cache_write": cache_write_tokens,
        "output": output_tokens,
    }
    lines = []
    for name, count in parts.items():
        shown, whole = _PARTS[name]
        if whole is not None:
            counts[whole] -= count
        lines.append(Line(shown, count, price[name], 1 if whole is None else TOKENS_PER_PRICE))
    usd = {
        "input_cached": price.get("cached_input", price["input"]),
        "input_cache_write": price.get("cache_write", price["input"]),
        "output": price["output"],
    }
    plain = [
        Line(name, count, usd.get(name, price["input"]), TOKENS_PER_PRICE)
        for name, count in counts.items()
    ]
    return plain + lines


def piece_lines(price: Mapping[str, str], units: Mapping[str, int]) -> list[Line]:
    """What a call billed by the piece brought; `price` is `ImagePrice.stated`.

    A large image without a price of its own costs what any other does. Raises NoPrice.
    """
    if "per_image" not in price:
        raise NoPrice
    prices = {
        "standard": price["per_image"],
        "large": price.get("per_image_large", price["per_image"]),
        "references": price.get("per_reference", "0"),
    }
    if not units.keys() <= prices.keys():
        raise NoPrice
    return [
        Line(name, units.get(name, 0), usd, 1)
        for name, usd in prices.items()
        if name == "standard" or name in units
    ]


# What a price of a job or a call may be for: its name, what is counted, and of how many it is.
_MEDIA = {
    "per_second": ("milliseconds", 1000),
    "per_character": ("characters", 1),
    "per_generation": ("generations", 1),
    "per_call": ("calls", 1),
}


def media_lines(price: Mapping[str, str], units: Mapping[str, int]) -> list[Line]:
    """What a job or a call made; `price` is `MediaPrice.stated`. Raises NoPrice."""
    for name, (counted, per) in _MEDIA.items():
        if name in price and units.keys() <= {counted}:
            return [Line(counted, units.get(counted, 0), price[name], per)]
    raise NoPrice


def lines_of(detail: Mapping[str, Any], **tokens: int) -> list[Line]:
    """What a row's detail and its token columns are billed by. Raises NoPrice."""
    price = detail.get("price") or {}
    if "per_image" in price:
        return piece_lines(price, detail.get("units", {}))
    if not _MEDIA.keys().isdisjoint(price):
        return media_lines(price, detail.get("units", {}))
    parts = detail.get("parts")
    return token_lines(
        price, cache_write_tokens=detail.get("cache_write", 0), parts=parts, **tokens
    )


def multiplier_of(detail: Mapping[str, Any]) -> str:
    """The promotional multiplier of a row, 1 where there was none."""
    return str((detail.get("price") or {}).get("multiplier", "1"))


def total_nano_usd(lines: Sequence[Line], multiplier: str) -> int:
    """The lines added up, times the multiplier, rounded half up once; at most MAX_NANO_USD."""
    total = sum((Fraction(line.usd) * line.count / line.per for line in lines), Fraction())
    total *= Fraction(multiplier) * NANO_PER_USD
    return min(div_round_half_up(total.numerator, total.denominator), MAX_NANO_USD)


def formula(lines: Sequence[Line], multiplier: str) -> str:
    """A receipt as one line of arithmetic that a person can follow."""
    counted = [line for line in lines if line.count]
    if not counted:
        return "nothing to pay for = 0 USD"
    sums = {
        per: [f"{line.count} x {line.usd}" for line in counted if line.per == per]
        for per in sorted({line.per for line in counted}, reverse=True)
    }
    if len(sums) > 1:
        texts = [_sum(terms, per, "1") for per, terms in sums.items()]
        text = " + ".join(texts)
        if multiplier != "1":
            text = f"({text}) x {multiplier}"
    else:
        ((per, terms),) = sums.items()
        text = _sum(terms, per, multiplier)
    return f"{text} = {format_usd(total_nano_usd(lines, multiplier))} USD"


def _sum(terms: Sequence[str], per: int, multiplier: str) -> str:
    """Terms of one unit, added up."""
    text = " + ".join(terms)
    if multiplier != "1":
        text = f"({text}) x {multiplier}" if len(terms) > 1 else f"{text} x {multiplier}"
    if per != 1:
        text = f"({text}) / {per}" if len(terms) > 1 and multiplier == "1" else f"{text} / {per}"
    return text
