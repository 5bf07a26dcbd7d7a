"""Subjects of budgets by their scopes, and how many budgets one call can match."""

from itertools import product

import pytest

from gw.budgets.breadth import MATCHED_MAX, breadth
from gw.budgets.budget import PERIODS
from gw.budgets.subject import EVERY, SCOPES, check_subject, check_value, value_of
from gw.nouns.refused import Invalid


@pytest.mark.parametrize(
    ("scope", "subject"),
    [
        ("account", None),
        ("every_user", None),
        ("every_end_user", None),
        ("every_run", None),
        ("user", "ann@example.org"),
        ("agent", "agent_1"),
        ("model", "m"),
        ("label", "team=search/a:b@c"),
        ("label", f"a{'b' * 31}={'v' * 64}"),
        ("end_user", "Åse Ø " * 42),
        ("run", "x" * 128),
    ],
)
def test_subject_that_its_scope_has_is_taken(scope: str, subject: str | None) -> None:
    check_subject(scope, subject)


@pytest.mark.parametrize(
    ("scope", "subject"),
    [
        *((scope, "ann") for scope, read in SCOPES.items() if read is None),
        *((scope, None) for scope, read in SCOPES.items() if read is not None),
        ("user", "ann b"),
        ("user", "a" * 65),
        ("model", ""),
        ("label", "team"),
        ("label", "team="),
        ("label", "Team=a"),
        ("label", "1team=a"),
        ("label", f"a{'b' * 32}=v"),
        ("label", f"a={'v' * 65}"),
        ("label", "team=a b"),
        ("label", "team=a\n"),
        ("end_user", "a\nb"),
        ("end_user", "a" * 257),
        ("run", "a b"),
        ("run", "x" * 129),
    ],
)
def test_subject_that_its_scope_has_not_is_refused(scope: str, subject: str | None) -> None:
    with pytest.raises(Invalid):
        check_subject(scope, subject)


def test_sum_is_of_the_value_that_is_requested() -> None:
    assert value_of("account", None, None) == ""
    assert value_of("user", "ann", "ann") == ""
    assert value_of("every_user", None, None) is None
    assert value_of("every_user", None, "ann") == "ann"
    for scope, subject, asked in (("account", None, "ann"), ("user", "ann", "bob")):
        with pytest.raises(Invalid):
            value_of(scope, subject, asked)
    for scope, asked in (("every_user", "a b"), ("every_run", "a b"), ("every_end_user", "a\n")):
        with pytest.raises(Invalid):
            check_value(scope, asked)


def test_call_matches_one_value_of_each_thing() -> None:
    assert breadth([]) == 0
    assert breadth(("account", None, period) for period in PERIODS) == 4
    assert breadth(("user", user, period) for user in "abc" for period in PERIODS) == 4
    assert breadth([("model", "a", "day"), ("model", "b", "day"), ("model", "b", "week")]) == 2
    assert breadth([("agent", "a", "day"), ("model", "b", "day")]) == 2


def test_narrower_budget_stands_in_place_of_that_of_each_value() -> None:
    for every in EVERY:
        narrow = every.removeprefix("every_")
        general = [(every, None, "day"), (every, None, "week")]
        assert breadth(general) == 2
        assert breadth([*general, (narrow, "a", "day")]) == 2
        assert breadth([*general, (narrow, "a", "month")]) == 3
        # Two subjects are no one call's.
        assert breadth([*general, (narrow, "a", "month"), (narrow, "b", "total")]) == 3


def test_call_has_a_few_labels_each_with_one_value() -> None:
    labels = [("label", f"k{key}=v{value}", "day") for key, value in product(range(9), range(3))]
    assert breadth(labels) == 8
    assert breadth([*labels, ("label", "k0=v0", "week"), ("label", "k0=v1", "month")]) == 9
    assert MATCHED_MAX == 16
