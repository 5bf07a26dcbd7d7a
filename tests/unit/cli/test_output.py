"""How results of commands are laid out and encoded."""

import io
import json
import sys
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal

import pytest

from gw.cli.output import Result, print_result, rfc3339, shown, to_json
from tests.support.rows import cases


@cases(
    "value, text",
    (None, "-"),
    (True, "yes"),
    (False, "no"),
    (0, "0"),
    ("", ""),
    ([], "none"),
    (["a", "b"], "a, b"),
    (("a",), "a"),
)
def test_values_are_shown_for_people(value: object, text: str) -> None:
    assert shown(value) == text


def test_instants_are_written_in_utc() -> None:
    assert rfc3339(None) is None
    assert rfc3339(datetime(2027, 1, 2, tzinfo=UTC)) == "2027-01-02T00:00:00Z"
    east = timezone(timedelta(hours=2))
    assert rfc3339(datetime(2027, 1, 2, 0, 0, 0, 5, tzinfo=east)) == "2027-01-01T22:00:00.000005Z"


def test_record_is_one_line_of_ascii() -> None:
    text = to_json(
        {
            "n": "ü\n",
            "d": Decimal("12"),
            "f": Decimal("0.10"),
            "t": datetime.max.replace(tzinfo=UTC),
        }
    )
    assert text.isascii()
    assert "\n" not in text
    assert json.loads(text) == {
        "n": "ü\n",
        "d": 12,
        "f": "0.10",
        "t": "9999-12-31T23:59:59.999999Z",
    }
    with pytest.raises(TypeError):
        to_json({"x": object()})


def test_terminal_that_lacks_a_character_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    print_result(Result({}, "Größe"), as_json=False)
    assert written.getvalue() == b"Gr\\xf6\\xdfe\n"
