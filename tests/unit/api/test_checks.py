"""Each check in both its forms: what may answer at once refuses what the one that waits refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from gw.api.base import ApiHandler
from gw.api.checks import CHECKS, Check, FundsCheck, KeyCheck, KeyKindCheck, LimitsCheck, TextCheck
from gw.api.logs.handlers import REQUESTS_PER_MINUTE, LogRate, LogsHandler
from gw.app import routes
from gw.errors import GatewayError
from gw.http.tornado_adapter import RequestHeaders, TornadoRequest
from gw.keys.principal import KeyRefused
from tests.unit.api.fakes import KEY, World, make_principal


class Endpoint(ApiHandler):
    billed = True
    limited = True


class Models(Endpoint):
    auth = "models"


class Free(ApiHandler):
    pass


class Log(LogsHandler):
    pass


Arrange = Callable[[World], Any]


def refused_key(world: World) -> None:
    world.keys.known[KEY] = KeyRefused("revoked")


def agent(world: World) -> None:
    world.keys.known[KEY] = make_principal(kind="agent", agent_id="agent_1")


def used_up(world: World, *, rpm: int | None = None, concurrency: int | None = None) -> None:
    world.keys.known[KEY] = make_principal(rpm_limit=rpm, concurrency_limit=concurrency)
    assert world.limits.try_enter("acct_1", rpm=rpm, concurrency=concurrency) is not None


async def ask_too_often(world: World) -> None:
    for _ in range(REQUESTS_PER_MINUTE):
        await world.services.logs.rates.take("logs:key_1", REQUESTS_PER_MINUTE)


def poor(world: World) -> None:
    world.money.available_nano_usd = 0


# Each refusal of each check: the endpoint, the target, the header of the key, and what is so.
REFUSALS: list[tuple[type[Check], type[ApiHandler], str, str, Arrange]] = [
    (KeyCheck, Endpoint, "/", "", lambda world: None),
    (KeyCheck, Models, f"/?key={KEY}", "", lambda world: None),
    (KeyCheck, Endpoint, "/", "sk-unknown", lambda world: None),
    (KeyCheck, Endpoint, "/", KEY, refused_key),
    (KeyKindCheck, Endpoint, "/", KEY, agent),
    (KeyKindCheck, Free, "/", KEY, agent),
    (LimitsCheck, Endpoint, "/", KEY, lambda world: used_up(world, rpm=1)),
    (LimitsCheck, Endpoint, "/", KEY, lambda world: used_up(world, concurrency=1)),
    (FundsCheck, Endpoint, "/", KEY, poor),
    (TextCheck, Endpoint, "/?status=%00", KEY, lambda world: None),
    (LogRate, Log, "/", KEY, ask_too_often),
]


def handler(world: World, endpoint: type[ApiHandler], target: str, key: str) -> ApiHandler:
    fields = {"Host": ["gateway"]} | ({"X-Api-Key": [key]} if key else {})
    request = TornadoRequest("POST", target, "HTTP/1.1", RequestHeaders(fields), "")
    request.read_target()
    return endpoint(world.application(), request)


async def outcome(
    endpoint: type[ApiHandler], target: str, key: str, arrange: Arrange, *, now: bool
) -> tuple[int, str, str, dict[str, str]]:
    """How the request is refused, asked in the form that may answer at once or in the other."""
    world = World()
    world.keys.remembers = world.money.remembers = now
    if (arranging := arrange(world)) is not None:
        await arranging
    one = handler(world, endpoint, target, key)
    try:
        for check in one._checks:
            if not (now and check.try_now(one)):
                await check.ask(one)
    except GatewayError as error:
        return error.http_status, error.kind.code, error.message, dict(error.headers)
    raise AssertionError("nothing was refused")


@pytest.mark.parametrize(
    ("check", "endpoint", "target", "key", "arrange"),
    REFUSALS,
    ids=[f"{number}-{check.__name__}" for number, (check, *_) in enumerate(REFUSALS)],
)
async def test_both_forms_refuse_alike(
    check: type[Check], endpoint: type[ApiHandler], target: str, key: str, arrange: Arrange
) -> None:
    assert check in {type(one) for one in endpoint._checks}
    told = await outcome(endpoint, target, key, arrange, now=True)
    assert told == await outcome(endpoint, target, key, arrange, now=False)
    assert told[0] in (400, 401, 402, 403, 429)


def every_check() -> Iterator[type[Check]]:
    """Each check that stands before any endpoint of the gateway."""
    yield from map(type, CHECKS)
    for _, endpoint, *_ in routes():
        assert issubclass(endpoint, ApiHandler)
        yield from map(type, endpoint._checks)


def test_every_check_is_in_the_table_above() -> None:
    assert set(every_check()) == {check for check, *_ in REFUSALS}
    for check in set(every_check()):
        assert check.try_now is not Check.try_now
        assert check.ask is not Check.ask


async def test_only_what_memory_does_not_know_is_asked() -> None:
    world = World()
    world.keys.remembers, world.money.remembers = True, False
    one = handler(world, Endpoint, "/", KEY)
    waiting = one.check()
    assert waiting is not None
    await waiting
    assert world.keys.uses == [(KEY, True)]  # once, and the limits counted it once
    assert world.limits.in_flight("acct_1") == 1
    assert world.money.asked == ["available"]
    one.release()
    world.money.remembers = True
    assert handler(world, Endpoint, "/", KEY).check() is None


async def test_paid_submission_asks_again_without_money() -> None:
    class Submits(Endpoint):
        idempotent = True

    world = World()
    poor(world)
    world.kept.known.add(("acct_1", "again"))
    fields = RequestHeaders({"Host": ["gateway"], "X-Api-Key": [KEY], "Idempotency-Key": ["again"]})
    request = TornadoRequest("POST", "/", "HTTP/1.1", fields, "")
    request.read_target()
    waiting = Submits(world.application(), request).check()
    assert waiting is not None
    await waiting
