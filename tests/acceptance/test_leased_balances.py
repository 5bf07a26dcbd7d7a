"""What a balance covers, when several processes lease parts of it, is what is admitted."""

import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from actors.wallet.money import NANO_PER_USD
from actors.wallet.wallets import HOLD_SECONDS
from loadtests.attacks.frozen_process import Gateway
from loadtests.rig.client import Client
from loadtests.rig.deployment import Deployment, deployment, model
from loadtests.rig.response import Response
from loadtests.rig.tenants import Tenant
from loadtests.rig.waiting import PATIENCE_SECONDS, until

pytestmark = pytest.mark.long

TOKEN = NANO_PER_USD // 1000  # of input and of output
PRICE = {"input": "1000", "output": "1000"}
MAX_TOKENS = 5
AT_ONCE, FLOOD = 40, 150
ALIVE_SECONDS = 2.0


def called(tenant: Tenant, cost_nano_usd: int, **members: Any) -> Response:
    """One call that costs so much, and usually holds less than a cent and a half."""
    usage = {"input": cost_nano_usd // TOKEN - 1, "output": 1}
    sim = {"usage": usage}
    return tenant.client.chat(max_tokens=MAX_TOKENS, sim=sim, **members)


def leased_by(h: Deployment, tenant: Tenant) -> dict[str, int]:
    rows = h.query(
        "SELECT process_id, amount_nano_usd FROM leases WHERE account_id = %s", tenant.account
    )
    return {row["process_id"]: row["amount_nano_usd"] for row in rows}


def warm(h: Deployment, tenant: Tenant) -> int:
    """Let every process lease part of the balance; return what a call holds."""

    def is_leased_by_all() -> bool:
        with ThreadPoolExecutor(8) as pool:
            replies = list(pool.map(lambda _: called(tenant, 2 * TOKEN), range(24)))
        assert {reply.status for reply in replies} == {200}
        return len(leased_by(h, tenant)) == h.processes

    until(is_leased_by_all, what="a lease of each process")
    (row,) = h.query(
        "SELECT max(held_nano_usd) AS held FROM entries WHERE account_id = %s", tenant.account
    )
    return int(row["held"])


@pytest.mark.parametrize("is_stream", [False, True])
@pytest.mark.parametrize("processes", [1, 3])
def test_after_a_call_far_above_its_hold_what_is_left_is_admitted_exactly(
    database_url: str, tmp_path: Path, processes: int, is_stream: bool
) -> None:
    """The next requests begin as soon as its client has the whole response, in all processes."""
    with deployment(
        database_url,
        tmp_path,
        processes=processes,
        models=[model("sim-model", "one", price=PRICE, context_size=400_000)],
    ) as h:
        for left_over in (0.0, -1.0, 20.5):
            tenant = h.tenant(nano_usd=2 * NANO_PER_USD)
            held = warm(h, tenant)
            balance = tenant.client.remaining_nano_usd()
            left = int(left_over * held) // TOKEN * TOKEN
            reply = called(tenant, balance - left, stream=is_stream)
            assert reply.status == 200
            found = flood(tenant, held)
            assert found[200] == max(0, left) // held, (left_over, found)
            assert found[200] + found[402] == FLOOD, found


def flood(tenant: Tenant, cost_nano_usd: int) -> Counter[int]:
    """The statuses of many calls at once."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        replies = list(pool.map(lambda _: called(tenant, cost_nano_usd), range(FLOOD)))
    return Counter(reply.status for reply in replies)


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def test_a_process_that_stands_still_refuses_nobody_what_the_balance_covers(
    database_url: str, tmp_path: Path
) -> None:
    """Its lease is waited for, then taken; until then calls are unavailable, not unpaid."""
    with deployment(
        database_url,
        tmp_path,
        processes=2,
        worker_silence_seconds=60,
        models=[model("sim-model", "one", price=PRICE, context_size=400_000)],
    ) as h:
        tenant = h.tenant()
        warm(h, tenant)
        balance = tenant.client.remaining_nano_usd()
        still, *_ = leased_by(h, tenant)
        (row,) = h.query("SELECT pid FROM processes WHERE id = %s", still)
        nearly_all = balance // TOKEN - 30
        sim = {"usage": {"input": 1, "output": 1}}
        with stopped(row["pid"]):
            found: Counter[int] = Counter()

            def is_served() -> bool:
                with closing(tenant.client.kept()) as client:
                    if not is_alive(client):
                        return False
                    response = client.chat(max_tokens=nearly_all, sim=sim)
                    found[response.status] += 1
                    assert response.status in (200, 503), response
                    assert response.status == 200 or int(response.headers["retry-after"]) >= 1
                    return response.status == 200

            until(is_served, what="a call served while a process stands still")
        until(lambda: still not in leased_by(h, tenant), what="that process learns of it")


PACE = 0.25  # of what a hold and a dead process are waited for


def test_lease_of_a_host_that_died_refuses_nobody_what_the_balance_covers(
    database_url: str, tmp_path: Path
) -> None:
    """The call waits as long as a hold may take, then is unavailable; never unpaid."""
    models = [model("sim-model", "one", price=PRICE, context_size=400_000)]
    with (
        deployment(database_url, tmp_path, models=models) as h,
        closing(Gateway(h.config, host="", pace=PACE)) as judge,
        closing(Gateway(h.config, host="elsewhere", pace=PACE)) as lost,
    ):
        tenant = h.tenant()
        sim = {"usage": {"input": 1, "output": 1}}
        there, here = (Client(one.url, tenant.key) for one in (lost, judge))

        def is_leased() -> bool:
            assert there.chat(max_tokens=MAX_TOKENS, sim=sim).status == 200
            return bool(leased_by(h, tenant))

        until(is_leased, what="its lease")
        nearly_all = there.remaining_nano_usd() // TOKEN - 30
        lost.popen.kill()
        waited: list[float] = []

        def is_served() -> bool:
            begun = time.monotonic()
            response = here.chat(max_tokens=nearly_all, sim=sim)
            assert response.status in (200, 503), response
            if response.status == 503:
                waited.append(time.monotonic() - begun)
                assert int(response.headers["retry-after"]) >= 1
            return response.status == 200

        until(is_served, what="a call that needs what the other host had leased")
        assert waited
        assert waited[0] > PACE * HOLD_SECONDS / 2
        judge.terminate()


def is_alive(client: Client) -> bool:
    """Whether the process that has its connection replies; the kernel deals them out."""
    assert client.connection is not None
    client.connection.wait_at_most(ALIVE_SECONDS)
    try:
        return client.get("/v1/models").status == 200
    except TimeoutError:
        return False
    finally:
        client.connection.wait_at_most(PATIENCE_SECONDS)
