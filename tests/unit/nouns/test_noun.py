"""A noun of every kind of member: what its declaration makes of it."""

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
import pytest

from actors.store.queries import QueryFileFault, load
from gw.cli.arguments import Parser
from gw.keys.key import KEY
from gw.nouns import kinds, values
from gw.nouns.given import Given, MisstatedNoun
from gw.nouns.member import Member, Setting
from gw.nouns.noun import Noun
from gw.nouns.refused import Invalid
from tests.support.rows import cases
from tests.unit.config.reading import channel, read

REGISTRY = read(
    channel() + "models: [{id: m, channels: [a], price: {input: 1, output: 2}, aliases: [n]}]\n"
).registry


@dataclass(frozen=True, slots=True, kw_only=True)
class NewBoat:
    """A new boat."""

    name: Annotated[str, Setting(kinds.LABEL, "of the boat")]
    crew: Annotated[int | None, Setting(kinds.COUNT, "at most", none="any", column="hands")] = None
    is_leased: Annotated[bool, Setting(kinds.FLAG, "leased", none="owned", name="leased")] = False
    models: Annotated[list[str] | None, Setting(kinds.MODELS, "may be repeated")] = None
    bases: Annotated[list[str], Setting(kinds.BASES, "a base", none="none")] = field(
        default_factory=list
    )
    deposit_nano_usd: Annotated[int, Member(kinds.USD, "paid", name="deposit_usd")] = 0
    yard: Annotated[str, Member(kinds.TEXT, is_given=False, is_noted=False)] = "ours"


@dataclass(frozen=True, slots=True, kw_only=True)
class Boat(NewBoat):
    """A boat."""

    id: Annotated[str, Member(kinds.ID, before="name")]
    launched_at: Annotated[datetime | None, Member(kinds.INSTANT, column="t.launched_at")]
    note: str = ""

    @property
    def is_afloat(self) -> Annotated[bool, Member(kinds.FLAG, before="yard")]:
        """Whether it is."""
        return self.launched_at is not None


BOAT: Noun[NewBoat, Boat] = Noun("Boat", NewBoat, Boat, alias="b", settings_doc="Settings.")
LAUNCHED_AT = datetime(2026, 1, 1, tzinfo=UTC)
ROW = ("b", 3, True, ["m"], list[str](), 1_500_000_000, "ours", "boat_1", LAUNCHED_AT)


def parsed(add: Any, *words: str) -> Any:
    parser = Parser()
    add(parser)
    return parser.parse_args(words)


def test_record_is_shown_in_the_order_of_its_declaration() -> None:
    assert BOAT.sql["columns"].startswith("b.name, b.hands, b.is_leased")
    assert BOAT.sql["columns"].endswith("b.id, t.launched_at")
    assert BOAT.record(BOAT.of_row(ROW)) == {
        "id": "boat_1",
        "name": "b",
        "crew": 3,
        "leased": True,
        "models": ["m"],
        "bases": [],
        "deposit_usd": "1.5",
        "is_afloat": True,
        "yard": "ours",
        "launched_at": "2026-01-01T00:00:00Z",
    }
    assert list(BOAT.record(BOAT.of_row(ROW)))[:2] == ["id", "name"]


def test_body_and_options_give_the_same_record_and_changes() -> None:
    body: dict[str, Any] = {
        "name": " b ",
        "crew": 3,
        "leased": True,
        "models": ["n"],
        "deposit_usd": "1.5",
    }
    new = BOAT.new_of(msgspec.convert(body, BOAT.New), REGISTRY)
    words = ["--name", "b", "--crew", "3", "--leased", "--models", "n", "--deposit-usd", "1.5"]
    assert BOAT.of_options(parsed(BOAT.add_options, *words), REGISTRY) == new
    assert new == NewBoat(
        name="b", crew=3, is_leased=True, models=["m"], deposit_nano_usd=1_500_000_000
    )
    assert BOAT.row_of(new)["hands"] == 3
    changes = BOAT.changes_of(
        msgspec.convert({"crew": None, "leased": False}, BOAT.Settings), REGISTRY
    )
    options = parsed(BOAT.add_settings, "--crew", "none", "--no-leased")
    assert (
        BOAT.changes_of_options(options, REGISTRY) == changes == {"crew": None, "is_leased": False}
    )
    assert BOAT.noted(changes) == {"crew": None, "leased": False}
    params = BOAT.settings_of(changes)
    assert (params["set_hands"], params["hands"], params["set_name"]) == (True, None, False)
    assert "hands = CASE WHEN %(set_hands)s" in BOAT.sql["settings"]


class Sent(dict[str, str]):
    """A form as a page sent it."""

    def field(self, name: str) -> str:
        return self.get(name, "")

    def get_body_arguments(self, name: str) -> list[str]:
        return self.get(name, "").split()


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMast:
    """A new mast."""

    wood: Annotated[str, Member(kinds.choice(("oak", "pine")), "what it is made of")]
    tip: Annotated[int, Member(kinds.SIGNED_USD, name="tip_usd", form="tip")] = 0
    why: Annotated[str | None, Member(kinds.REASON)] = None
    maker: Annotated[str, Member(kinds.LABEL, has_field=False)] = "us"


MAST: Given[NewMast] = Given("NewMast", NewMast)


def test_form_gives_what_a_body_gives_and_its_empty_fields_are_the_defaults() -> None:
    assert [one.form for one in MAST.new_form] == ["wood", "tip", "why"]
    form = Sent(wood="oak", tip="-1.5", why="a storm")
    body = {"wood": "oak", "tip_usd": "-1.5", "why": "a storm"}
    new = MAST.new_of_form(form, REGISTRY)
    assert new == MAST.new_of(msgspec.convert(body, MAST.New), REGISTRY)
    assert MAST.noted_new(new) == {**body, "maker": "us"}
    empty = Sent(wood="pine", tip="", why="", maker="them")
    assert MAST.new_of_form(empty, REGISTRY) == NewMast(wood="pine")
    begins = {one.field: one.value_of(None) for one in MAST.new_form}
    assert begins == {"wood": None, "tip": 0, "why": None}
    assert {one.field: one.value_of(new) for one in MAST.new_form}["wood"] == "oak"
    for wrong in (Sent(wood="ash"), Sent(), Sent(wood="oak", tip="much")):
        with pytest.raises(Invalid):
            MAST.new_of_form(wrong, REGISTRY)


def test_what_operators_may_not_give_is_refused() -> None:
    for body in ({"name": "b", "yard": "theirs"}, {"crew": 1}, {"name": "b", "crew": 0}):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert(body, BOAT.New)
    for kind in ("boat", "console\n", ""):
        with pytest.raises(msgspec.ValidationError):
            msgspec.convert({"kind": kind}, KEY.Settings)
    with pytest.raises(KeyError, match="yard"):
        BOAT.settings_of({"yard": "theirs"})
    with pytest.raises(Invalid):
        BOAT.new_of(msgspec.convert({"name": " "}, BOAT.New), REGISTRY)


@cases(
    "kind, text",
    (values.Id, "key_1"),
    (values.User, "ann"),
    (values.Usd, "5"),
    (values.SignedUsd, "-5"),
    (values.BaseId, "notes"),
)
def test_line_break_ends_no_value(kind: Any, text: str) -> None:
    assert msgspec.convert(text, kind) == text
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(f"{text}\n", kind)


def test_count_is_one_of_its_column() -> None:
    assert (values.count("1"), values.count(str(values.COUNT_MAX))) == (1, values.COUNT_MAX)
    for text in ("0", "-1", "1.5", "²", "", str(values.COUNT_MAX + 1), "0" * 10 + "1" + "0" * 10):
        with pytest.raises(Invalid):
            values.count(text)


def test_column_that_is_none_is_not_put_into_statements() -> None:
    @dataclass
    class Leaky:
        name: Annotated[str, Member(kinds.TEXT, column="name; DROP TABLE keys")]

    with pytest.raises(MisstatedNoun, match="is no column"):
        Noun("Leaky", NewBoat, Leaky, alias="x")


def test_part_that_nobody_declares_is_named() -> None:
    assert "{{" not in "".join(load("gw.keys", "keys.sql", KEY.sql).values())
    with pytest.raises(QueryFileFault, match="there is no part 'new_columns'"):
        load("gw.keys", "keys.sql")
