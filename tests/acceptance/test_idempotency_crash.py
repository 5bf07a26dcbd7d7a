"""Two gateways on one database and `kill -9`: one upstream call and one charge for a key."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

import pytest

from loadtests.rig.client import Call, Client
from loadtests.rig.deployment import Deployment, deployment
from loadtests.rig.processes import GatewayProcess
from loadtests.rig.response import Response
from loadtests.rig.tenants import Tenant
from loadtests.rig.waiting import until
from tests.acceptance.pictures import refusal
from tests.acceptance.submissions import PRICE, SETTINGS, age_keys, begin, conflict, submit

pytestmark = pytest.mark.long

SUBMISSIONS = 100


@contextmanager
def shop(database_url: str, folder: Path) -> Iterator[Deployment]:
    """A deployment that sells pictures and stops quickly; its ledger is verified at the end."""
    with deployment(database_url, folder, is_funded=False, **SETTINGS, drain_seconds=1) as h:
        yield h


def costs(h: Deployment, tenant: Tenant) -> dict[str, int]:
    """What the rows of each status cost together."""
    found: dict[str, int] = {}
    for row in h.rows(tenant):
        found[row["status"]] = found.get(row["status"], 0) + row["cost_nano_usd"]
    return found


def reply_or_nothing(call: Call) -> Response | None:
    """The answer, or None when the gateway died before there was one."""
    try:
        return call.response()
    except OSError:
        return None


def test_hundred_at_once_and_the_gateway_killed_are_one_charge(
    database_url: str, tmp_path: Path
) -> None:
    with shop(database_url, tmp_path) as h, closing(GatewayProcess(h.config)) as second:
        tenant = h.tenant()
        h.upstream.fault("one", hang="headers")
        urls = [h.gateway.url, second.url]
        calls = [begin(Client(urls[number % 2], tenant.key), "k") for number in range(SUBMISSIONS)]
        h.upstream.wait(active=1)
        (owner,) = h.query("SELECT p.pid FROM holds h JOIN processes p ON p.id = h.process_id")
        gateways = {one.popen.pid: one for one in (h.gateway, second)}
        gateways.pop(owner["pid"]).kill()
        replies = [reply_or_nothing(call) for call in calls]
        result = [reply for reply in replies if reply is not None]
        assert [refusal(reply) for reply in result] == [conflict("in_flight")] * len(result)
        (alive,) = gateways.values()
        client = Client(alive.url, tenant.key)

        assert h.spent_nano_usd(tenant) == 0
        assert "interrupted" in costs(h, tenant)
        h.upstream.heal("one")
        assert refusal(submit(client, "k")) == conflict("in_flight")
        assert h.upstream.requested("one") == [1]
        age_keys(h, mins=10)
        first, again = submit(client, "k"), submit(client, "k")
        assert first.status == 200
        assert (again.body, again.headers["idempotency-replayed"]) == (first.body, "true")
        assert h.upstream.requested("one") == [2]
        assert h.spent_nano_usd(tenant) == PRICE
        assert alive.terminate() == 0


def has_made(h: Deployment, calls: int) -> bool:
    """Has the gateway made so many calls upstream?"""
    return bool(h.upstream.requested("one")[0] >= calls)


def test_every_submission_is_charged_once_through_many_kills(
    database_url: str, tmp_path: Path
) -> None:
    """Clients ask until each has had its answer three times; the gateway dies under them."""
    keys = [f"k{number}" for number in range(24)]
    seen: dict[str, list[bytes]] = {key: [] for key in keys}

    with shop(database_url, tmp_path) as h, ThreadPoolExecutor(8) as pool:
        tenant = h.tenant()
        h.upstream.fault("one", delay_headers_ms=300)

        def has_enough(key: str) -> bool:
            try:
                reply = submit(Client(h.gateway.url, tenant.key), key)
            except OSError:
                return False  # it is dead, or not there yet
            if reply.status == 200:
                seen[key].append(reply.body)
            else:
                assert refusal(reply) == conflict("in_flight")
            return len(seen[key]) == 3

        def pursue(key: str) -> None:
            until(lambda: has_enough(key), what=f"three answers for {key}")

        pursued = [pool.submit(pursue, key) for key in keys]

        def wait(condition: Callable[[], bool], what: str) -> None:
            def is_true() -> bool:
                # The key of a call that was cut off is free at once; one under way keeps its own.
                age_keys(h, state="executing", mins=10)
                return condition()

            until(is_true, what=what)

        for so_far in (5, 10, 15):
            wait(partial(has_made, h, so_far), what=f"{so_far} calls")
            h.gateway.kill()
            h.gateway.close()
            h.start()
        wait(lambda: all(one.done() for one in pursued), what="every answer")
        for one in pursued:
            one.result()
        assert [len(set(bodies)) for bodies in seen.values()] == [1] * len(keys)
        assert h.spent_nano_usd(tenant) == len(keys) * PRICE
        assert [row["status"] for row in h.rows(tenant)].count("success") == len(keys)
