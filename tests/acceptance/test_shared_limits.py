"""Two gateways share one account's limits exactly, through Redis; each place comes back once.

Reference 1.4. Redis has twenty seconds to answer here, so that a machine
busy with other things does not let the gateways go on without it.
"""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest
from redis import Redis

from loadtests.chaos.valkey import running_valkey
from loadtests.rig.async_connection import chat
from loadtests.rig.client import Client
from loadtests.rig.deployment import Deployment, channel, model, shared_deployment
from loadtests.rig.folders import temporary_folder
from loadtests.rig.postgres import PostgresForTests
from loadtests.rig.processes import GatewayProcess
from loadtests.rig.response import Response
from loadtests.rig.tenants import Tenant
from loadtests.rig.waiting import until

pytestmark = pytest.mark.long

PATIENT = "?socket_timeout=20"
CONCURRENCY = 10


@pytest.fixture(scope="module")
def redis() -> Iterator[str]:
    with temporary_folder() as folder, running_valkey(folder) as url:
        yield url


@pytest.fixture(scope="module")
def shared(postgres: PostgresForTests, redis: str) -> Iterator[Deployment]:
    settings: dict[str, Any] = {
        "redis_url": redis + PATIENT,
        "channels": [channel("one")],
        "models": [model("sim-model", "one")],
    }
    with shared_deployment(postgres, **settings) as built:
        yield built


@pytest.fixture(scope="module")
def second(shared: Deployment) -> Iterator[GatewayProcess]:
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


async def crowd(tenant: Tenant, urls: list[str], count: int, **body: Any) -> list[Response]:
    """So many calls at once, evenly over the gateways."""
    calls = (chat(urls[number % len(urls)], tenant.key, **body) for number in range(count))
    return await asyncio.gather(*calls)


def test_hundred_calls_at_once_are_exactly_ten_over_both(
    h: Deployment, second: GatewayProcess, redis: str
) -> None:
    tenant = h.tenant(concurrency=CONCURRENCY)
    urls = [h.gateway.url, second.url]

    async def main() -> None:
        calls = asyncio.create_task(crowd(tenant, urls, 100, sim={"hang": "headers"}))
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
