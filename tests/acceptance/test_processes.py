"""Several processes behind one port: `gw serve --processes N` with real processes."""

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from actors.wallet.money import NANO_PER_USD
from gw.api.refusals import REFUSALS_ASKED_MAX, REFUSALS_RECORDED_MAX
from loadtests.rig.async_connection import chat
from loadtests.rig.client import outcome
from loadtests.rig.deployment import Deployment, deployment, model, shared_deployment
from loadtests.rig.postgres import PostgresForTests
from loadtests.rig.refusals import rights_revoked
from loadtests.rig.response import Response
from loadtests.rig.scrape import Admin
from loadtests.rig.tenants import Tenant
from loadtests.rig.waiting import until, within_one_window

pytestmark = pytest.mark.long

COUNT = 2
LABELS = sorted(["code", "model", "process", "protocol", "status"])


@pytest.fixture
def h(database_url: str, tmp_path: Path) -> Iterator[Deployment]:
    """A deployment whose gateway is several processes."""
    with deployment(database_url, tmp_path, processes=COUNT) as built:
        yield built


@pytest.fixture(scope="module")
def together(postgres: PostgresForTests) -> Iterator[Deployment]:
    """One such deployment for the tests after which its processes are those that they were."""
    with shared_deployment(postgres, processes=COUNT) as built:
        yield built


def workers(h: Deployment) -> set[int]:
    """The process ids of the workers."""
    children = Path(f"/proc/{h.gateway.popen.pid}/task/{h.gateway.popen.pid}/children")
    return {int(pid) for pid in children.read_text(encoding="ascii").split()}


def readiness(h: Deployment) -> int:
    """The status of `/readyz`."""
    return Admin(h.gateway.admin_url).get("/readyz").status


def test_gateway_says_that_it_has_no_recorder_and_what_the_database_refuses(
    postgres: PostgresForTests, tmp_path: Path
) -> None:
    (tmp_path / "var").mkdir()
    (tmp_path / "var" / "recorder").write_text("no folder", encoding="utf-8")
    with postgres.database() as url, deployment(url, tmp_path, processes=2) as h:
        reply = Admin(h.gateway.admin_url).get("/readyz")
        assert (reply.status, reply.json) == (
            200,
            {"status": "ok", "recorder": "off: process 0, 1"},
        )
        assert h.client.chat().status == 200
        assert set(h.metrics("gw_recorder_up").values()) == {0.0}

        def told() -> str | None:
            reply = Admin(h.gateway.admin_url).get("/readyz")
            return reply.json.get("database") if reply.status == 503 else None

        with rights_revoked(tmp_path, url):  # of any process
            found = until(told, what="a word on the database")
            assert found.startswith("refuses with 42501")  # and where, if a function was refused


def calls_by_process(h: Deployment) -> dict[str, float]:
    """Finished calls as each process counts them; the process is the last but one label."""
    found: dict[str, float] = {}
    for values, value in Admin(h.gateway.admin_url).page().series("gw_calls_total").items():
        process = values[LABELS.index("process")]
        found[process] = found.get(process, 0) + value
    return found


def test_processes_share_the_port_and_the_wallet(h: Deployment) -> None:
    tenant = h.tenant()
    left = [tenant.client.remaining_nano_usd()]
    while len(calls_by_process(h)) < COUNT:  # the kernel deals out connections by their hash
        for _ in range(5):
            reply = tenant.client.chat()
            assert reply.status == 200
            # Whichever process is asked knows of it.
            left.append(tenant.client.remaining_nano_usd())
            assert len(tenant.client.get(f"/v1/logs?ref={reply.trace}").json["data"]) == 1
        assert len(left) < 500
    assert len({before - after for before, after in pairwise(left)}) == 1
    request = len(left) - 1
    until(lambda: sum(calls_by_process(h).values()) == request, what="every call counted once")
    assert len(h.rows(tenant)) == request
    assert readiness(h) == 200


def test_process_that_dies_is_replaced_and_its_calls_are_settled(h: Deployment) -> None:
    tenant = h.tenant()
    with tenant.client.begin_chat(stream=True, sim={"endless": True, "delay_event_ms": 10}) as call:
        call.read_until(b"data:")
        before = workers(h)
        for pid in before:
            os.kill(pid, signal.SIGKILL)
        until(lambda: len(workers(h) - before) == COUNT, what="all replaced")
    until(lambda: readiness(h) == 200, what="ready again")
    until(lambda: [row["status"] for row in h.rows(tenant)] == ["interrupted"], what="its row")
    assert h.held_nano_usd(tenant) == 0
    assert tenant.client.chat().status == 200
    page = Admin(h.gateway.admin_url).page()
    assert page.total("gw_process_restarts_total") == COUNT
    assert page.total("gw_processes_running") == COUNT


def test_process_that_hangs_is_replaced_and_its_calls_are_settled(h: Deployment) -> None:
    h.gateway.terminate()
    h.write(worker_silence_seconds=2)
    h.start()
    tenant = h.tenant()
    with ExitStack() as calls:
        for _ in range(8):  # the kernel deals them out
            call = calls.enter_context(
                tenant.client.begin_chat(stream=True, sim={"endless": True, "delay_event_ms": 10})
            )
            call.read_until(b"data:")
        before = workers(h)
        hung = min(before)
        os.kill(hung, signal.SIGSTOP)
        until(lambda: hung not in workers(h), what="its end")
        until(lambda: len(workers(h) - before) == 1, what="its replacement")
        assert workers(h) & before == before - {hung}  # the other one was heard
    until(lambda: readiness(h) == 200, what="ready again")
    until(lambda: h.held_nano_usd(tenant) == 0, what="every call settled")
    assert {row["status"] for row in h.rows(tenant)} == {"interrupted"}
    assert h.event("process_hung")["pid"] == hung
    assert Admin(h.gateway.admin_url).page().total("gw_processes_hung_total") == 1


def test_reload_reaches_every_process(together: Deployment) -> None:
    together.write(
        models=[
            *together.settings["models"],
            model("newcomer", together.settings["channels"][0]["id"]),
        ]
    )
    together.gateway.popen.send_signal(signal.SIGHUP)
    together.gateway.wait_for_line(r'"gw.processes".*"configuration_reloaded"')
    tenant = together.tenant()
    for _ in range(4 * COUNT):
        listed = tenant.client.get("/v1/models").json
        assert "newcomer" in [one["id"] for one in listed["data"]]


def test_end_waits_for_no_reload(h: Deployment) -> None:
    first, other = sorted(workers(h))
    os.kill(first, signal.SIGSTOP)  # it takes no configuration
    h.gateway.popen.send_signal(signal.SIGHUP)
    h.gateway.popen.send_signal(signal.SIGTERM)
    until(lambda: other not in workers(h), what="the end of the other one")
    os.kill(first, signal.SIGCONT)
    assert h.gateway.popen.wait(30) == 0
    assert not h.events("process_died")


def test_streams_outlive_a_parent_that_is_killed_and_its_processes_do_not(h: Deployment) -> None:
    """As under `KillMode=control-group`, which sends SIGTERM to what the parent leaves behind."""
    pids, tenant = workers(h), h.tenant()
    with tenant.client.begin_chat(stream=True, sim={"events": 20, "pause": 2}) as call:
        h.upstream.wait(paused=1)
        h.gateway.popen.kill()
        for pid in pids:
            os.kill(pid, signal.SIGTERM)
        until(lambda: tenant.client.outcome() in ("refused", "closed"), what="no new connection")
        h.upstream.resume()
        assert outcome(call, is_stream=True) == "200"
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), what="no orphan left")
    assert "success" in {row["status"] for row in h.rows(tenant)}
    assert h.query("SELECT FROM holds") == []


def statuses(h: Deployment, tenant: Tenant, count: int, **body: Any) -> Counter[int]:
    """So many calls at once, each over a connection of its own; how often each status came."""

    async def main() -> list[Response]:
        calls = (chat(h.gateway.url, tenant.key, **body) for _ in range(count))
        return await asyncio.gather(*calls)

    return Counter(one.status for one in asyncio.run(main()))


def test_minute_of_an_account_is_one_over_the_processes(together: Deployment) -> None:
    tenant = together.tenant(rpm=40, nano_usd=100 * NANO_PER_USD)
    assert statuses(together, tenant, 100, sim={"events": 2}) == {200: 40, 429: 60}
    until(lambda: len(calls_by_process(together)) == COUNT, what="calls in both processes")
    refused = tenant.client.chat()
    assert refused.refusal == (429, "rate_limit_error", "rate_limit_exceeded")
    assert refused.headers["x-ratelimit-remaining-requests"] == "0"
    assert "limits_per_process" not in together.gateway.log()


def test_refused_calls_have_so_many_rows_over_the_processes(together: Deployment) -> None:
    tenant = together.tenant()
    count = REFUSALS_RECORDED_MAX * 3 // 2
    before = Admin(together.gateway.admin_url).page().total("gw_refusals_unrecorded_total")

    def refuse(sent: int) -> None:
        with closing(tenant.client.kept()) as client:
            for _ in range(sent):
                assert client.chat(b"no JSON").status == 400

    # Connections of their own, so that both processes are asked.
    with ThreadPoolExecutor(10) as some:
        list(some.map(refuse, [count // 10] * 10))

    def left_out() -> int:
        page = Admin(together.gateway.admin_url).page()
        return round(page.total("gw_refusals_unrecorded_total") - before)

    until(lambda: len(together.rows(tenant)) + left_out() == count, what="a row or a count of each")
    # A few more while the keeper's word was under way.
    written = len(together.rows(tenant))
    assert REFUSALS_RECORDED_MAX <= written <= REFUSALS_RECORDED_MAX + 2 * REFUSALS_ASKED_MAX


def test_rate_of_the_call_logs_is_one_over_the_processes(together: Deployment) -> None:
    def ask() -> list[Response]:
        """The answers over connections of their own, so that both are asked."""
        client = together.tenant().client
        return [client.get("/v1/logs") for _ in range(80)]

    replies = within_one_window(ask)
    left = [reply.headers["x-ratelimit-remaining"] for reply in replies[:60]]
    assert left == [str(number) for number in reversed(range(60))]
    assert {reply.refusal[2] for reply in replies[60:]} == {"logs_rate_limited"}
