"""Redis goes away and comes back under two gateways: calls go on, and limits are shared again.

Reference 1.4. While it is away each gateway keeps the limits by itself.
"""

from contextlib import ExitStack
from pathlib import Path

import pytest

from loadtests.chaos.valkey import MortalValkey
from loadtests.rig.client import Client
from loadtests.rig.deployment import Deployment, deployment
from loadtests.rig.processes import GatewayProcess
from loadtests.rig.scrape import Admin
from loadtests.rig.waiting import until

pytestmark = pytest.mark.long

# So long may a busy machine keep a living Redis from answering.
PATIENT = "?socket_timeout=3"


def wait_until_degraded(gateway: GatewayProcess, wanted: bool) -> None:
    Admin(gateway.admin_url).page_when(
        lambda page: page.value("gw_limits_degraded") == wanted,
        what=f"gw_limits_degraded to be {wanted:d}",
    )


@pytest.mark.parametrize("how", ["killed", "frozen"])
def test_calls_go_on_without_redis_and_limits_are_shared_when_it_is_back(
    how: str, valkey: MortalValkey, database_url: str, tmp_path: Path
) -> None:
    def scene(h: Deployment, second: GatewayProcess) -> None:
        tenant = h.tenant(concurrency=2)
        here, there = tenant.client, Client(second.url, tenant.key)
        gateways = (h.gateway, second)
        with ExitStack() as stack:
            stack.enter_context(here.begin_chat(sim={"hang": "headers"}))
            h.upstream.wait(active=1)
            assert there.chat().headers["x-ratelimit-remaining-concurrency"] == "0"

            valkey.kill() if how == "killed" else valkey.freeze()
            assert here.chat().status == 200
            assert there.chat().status == 200
            for gateway in gateways:
                wait_until_degraded(gateway, True)
            # On its own, each counts its own: one here, none there.
            for remaining in ("1", "0"):
                call = stack.enter_context(there.begin_chat(stream=True, sim={"hang": 2}))
                assert call.begun().headers["x-ratelimit-remaining-concurrency"] == remaining
            assert there.chat().status == 429
            assert here.chat().headers["x-ratelimit-remaining-concurrency"] == "0"

            valkey.start() if how == "killed" else valkey.thaw()
            for gateway in gateways:
                wait_until_degraded(gateway, False)
            # Three are in flight over both, and the limit is two again.
            for client in (here, there):
                assert client.chat().refusal == (429, "rate_limit_error", "rate_limit_exceeded")
        until(lambda: here.chat().status == 200, what="a free place")
        until(lambda: there.chat().status == 200, what="a free place")
        # Said once for each change, however many requests there were.
        assert h.event("redis_lost")
        assert h.event("redis_reached")

    with deployment(database_url, tmp_path, is_funded=False, redis_url=valkey.url + PATIENT) as h:
        second = GatewayProcess(h.config)
        try:
            scene(h, second)
            assert second.terminate() == 0, second.log()
        finally:
            second.close()


def test_gateway_starts_and_serves_without_its_redis(
    valkey: MortalValkey, database_url: str, tmp_path: Path
) -> None:
    valkey.kill()
    with deployment(database_url, tmp_path, is_funded=False, redis_url=valkey.url + PATIENT) as h:
        tenant = h.tenant(rpm=2)
        assert [tenant.client.chat().status for _ in range(3)] == [200, 200, 429]
        wait_until_degraded(h.gateway, True)
        valkey.start()
        wait_until_degraded(h.gateway, False)
        # What it admitted alone in the last minute counts in the new server too.
        assert tenant.client.chat().status == 429
