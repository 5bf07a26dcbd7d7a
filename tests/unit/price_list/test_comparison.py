"""What another list says otherwise, per million tokens and for what calls counted."""

from decimal import Decimal
from pathlib import Path

from channels.registry import Registry
from gw.config.load import load_text
from gw.price_list.comparison import PriceChange, compare, leaps
from tests.support.rows import each
from tests.unit.price_list.lists import FIREWORKS, GROQ, OPENAI, UNPRICED, list_of

TEXT = """\
channels:
  - {id: groq-1, kind: groq, api_key: key-of-groq}
  - {id: openai-1, kind: openai, api_key: key-of-openai}
  - {id: else-1, base_url: "https://else.example", api_key: key-of-else, protocols: [chat]}
models:
  - id: gpt
    channels: [openai-1]
    price: {input: 1.25, output: 8, cached_input: 0.25}
    multiplier: 2
  - {id: oss, channels: [{id: groq-1, as: openai/oss}], price: {input: 0.15, output: 0.6}}
  - {id: gone, channels: [openai-1], price: {input: 1, output: 1}}
  - {id: theirs, channels: [else-1], price: {input: 1, output: 1}}
"""


def registry() -> Registry:
    return load_text(TEXT, {}, source=Path("/etc/gw.yaml")).registry


def test_prices_that_differ_are_reported_with_their_difference() -> None:
    found = compare(registry(), list_of(GROQ, OPENAI, UNPRICED, FIREWORKS))
    (one,) = found.differing
    assert one.model.id == "gpt"
    assert one.changes == (
        PriceChange("output", Decimal(8), Decimal(10), Decimal(2)),
        # Not said by the list: cached tokens would cost what input does.
        PriceChange("cached_input", Decimal("0.25"), None, Decimal(1)),
    )
    assert (found.new, found.unpriced, found.not_listed) == ((), ("gpt-new",), ("gone",))


MOVES = {
    "nine times dearer": ("{input: 11.24, output: 8, cached_input: 0.25}", []),
    "ten times dearer": ("{input: 12.5, output: 8, cached_input: 0.25}", ["input"]),
    "ten times cheaper": ("{input: 1.25, output: 0.8, cached_input: 0.25}", ["output"]),
    "to nothing": ("{input: 1.25, output: 0, cached_input: 0.25}", ["output"]),
    # It would cost what input does.
    "a member that goes, and moves": ("{input: 2.5, output: 8}", ["cached_input"]),
    "a member that goes": ("{input: 1.25, output: 8}", []),
    "a member that comes": (
        "{input: 1.25, output: 8, cached_input: 0.25, cache_write: 1, audio_input: 99}",
        [],
    ),
}


@each("price, expected", MOVES.values())
def test_prices_that_move_tenfold_are_found(price: str, expected: list[str]) -> None:
    row = f"{{provider: openai, id: gpt, price: {price}}}"
    (one,) = compare(registry(), list_of(row)).differing
    assert [change.member for change in leaps(one)] == expected


def test_new_models_of_the_list_are_named() -> None:
    more = "{provider: groq, id: fresh, price: {input: 1, output: 2}}"
    found = compare(registry(), list_of(more))
    assert found.new == ("fresh",)
    assert found.not_listed == ("oss",)  # the list has others of its provider


def test_price_of_a_resolution_is_reported_on_its_own() -> None:
    text = TEXT.partition("models:")[0] + (
        "  - {id: ark-1, kind: ark, api_key: key-of-ark}\nmodels:\n"
        "  - {id: v, channels: [ark-1], endpoint_type: videos_generations,"
        " price: {per_second: 0.1, per_second_by_resolution: {1080p: 0.2}}}\n"
    )
    row = (
        "{provider: ark, id: v, endpoint_type: videos_generations,"
        " price: {per_second: 0.1, per_second_by_resolution: {1080p: 0.3}}}"
    )
    (one,) = compare(load_text(text, {}, source=Path("/x")).registry, list_of(row)).differing
    member = "per_second_by_resolution.1080p"
    assert one.changes == (PriceChange(member, Decimal("0.2"), Decimal("0.3"), Decimal("0.1")),)
