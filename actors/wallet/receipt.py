"""The cost of a call computed again from its row: count times price, line by line.

Deliberately unlike `pricing.py`, which compiles prices into integers: exact fractions of the
decimals as stated, so that each proves the other. Pure; `gw/api/logs` reads the rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from actors.wallet import money

TOKENS_PER_PRICE = 1_000_000


@dataclass(frozen=True, slots=True)
class Line:
    """A count of something at a price in USD for `per` of them."""

    name: str
    count: int
    usd: str
    per: int


class NoPrice(Exception):
    """The row has no price for something that it counts."""


# What may be billed separately: a member of the price, its line, and the line that its tokens are
# subtracted from; None for what is not tokens and is priced each.
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
    """Return the buckets of a call billed by tokens; `price` and `parts` as in `Priced`.

    One of the four without its own price costs as much as input. Raises NoPrice.
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
    """Return the lines of a call billed by the piece; `price` is `ImagePrice.stated`.

    A large image without its own price costs as much as any other. Raises NoPrice.
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


# Prices of a job or a call: name, counted unit, and number of these that it is for.
_MEDIA = {
    "per_second": ("milliseconds", 1000),
    "per_character": ("characters", 1),
    "per_generation": ("generations", 1),
    "per_call": ("calls", 1),
}


def media_lines(price: Mapping[str, str], units: Mapping[str, int]) -> list[Line]:
    """Return the line of a job or a call; `price` is `MediaPrice.stated`. Raises NoPrice."""
    for name, (counted, per) in _MEDIA.items():
        if name in price and units.keys() <= {counted}:
            return [Line(counted, units.get(counted, 0), price[name], per)]
    raise NoPrice


def lines_of(detail: Mapping[str, Any], **tokens: int) -> list[Line]:
    """Return the lines of a row, from its detail and token columns. Raises NoPrice."""
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
    """Return the promotional multiplier of a row, 1 if it has none."""
    return str((detail.get("price") or {}).get("multiplier", "1"))


def total_nano_usd(lines: Sequence[Line], multiplier: str) -> int:
    """Sum the lines, multiply, and round half up once; at most MAX_NANO_USD."""
    total = sum((Fraction(line.usd) * line.count / line.per for line in lines), Fraction())
    total *= Fraction(multiplier) * money.NANO_PER_USD
    return min(money.div_round_half_up(total.numerator, total.denominator), money.MAX_NANO_USD)


def formula(lines: Sequence[Line], multiplier: str) -> str:
    """Format a receipt as one readable line of arithmetic."""
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
    return f"{text} = {money.format_usd(total_nano_usd(lines, multiplier))} USD"


def _sum(terms: Sequence[str], per: int, multiplier: str) -> str:
    """Format the sum of terms of one unit."""
    text = " + ".join(terms)
    if multiplier != "1":
        text = f"({text}) x {multiplier}" if len(terms) > 1 else f"{text} x {multiplier}"
    if per != 1:
        text = f"({text}) / {per}" if len(terms) > 1 and multiplier == "1" else f"{text} / {per}"
    return text
