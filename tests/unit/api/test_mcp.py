"""`/mcp` when something of ours fails: the client is told in JSON-RPC, the operator in the log."""

import gc
import json
from collections.abc import Callable
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from actors.store.errors import StoreUnavailable
from gw.api.failures import INTERNAL_MESSAGE, STORE_MESSAGE
from gw.api.knowledge.services import WikiServices
from gw.api.mcp.handler import McpHandler
from gw.mcp.exchange import Exchange
from loadtests.rig.response import Response
from metrics.prometheus import Metrics
from tests.support.logs import logs
from tests.unit.api.fakes import World
from tests.unit.http.client import request, served

CALL = {
    "jsonrpc": "2.0",
    "id": "7",
    "method": "tools/call",
    "params": {"name": "search_wiki", "arguments": {"q": "otters"}},
}


class FailingDatabase:
    """Every transaction fails."""

    def __init__(self, error: type[Exception]) -> None:
        self._error = error

    def transaction(self) -> Any:
        raise self._error("a secret of the inside")


def world_that_fails(error: type[Exception]) -> World:
    database = cast(Any, FailingDatabase(error))
    nothing = cast(Any, None)
    wiki = WikiServices(database=database, sources=nothing, links=nothing, link_seconds=1)
    return World(metrics=cast(Any, Metrics(CollectorRegistry())), wiki=wiki)


def posted(value: Any) -> tuple[str, bytes]:
    """Head and body of a message."""
    body = json.dumps(value).encode()
    length = f"Content-Length: {len(body)}"
    return request("POST", "/mcp", "Content-Type: application/json", length), body


async def ask(world: World, value: Any) -> Response:
    async with served(world.application()) as address:
        return await address.request(*posted(value))


@logs("request_failed")
@pytest.mark.parametrize(
    ("error", "status", "message"),
    [(StoreUnavailable, 503, STORE_MESSAGE), (RuntimeError, 500, INTERNAL_MESSAGE)],
)
@pytest.mark.parametrize("shape", [lambda one: one, lambda one: [one]], ids=["one", "batch"])
async def test_a_fault_of_ours_is_json_rpc(
    error: type[Exception], status: int, message: str, shape: Callable[[Any], Any]
) -> None:
    world = world_that_fails(error)
    reply = await ask(world, shape(CALL))
    assert reply.status == status
    assert json.loads(reply.body) == {
        "jsonrpc": "2.0",
        "id": "7",
        "error": {"code": -32603, "message": message},
    }
    assert ("retry-after" in reply.headers) == (status == 503)
    exposed = world.metrics.render("")[0].decode()
    labels = 'method="tools/call",outcome="error",tool="search_wiki"'
    assert f"gw_mcp_requests_total{{{labels}}} 1.0" in exposed


async def test_what_needs_no_database_works_without_it() -> None:
    world = world_that_fails(StoreUnavailable)
    reply = await ask(world, {**CALL, "method": "tools/list"})
    assert reply.status == 200


async def test_a_message_is_freed_without_the_garbage_collector() -> None:
    world = world_that_fails(StoreUnavailable)
    message = {**CALL, "method": "tools/list"}
    async with served(world.application()) as address, address.client() as client:
        gc.collect()
        gc.disable()
        try:
            for _ in range(20):
                await client.request(*posted(message))
            left = [one for one in gc.get_objects() if isinstance(one, McpHandler | Exchange)]
        finally:
            gc.enable()
    assert len(left) < 6  # the last one
