"""The members of a client's object, read by type."""

from typing import Any

import pytest

from channels.errors import InvalidRequest
from channels.translation.body_members import Members
from tests.support.rows import cases


def test_members_are_read_by_type_and_the_rest_is_left() -> None:
    members = Members({"a": 1, "b": None, "c": {"d": [{"e": True}]}, "f": 2.0, "g": "x"})
    assert members.number("a") == 1
    assert members.text("b") is None
    assert members.integer("f") == 2
    inner = members.object("c")
    assert inner is not None
    (item,) = inner.objects("d")
    assert item.boolean("e") is True
    assert item.location == "c.d[0]"
    assert members.rest() == {"g": "x"}


@cases(
    "reader, value",
    ("text", 1),
    ("number", "1"),
    ("number", True),
    ("integer", 1.5),
    ("boolean", 1),
    ("array", {}),
    ("object", []),
    ("mapping", "x"),
)
def test_member_of_a_wrong_type_is_named(reader: str, value: Any) -> None:
    with pytest.raises(InvalidRequest, match=r"place\.x: expected ") as raised:
        getattr(Members({"x": value}, "place"), reader)("x")
    assert raised.value.param == "place.x"


def test_array_of_objects_holds_nothing_else() -> None:
    with pytest.raises(InvalidRequest) as raised:
        Members({"x": [{}, 1]}).objects("x")
    assert raised.value.param == "x[1]"
