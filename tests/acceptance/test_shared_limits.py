"""Two gateways share one account's limits exactly, through Redis; each place comes back once.

Spec: Limits, Platform account limits. Redis has twenty seconds to answer here, so that a machine
busy with other things does not let the gateways go on without it.
"""

from __future__ import annotations

import asyncio
import copy
import signal
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from redis import Redis

from tests.support.client import NANO_PER_USD, Client, Reply
from tests.support.folders import temporary_folder
from tests.support.house import House, channel, model, shared_house
from tests.support.postgres import PostgresForTests
from tests.support.processes import GatewayProcess
from tests.support.streams import Stream, follow, unlimited
from tests.support.tenants import Tenant
from tests.support.valkey import running_valkey
from tests.support.waiting import until, within_one_window

pytestmark = pytest.mark.long

PATIENT = "?socket_timeout=20"
CONCURRENCY, RPM = 10, 40


@pytest.fixture(scope="module")
def redis() -> Iterator[str]:
    with temporary_folder() as folder, running_valkey(folder) as url:
        yield url


@pytest.fixture(scope="module")
def shared(postgres: PostgresForTests, redis: str) -> Iterator[House]:
    settings: dict[str, Any] = {
        "redis_url": redis + PATIENT,
        "channels": [channel("one")],
        "models": [model("sim-model", "one")],
    }
    with shared_house(postgres, **settings) as built:
        yield built


@pytest.fixture(scope="module")
def second(shared: House) -> Iterator[GatewayProcess]:
    """Another gateway on the same database and the same Redis."""
    process = GatewayProcess(shared.config)
    try:
        yield process
        assert process.terminate() == 0, process.log()
    finally:
        process.close()


def permits(redis: str, account: str) -> int:
    with Redis.from_url(redis) as client:
        return int(client.zcard(f"gw:limits:{account}:leases"))


def wait_until_free(redis: str, account: str) -> None:
    """A permit that nobody gave back would be renewed for ever."""
    until(lambda: permits(redis, account) == 0, what="every place given back")


async def crowd(h: House, tenant: Tenant, urls: list[str], count: int, **body: Any) -> list[Stream]:
    """So many calls at once, evenly over the gateways; what each has seen so far."""
    seen = [Stream() for _ in range(count)]
    paths = [f"{urls[place % len(urls)]}/v1/chat/completions" for place in range(count)]
    async with unlimited() as session:
        await asyncio.gather(
            *(
                follow(session, h, one, path=path, key=tenant.key, **body)
                for one, path in zip(seen, paths, strict=True)
            )
        )
    return seen


def test_hundred_calls_at_once_are_exactly_ten_over_both(
    h: House, second: GatewayProcess, redis: str
) -> None:
    tenant = h.tenant(concurrency=CONCURRENCY)
    urls = [h.gateway.url, second.url]

    async def main() -> None:
        calls = asyncio.create_task(crowd(h, tenant, urls, 100, sim={"hang": "headers"}))
        await asyncio.to_thread(until, lambda: rejected() == 90, what="90 refusals")
        h.upstream.wait(active=CONCURRENCY)
        assert permits(redis, tenant.account) == CONCURRENCY
        assert h.upstream.stats()["requests"] == CONCURRENCY
        calls.cancel()
        await asyncio.wait([calls])

    def rejected() -> int:
        return sum(row["error_code"] == "rate_limit_exceeded" for row in h.rows(tenant))

    asyncio.run(main())
    h.upstream.wait(active=0)
    wait_until_free(redis, tenant.account)
    assert {row["status"] for row in h.rows(tenant)} == {"rejected", "interrupted"}
    for url in urls:
        assert Client(url, tenant.key).chat().status == 200


def test_hundred_calls_at_once_are_exactly_the_minute_of_both(
    h: House, second: GatewayProcess, redis: str
) -> None:
    tenant = h.tenant(rpm=RPM, nano_usd=100 * NANO_PER_USD)
    urls = [h.gateway.url, second.url]
    seen = asyncio.run(crowd(h, tenant, urls, 100, sim={"events": 2}))
    assert Counter(one.status for one in seen) == {200: RPM, 429: 100 - RPM}
    for url in urls:
        refused = Client(url, tenant.key).chat()
        assert refused.refusal == (429, "rate_limit_error", "rate_limit_exceeded")
        assert "requests per minute" in refused.error["message"]
        assert refused.headers["x-ratelimit-limit-requests"] == str(RPM)
        assert refused.headers["x-ratelimit-remaining-requests"] == "0"
        assert 0 < int(refused.headers["x-ratelimit-reset-requests"]) <= 60
        assert 0 < int(refused.headers["retry-after"]) <= 60
    until(
        lambda: sum(row["status"] == "success" for row in h.rows(tenant)) == RPM,
        what="a row of each",
    )


@pytest.fixture
def hasty(h: House) -> Iterator[GatewayProcess]:
    """A gateway of its own, that has less time and goes away."""
    before = copy.deepcopy(h.settings)
    h.write(timeouts={"chat": 3}, drain_seconds=1)
    process = GatewayProcess(h.config)
    try:
        yield process
    finally:
        process.close()
        h.settings = before
        h.write()


def test_gateway_that_stops_has_given_everything_back(
    h: House, hasty: GatewayProcess, redis: str
) -> None:
    tenant = h.tenant(concurrency=3)
    sim = {"events": 5, "pause": 2}
    with Client(hasty.url, tenant.key).begin_chat(stream=True, sim=sim):
        h.upstream.wait(paused=1)
        assert permits(redis, tenant.account) == 1
        hasty.popen.send_signal(signal.SIGTERM)
        hasty.wait_for_line("drain_began")
        assert hasty.wait() == 0, hasty.log()
    assert permits(redis, tenant.account) == 0


def test_the_rate_of_the_call_logs_is_one_over_both(h: House, second: GatewayProcess) -> None:
    """Spec: Limits, Log API rate."""

    def ask() -> tuple[list[Reply], list[Reply]]:
        """What each gateway in turn answers, and what then of the summary."""
        tenant = h.tenant()
        clients = [tenant.client, Client(second.url, tenant.key)]
        rows = [clients[number % 2].get("/v1/logs") for number in range(60)]
        return rows, [client.get("/v1/logs/summary") for client in clients]

    rows, summaries = within_one_window(ask)
    left = [reply.headers["x-ratelimit-remaining"] for reply in rows]
    assert left == [str(number) for number in reversed(range(60))]
    for reply in summaries:
        assert reply.refusal == (429, "rate_limit_error", "logs_rate_limited")
