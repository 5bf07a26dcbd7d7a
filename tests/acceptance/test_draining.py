"""SIGTERM under load, with real processes: nothing is cut, nothing lost, everything settled."""

import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from actors.wallet.money import NANO_PER_USD
from gw.http.connection import DRAIN_GRACE_SECONDS
from gw.run import EXIT_UNSETTLED
from loadtests.rig.client import Call, Client, outcome
from loadtests.rig.deployment import A_KNOWN_PORT, Deployment, deployment
from loadtests.rig.processes import GatewayProcess
from loadtests.rig.scrape import Admin
from loadtests.rig.transactions import transaction
from loadtests.rig.waiting import until

pytestmark = pytest.mark.long

CLIENTS = 20
CALLERS = 4
CALLS_EACH = 10  # at least, between one step of a restart and the next
# A third of it is for calls that begin in the drain; on a busy machine as well.
DRAIN_SECONDS = 18
AT_ONCE, LATER, TOO_LATE = "at once", "later", "too late"


@pytest.fixture(params=[1, 2], ids=["one process", "two processes"])
def h(request: pytest.FixtureRequest, database_url: str, tmp_path: Path) -> Iterator[Deployment]:
    """A deployment on a port that the next gateway can take, too."""
    with deployment(
        database_url,
        tmp_path,
        processes=request.param,
        listen=A_KNOWN_PORT,
        drain_seconds=DRAIN_SECONDS,
    ) as built:
        yield built


def drained(h: Deployment) -> None:
    """The gateway ends by itself, well, and has left nothing open behind."""
    assert h.gateway.wait() == 0, h.gateway.log()
    assert h.query("SELECT count(*) FROM holds") == [{"count": 0}]
    h.verify()


@pytest.mark.parametrize("when", [AT_ONCE, LATER, TOO_LATE])
def test_clients_that_ask_again_as_their_streams_end_lose_nothing(when: str, h: Deployment) -> None:
    tenant = h.tenant()
    clients = [tenant.client.kept() for _ in range(CLIENTS)]
    idle = tenant.client.kept()
    assert idle.outcome() == "200"
    with ThreadPoolExecutor(CLIENTS) as pool:
        held: dict[str, Any] = {"stream": True, "sim": {"events": 20, "pause": 2}}
        calls = [client.begin_chat(**held) for client in clients]
        h.upstream.wait(paused=CLIENTS)
        h.gateway.popen.send_signal(signal.SIGTERM)
        until(lambda: Admin(h.gateway.admin_url).get("/readyz").status == 503, what="the drain")
        if when == LATER:
            since = time.monotonic()
            until(lambda: time.monotonic() > since + 2 * DRAIN_GRACE_SECONDS, what="a while")
            assert idle.connection is not None
            assert idle.connection.is_closed
        if when == TOO_LATE:
            until(lambda: len(h.events("last_calls_ended")) == h.processes, what="its second part")

        def goes_on(client: Client, call: Call) -> list[str]:
            return [outcome(call, is_stream=True), client.outcome(stream=True)]

        pairs = [pool.submit(goes_on, *pair) for pair in zip(clients, calls, strict=True)]
        h.upstream.resume()
        seen = [pair.result() for pair in pairs]
    assert Counter(first for first, _ in seen) == {"200": CLIENTS}
    allowed = {"asked to come back", "refused"} if when == TOO_LATE else {"200"}
    assert {second for _, second in seen} <= allowed, Counter(second for _, second in seen)
    drained(h)
    for client in [*clients, idle]:
        client.close()


def test_restart_that_overlaps_fails_no_call(h: Deployment) -> None:
    tenant = h.tenant(nano_usd=100 * NANO_PER_USD)
    counts: Counter[str] = Counter()
    lock, stop = threading.Lock(), threading.Event()

    def calls(*, keeps: bool) -> None:
        with closing(tenant.client.kept()) as client:
            while not stop.is_set():
                found = client.outcome()
                with lock:
                    counts[found] += 1
                if not keeps:
                    client.close()

    def goes_on() -> None:
        """Some calls are made as things are now."""
        made = counts["200"] + CALLERS * CALLS_EACH
        until(lambda: counts["200"] >= made or counts.keys() - {"200", "refused"}, what="calls")

    with ThreadPoolExecutor(2 * CALLERS) as pool:
        running = [pool.submit(calls, keeps=place % 2 == 0) for place in range(2 * CALLERS)]
        try:
            for _ in range(2):
                goes_on()
                old = h.gateway
                h.start()
                assert h.gateway.url == old.url
                goes_on()
                ended(old)
            goes_on()
        finally:
            stop.set()
        for one in running:
            one.result()
    assert counts.keys() <= {"200", "refused"}, counts
    h.gateway.popen.send_signal(signal.SIGTERM)
    drained(h)


def ended(old: GatewayProcess) -> None:
    """Its drain is over, and it was a good one."""
    assert old.terminate() == 0, old.log()
    old.close()


def test_settlement_that_the_database_does_not_take_in_time_is_logged(
    database_url: str, tmp_path: Path
) -> None:
    with deployment(database_url, tmp_path, drain_seconds=0) as h:
        tenant = h.tenant()
        with tenant.client.begin_chat(stream=True, sim={"events": 20, "pause": 2}) as call:
            call.read_until(b"data:")
            with transaction(database_url) as cursor:
                cursor.execute("SELECT FROM accounts WHERE id = %s FOR UPDATE", (tenant.account,))
                assert h.gateway.terminate() == EXIT_UNSETTLED, h.gateway.log()
        assert h.events("settlements_left_to_recovery")
        h.start()
        until(lambda: h.held_nano_usd(tenant) == 0, what="recovery")
