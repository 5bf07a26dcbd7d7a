"""PostgreSQL answers and refuses, for its own state: an outage, in which no answer is free."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from loadtests.rig.client import Client
from loadtests.rig.deployment import Deployment, channel, deployment, model
from loadtests.rig.postgres import running_postgres
from loadtests.rig.refusals import REFUSALS
from loadtests.rig.response import Response
from loadtests.rig.scrape import Admin
from loadtests.rig.waiting import until

pytestmark = pytest.mark.long

CALLS = 20
# What says that a part of the gateway took it for its own fault.
FAULTS = ("child_died", "supervisor_gave_up", "ledger_batch_failed", "hold_leaked")


@pytest.fixture
def h(data_dir: Path, tmp_path: Path) -> Iterator[Deployment]:
    settings: dict[str, Any] = {"channels": [channel("one")], "models": [model("sim-model", "one")]}
    with (
        running_postgres(data_dir) as postgres,
        postgres.database() as url,
        deployment(url, tmp_path, **settings) as built,
    ):
        yield built


@pytest.mark.parametrize("how", REFUSALS)
def test_database_that_refuses_is_away_and_no_answer_is_free(
    h: Deployment, data_dir: Path, how: str
) -> None:
    admin, warm = Admin(h.gateway.admin_url), h.client
    cold = h.tenant().client
    h.verify()  # meanwhile the gateway hears that there is a new key, and believes nothing older
    assert cold.chat().status == 200  # the key is known from here on
    replies = [warm.chat() for _ in range(5)]  # it calls often, and is leased
    with REFUSALS[how](data_dir, h.settings["database_url"]):
        replies += [warm.chat() for _ in range(CALLS)]
        refused = cold.chat()  # has no lease
        assert refused.status == 503, refused
        assert int(refused.headers["retry-after"]) >= 1
        until(lambda: admin.get("/readyz").status == 503, what="a word to the load balancer")
        page = admin.page_when(
            lambda page: page.total("gw_database_refusals_total") > 0, what="the metric"
        )
        assert page.total("gw_ledger_retries_total") > 0
        assert admin.get("/healthz").status == 200
    until(lambda: admin.get("/readyz").status == 200, what="the database back")
    replies += [response_to(warm), response_to(cold)]

    until(lambda: h.verify()["counts"]["open_holds"] == 0, what="no hold")
    whole = {reply.trace for reply in replies if reply.status == 200}
    assert len(whole) > CALLS // 2  # out of the lease
    # Rows are written when the writer tries again, and no client waits for them.
    expected = {str(UUID(trace)) for trace in (*whole, refused.trace)}
    until(lambda: expected <= {row["request_id"] for row in rows_of(h)}, what="a row of each call")
    rows = rows_of(h)
    charged = {row["request_id"].replace("-", "") for row in rows if row["status"] == "success"}
    assert whole < charged  # and the first call of the cold account
    assert {row["cost_nano_usd"] > 0 for row in rows if row["status"] == "success"} == {True}
    assert not [line for line in h.gateway.lines if any(fault in line for fault in FAULTS)]
    assert any('"database_refused"' in line for line in h.gateway.lines)
    assert h.gateway.popen.poll() is None


def rows_of(h: Deployment) -> list[dict[str, Any]]:
    return h.query("SELECT request_id::text, status, cost_nano_usd FROM call_logs")


def response_to(client: Client) -> Response:
    """Return the answer to a call, once there is one: the ledger finds the database by itself."""

    def try_again() -> Response | None:
        reply = client.chat()
        return reply if reply.status == 200 else None

    return until(try_again, what="a call that is answered")
