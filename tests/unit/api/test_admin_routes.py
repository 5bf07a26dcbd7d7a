"""The table of the admin API: a route that contradicts itself is not served."""

from typing import Any

import pytest
from msgspec import Struct

from gw.api.admin.table import AdminCall, Route, by_path, route
from gw.http.rows import MisstatedRow
from tests.support.rows import cases


async def read(call: AdminCall) -> None:
    """Nothing."""


async def change(call: AdminCall, session: object) -> None:
    """Nothing."""


def row(method: str, **members: Any) -> Route:
    members = {"summary": "A door.", **members}
    return Route(method=method, path="door", name="door", response=None, **members)


@cases(
    "method, members, fault",
    ("GET", {"read": read, "summary": ""}, "docstring"),
    ("GET", {}, "either"),
    ("POST", {"read": read, "change": change}, "either"),
    ("GET", {"change": change}, "changes nothing"),
    ("GET", {"read": read, "body": Struct}, "no body"),
    ("POST", {"read": read, "in_force": True}, "waited for"),
    ("POST", {"read": read, "finish": change}, "waited for"),
)
def test_route_that_contradicts_itself_is_named(
    method: str, members: dict[str, Any], fault: str
) -> None:
    with pytest.raises(MisstatedRow, match=f"^{method} door: .*{fault}"):
        row(method, **members)


def test_table_has_routes_and_each_once() -> None:
    with pytest.raises(MisstatedRow, match="without rows"):
        by_path([])
    with pytest.raises(MisstatedRow, match="GET door: it is there twice"):
        by_path([row("GET", read=read), row("GET", read=read)])


def test_route_says_what_its_function_says() -> None:
    made = route("GET", "door", read)
    assert (made.name, made.summary, made.response) == ("read", "Nothing.", type(None))
    assert (made.read, made.change, made.is_change) == (read, None, False)
    made = route("POST", "door", change, status=201)
    assert (made.read, made.change, made.status) == (None, change, 201)
