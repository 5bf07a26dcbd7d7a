"""The families' table."""

from dataclasses import fields

from channels.families import (
    CHAT_PROTOCOLS,
    DETAIL_KINDS,
    ENDPOINT_TYPES,
    FAMILIES,
    MODEL_TYPES,
    PROTOCOLS,
    PUBLIC_NAMES,
    TOKEN_PRICES,
    UNIT_PRICES,
    UNIT_TYPES,
)
from channels.family import UNITS, Family
from channels.prices import DIMENSIONS, PriceSpec
from tests.support.rows import each

# As documented, which is how the error of a refused one lists them.
CONTRACT = (
    "chat messages responses native images videos embeddings music speech voices transcripts "
    "avatars clips transcriptions rerank moderations decisions"
)
# As a refused `endpoint_type` is told of.
TYPES = (
    "images_generations videos_generations contents_generations_tasks embeddings music_generations "
    "audio_speech audio_voices transcripts_extract videos_avatars audio_transcriptions rerank "
    "moderations decisions"
)


def test_names_are_the_documented_ones_in_their_order() -> None:
    assert tuple(CONTRACT.split()) == PROTOCOLS
    assert PROTOCOLS[:4] == CHAT_PROTOCOLS
    assert list(ENDPOINT_TYPES) == TYPES.split()
    assert PUBLIC_NAMES["chat"] == "chat_completions"
    assert PUBLIC_NAMES["native"] == "native_content"


def test_units_and_their_kinds_are_the_documented_ones() -> None:
    """`unit_type` of reference 6.2, `kind` of 6.4."""
    named = "image video music audio avatar voice search transcript"
    assert [unit.name for unit in UNITS] == named.split()
    assert {name: DETAIL_KINDS.get(unit) for name, unit in UNIT_TYPES.items()} == {
        "images": "image",
        "videos": "video",
        "music": "music",
        "speech": "audio",
        "voices": "audio",
        "transcripts": "audio",
        "avatars": "video",
        "clips": "video",
        "transcriptions": "audio",
        "rerank": None,
    }
    assert "search" not in DETAIL_KINDS


def test_every_price_of_a_model_is_some_familys() -> None:
    assert {one.name for one in fields(PriceSpec)} == {*TOKEN_PRICES, *UNIT_PRICES, *DIMENSIONS}
    named = [name for kind in ENDPOINT_TYPES.values() for name in (*kind.prices, *kind.more_prices)]
    assert set(UNIT_PRICES) == set(named) - set(TOKEN_PRICES)
    assert [name for name, kind in ENDPOINT_TYPES.items() if not kind.prices] == ["moderations"]


def test_rows_do_not_collide() -> None:
    kinds = {kind for family in FAMILIES.values() for kind in family.endpoint_types}
    types = [kind.name for kind in kinds]
    assert len(types) == len(set(types))
    assert len(set(PUBLIC_NAMES.values())) == len(FAMILIES)
    assert {family.unit for family in FAMILIES.values() if family.unit} == set(UNITS)


@each("family", FAMILIES.values())
def test_models_of_a_type_are_served_by_one_kind_of_family(family: Family) -> None:
    assert (None in MODEL_TYPES[family.protocol]) == (family.protocol in CHAT_PROTOCOLS)
    for other in FAMILIES.values():
        for kind in other.endpoint_types:
            shares = kind in family.endpoint_types
            assert (kind.name in MODEL_TYPES[family.protocol]) == shares
            # Two forms of one endpoint have channels of their own.
            assert family is other or not shares or family.by_model != other.by_model
