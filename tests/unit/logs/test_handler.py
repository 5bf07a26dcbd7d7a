"""The endpoints of the call log, and their sums."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from gw.api.application import GatewayApplication
from gw.api.endpoint import Endpoint
from gw.api.logs import summary_cache
from gw.api.logs.handlers import LogsHandler
from gw.api.logs.summary_cache import SummaryCache
from gw.error_bodies import dumps
from gw.errors import INVALID_REQUEST, GatewayError
from loadtests.rig.response import Response
from tests.support.aio import run
from tests.support.clock import FakeClock
from tests.support.rows import cases
from tests.unit.api.fakes import KEY, World, make_principal
from tests.unit.http.client import request, served

OTHER_KEY = "sk-platform-" + "b" * 64


class ScopeHandler(LogsHandler):
    """Tells what the key sees in the scope it asks for."""

    async def on_get(self) -> None:
        if self.request.query == "bad":
            raise GatewayError(INVALID_REQUEST, "No.")
        visibility = self.visibility("account" if self.request.query == "account" else "key")
        self.write(dumps([visibility.account_id, visibility.key_id]))


SCOPE = Endpoint("logs", "/scope", ("GET",), ScopeHandler, log_rate=True)


def ask(world: World, *heads: str) -> list[Response]:
    application = GatewayApplication([SCOPE], services=world.services)

    async def scene() -> list[Response]:
        async with served(application) as address:
            return [await address.request(head, b"") for head in heads]

    return run(scene())


def get(query: str = "", key: str | None = KEY) -> str:
    return request("GET", f"/scope?{query}", key=key)


def rate(response: Response) -> tuple[str, str, str]:
    names = ("x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset")
    return tuple(response.headers[name] for name in names)  # type: ignore[return-value]


def test_every_answer_to_a_good_key_tells_the_rate() -> None:
    good, bad, closed = ask(World(), get(), get("bad"), get("account"))
    assert (good.status, rate(good)) == (200, ("60", "59", "60"))
    assert (bad.status, bad.code, rate(bad)) == (400, "invalid_request", ("60", "58", "60"))
    assert (closed.status, closed.code) == (403, "permission_denied")
    assert rate(closed) == ("60", "57", "60")


def test_the_sixty_first_is_429_and_another_key_is_not() -> None:
    world = World()
    world.keys.known[OTHER_KEY] = make_principal(key_id="key_2")
    *admitted, refused, other = ask(world, *[get()] * 61, get(key=OTHER_KEY))
    assert {response.status for response in admitted} == {200}
    assert (refused.status, refused.code) == (429, "logs_rate_limited")
    assert refused.headers["retry-after"] == "60"
    assert rate(refused) == ("60", "0", "60")
    assert "60 s" in refused.json["error"]["message"]
    assert (other.status, rate(other)) == (200, ("60", "59", "60"))
    world.clock.advance(60.0)
    (again,) = ask(world, get())
    assert (again.status, rate(again)) == (200, ("60", "59", "60"))


@cases("kind", "console", "employee", "compute")
@cases("toggle", False, True)
def test_account_scope_is_for_console_keys_with_the_toggle(kind: str, toggle: bool) -> None:
    world = World()
    world.keys.known[KEY] = make_principal(kind=kind, account_logs=toggle)
    own, whole = ask(world, get(), get("account"))
    assert own.json == ["acct_1", "key_1"]
    if kind == "console" and toggle:
        assert whole.json == ["acct_1", None]
    else:
        assert (whole.status, whole.code) == (403, "permission_denied")


class Maker:
    """Makes answers that say which they are, when it is let."""

    def __init__(self) -> None:
        self.made = 0
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.fault: Exception | None = None

    async def __call__(self) -> bytes:
        self.made += 1
        number = self.made
        await self.go_on.wait()
        if self.fault is not None:
            raise self.fault
        return b"%d" % number


def scene(body: Callable[[SummaryCache, Maker, FakeClock], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        clock = FakeClock(now=6000.0 - 1000.0)  # at the beginning of a minute
        await body(SummaryCache(clock), Maker(), clock)

    run(main())


def test_a_crowd_shares_one_making_and_one_who_leaves_does_not_end_it() -> None:
    async def body(cache: SummaryCache, maker: Maker, clock: FakeClock) -> None:
        maker.go_on.clear()
        crowd = [asyncio.ensure_future(cache.get_summary("a", maker)) for _ in range(20)]
        while not maker.made:
            await asyncio.sleep(0)
        crowd[0].cancel()
        maker.go_on.set()
        responses = await asyncio.gather(*crowd, return_exceptions=True)
        assert isinstance(responses[0], asyncio.CancelledError)
        assert responses[1:] == [b"1"] * 19
        assert maker.made == 1

    scene(body)


def test_a_failure_is_reported_and_forgotten() -> None:
    async def body(cache: SummaryCache, maker: Maker, clock: FakeClock) -> None:
        maker.fault = RuntimeError("down")
        responses = await asyncio.gather(
            *(cache.get_summary("a", maker) for _ in range(3)), return_exceptions=True
        )
        assert responses == [maker.fault] * 3
        maker.fault = None
        assert await cache.get_summary("a", maker) == b"2"

    scene(body)


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary_cache, "ENTRIES_MAX", 2)

    async def body(cache: SummaryCache, maker: Maker, clock: FakeClock) -> None:
        for question in "abc":
            await cache.get_summary(question, maker)
        assert repr(cache) == "<SummaryCache 2 answers of minute 100>"
        assert await cache.get_summary("c", maker) == b"3"
        assert await cache.get_summary("a", maker) == b"4"

    scene(body)
