"""The table of endpoints: what its rows state is what their handlers have."""

from collections.abc import Iterator
from typing import Any

import pytest

from channels.families import CHAT
from gw.api.application import GatewayApplication, NotFoundHandler
from gw.api.endpoint import Endpoint
from gw.api.handler import ApiHandler
from gw.app import routes
from gw.http.rows import MisstatedRow
from gw.http.tornado.handler import methods_of
from tests.support.rows import cases
from tests.unit.api.fakes import World


class Reads(ApiHandler):
    async def on_get(self) -> None:
        """Nothing."""


class Posts(ApiHandler):
    async def on_post(self) -> None:
        """Nothing."""


class Submits(Posts):
    async def on_submit(self) -> None:
        """Nothing."""


GET, POST = ("GET",), ("POST",)
SOLD: dict[str, Any] = {"family": CHAT, "limited": True, "body": "json"}


@cases(
    "methods, handler, members, fault",
    (POST, Reads, {"body": "json"}, r"states \('POST',\), Reads has \('GET',\)"),
    (("GET", "POST"), Posts, {"body": "json"}, "has"),
    ((), Reads, {}, "has"),
    (POST, Posts, {}, "states its body"),
    (GET, Reads, {"body": "json"}, "states its body"),
    (POST, Posts, {**SOLD, "sold_by": "count"}, "lacks `on_submit`"),
    (POST, Submits, {**SOLD, "sold_by": "tokens"}, "not sold by a count"),
    (GET, Reads, {"family": CHAT, "sold_by": "tokens"}, "is a POST"),
    (POST, Posts, {"body": "json", "sold_by": "tokens"}, "has a family"),
    (GET, Reads, {"auth": "none", "limited": True}, "without a key"),
    (GET, Reads, {"auth": "none", "log_rate": True}, "without a key"),
    (GET, Reads, {"limited": True, "log_rate": True}, "or the key's rate"),
)
def test_row_that_its_handler_contradicts_is_named(
    methods: tuple[str, ...], handler: type[ApiHandler], members: dict[str, Any], fault: str
) -> None:
    with pytest.raises(MisstatedRow, match=rf"^endpoint door \(/door\): .*{fault}"):
        Endpoint("door", "/door", methods, handler, **members)


def test_application_takes_each_row_once_and_nothing_else() -> None:
    services = World().services
    row = Endpoint("door", "/door", GET, Reads)
    others: list[tuple[Any, str]] = [
        (("/door", Reads), "Reads.* has no row"),
        (Endpoint("door", "/other", GET, Reads), "door: it is there twice"),
        (Endpoint("other", "/door", GET, Reads), "/door: it is there twice"),
    ]
    for other, named in others:
        with pytest.raises(MisstatedRow, match=named):
            GatewayApplication([row, other], services=services)
    with pytest.raises(MisstatedRow, match="without rows"):
        GatewayApplication([], services=services)


def handlers(base: type[ApiHandler] = ApiHandler) -> Iterator[type[ApiHandler]]:
    """Every handler of the gateway that serves a method."""
    for one in base.__subclasses__():
        if one.__module__.startswith("gw.") and methods_of(one):
            yield one
        yield from handlers(one)


def test_every_handler_has_a_row() -> None:
    rows = {endpoint.handler for endpoint in routes()}
    bases = {base for row in rows for base in row.__mro__[1:]}
    assert set(handlers()) - bases == rows
    assert NotFoundHandler not in rows
