"""The table of the admin API: a route that contradicts itself is not served."""

from typing import Any

import pytest
from msgspec import Struct

from gw.api.admin.table import AdminCall, Route, by_path
from gw.http.rows import MisstatedRow
from tests.support.rows import cases


async def read(call: AdminCall) -> None:
    """Nothing."""


async def change(call: AdminCall, session: object) -> None:
    """Nothing."""


def route(method: str, **members: Any) -> Route:
    return Route(method=method, path="door", name="door", summary="", response=None, **members)


@cases(
    "method, members, fault",
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
        route(method, **members)


def test_table_has_routes_and_each_once() -> None:
    with pytest.raises(MisstatedRow, match="without rows"):
        by_path([])
    with pytest.raises(MisstatedRow, match="GET door: it is there twice"):
        by_path([route("GET", read=read), route("GET", read=read)])
