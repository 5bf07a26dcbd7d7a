"""A budget as operators write it: its body, its options, its form, the audit's details."""

from typing import Any

import msgspec
import pytest

from gw.budgets.budget import BUDGET, NewBudget
from gw.cli.arguments import Parser
from gw.nouns.refused import Invalid
from tests.unit.config.reading import read

REGISTRY = read("").registry

NEEDED: dict[str, Any] = {
    "account_id": "acct_1",
    "name": "all",
    "scope": "account",
    "period": "month",
}


class Form:
    """The fields of a form."""

    def __init__(self, **fields: str) -> None:
        self._fields = fields

    def field(self, name: str) -> str:
        return self._fields.get(name, "")

    def get_body_arguments(self, name: str) -> list[str]:
        return [self._fields[name]] if name in self._fields else []


def of_body(**members: Any) -> NewBudget:
    body = msgspec.convert({**NEEDED, "limit_usd": "5", **members}, BUDGET.New)
    return BUDGET.new_of(body, REGISTRY)


def options(add: Any, *words: str) -> Any:
    parser = Parser()
    add(parser)
    return parser.parse_args(words)


def test_defaults_are_those_of_the_reference() -> None:
    made = of_body()
    assert made == NewBudget(**NEEDED, limit_nano_usd=5_000_000_000)
    assert (made.time_zone, made.action, made.warn_at, made.starts_at) == (
        "UTC",
        "refuse",
        [80],
        None,
    )
    words = "--account acct_1 --name all --scope account --limit-usd 5 --period month"
    assert BUDGET.of_options(options(BUDGET.add_options, *words.split()), REGISTRY) == made
    members = [one for one in BUDGET.new_form if one.field != "account_id"]
    fields = {"name": "all", "scope": "account", "period": "month", "limit": "5"}
    given = BUDGET.of_form(Form(**fields, action="refuse", warn_at="80"), members, REGISTRY)
    assert NewBudget(account_id="acct_1", **given) == made


def test_percents_are_each_once_and_in_order_or_none() -> None:
    assert of_body(warn_at=[90, 50, 90]).warn_at == [50, 90]
    assert of_body(warn_at=[]).warn_at == of_body(warn_at=None).warn_at == []
    for words, found in (
        (("90", "50"), [50, 90]),
        (("none",), []),
    ):
        given = [word for one in words for word in ("--warn-at", one)]
        changes = BUDGET.changes_of_options(options(BUDGET.add_settings, *given), REGISTRY)
        assert changes == {"warn_at": found}
    (member,) = [one for one in BUDGET.form if one.field == "warn_at"]
    for text, found in (("50, 90", [50, 90]), ("90 50", [50, 90]), ("", [])):
        assert member.kind.read_form(Form(warn_at=text), member) == found
    for text in ("0", "101", "5.5", "x", "1 2 3 4 5 6"):
        with pytest.raises(Invalid):
            member.kind.read_form(Form(warn_at=text), member)
    mixed = options(BUDGET.add_settings, "--warn-at", "none", "--warn-at", "5")
    with pytest.raises(Invalid, match="stands alone"):
        BUDGET.changes_of_options(mixed, REGISTRY)


@pytest.mark.parametrize(
    "members",
    [
        {"limit_usd": "1.0000000001"},
        {"limit_usd": "-1"},
        {"limit_usd": 1},
        {"limit_usd": "9999999999"},
        {"period": "year"},
        {"scope": "team"},
        {"action": "stop"},
        {"warn_at": [0]},
        {"warn_at": [101]},
        {"warn_at": [1, 2, 3, 4, 5, 6]},
        {"warn_at": [True]},
        {"warn_at": [0.5]},
        {"name": " "},
        {"name": "a" * 201},
        {"name": "a\nb"},
        {"subject": ""},
        {"made_by": "owner"},
        {"starts_at": "tomorrow"},
        {"starts_at": "2027-01-31T12:00:00"},
    ],
)
def test_bad_member_is_refused(members: dict[str, Any]) -> None:
    with pytest.raises((msgspec.ValidationError, Invalid)):
        of_body(**members)


def test_offset_west_of_utc_is_a_value_of_its_option() -> None:
    words = (
        "--account acct_1 --name n --scope account --limit-usd 5 --period day --time-zone -05:30"
    )
    made = BUDGET.of_options(options(BUDGET.add_options, *words.split()), REGISTRY)
    assert made.time_zone == "-05:30"


@pytest.mark.parametrize("name", ["scope", "subject", "period", "time_zone", "starts_at", "id"])
def test_what_is_for_life_is_no_setting(name: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({name: "day"}, BUDGET.Settings)
