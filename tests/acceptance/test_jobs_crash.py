"""kill -9 while hundreds of jobs are polled, and within submits of every kind: each ends once, with
one row, paid or refunded.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from actors.clock import SystemClock
from actors.jobs import store
from actors.jobs.service import new_job_id
from actors.process import ProcessIdentity, register
from actors.store.database import Database
from actors.wallet.batch import Batch, apply
from actors.wallet.messages import CallFacts, Hold
from loadtests.rig.client import Client
from loadtests.rig.deployment import Deployment, channel, deployment
from loadtests.rig.tenants import Tenant
from loadtests.rig.upstream import key_of
from loadtests.rig.waiting import until
from tests.acceptance import sounds
from tests.acceptance.sounds import LISTS, SUBMITS
from tests.support.jobs import acceptance, new_job

pytestmark = pytest.mark.long

SECONDS = 4
FILM = {"model": "film", "content": [{"type": "text", "text": "a boat"}], "duration": SECONDS}
HOLD_NANO_USD = 400_000_000


def submitted(simulator_url: str, channel: str, **sim: Any) -> str:
    """The upstream's id of a film of four seconds that it has begun."""
    client = Client(simulator_url, key_of(channel))
    task: str = client.send("POST", "/v1/videos/generations", {**FILM, "sim": sim}).json["id"]
    return task


async def seed(
    url: str, account_id: str, key_id: str, channel: str, upstream_ids: Sequence[str]
) -> list[str]:
    """Make a job of each, at 0.1 USD a second and due at once; return their ids."""
    job_ids = []
    async with Database(url) as database:
        identity = ProcessIdentity(f"proc_{uuid4().hex[:20]}", "elsewhere", "boot", 1)
        await register(database, identity)
        for upstream_id in upstream_ids:
            facts = CallFacts(
                call_id=uuid4(),
                account_id=account_id,
                key_id=key_id,
                protocol="videos",
                model="film",
                submitted_at=SystemClock().now(),
                job_id=new_job_id("video"),
            )
            job = new_job(quantity=SECONDS * 1000)
            hold = Hold(facts=facts, amount_nano_usd=HOLD_NANO_USD, job=job)
            applied = await apply(database, identity.id, Batch(holds=[hold]))
            assert (applied.refused, applied.taken) == ({}, {})
            accepted = acceptance(upstream_id, channel_id=channel)
            assert await store.accept(database, facts, accepted, pause_seconds=0.0)
            assert facts.job_id is not None
            job_ids.append(facts.job_id)
    return job_ids


JOBS = 200
MONEY = 1_000_000_000_000
SETTINGS: dict[str, Any] = {
    "channels": [channel("film", protocols=["chat", "videos"])],
    "models": [],
    "tasks": {"poll_first": 0.1, "poll_max": 0.5, "lease": 2},
}


def begin(h: Deployment) -> tuple[Tenant, list[str]]:
    """So many jobs that end in the next seconds: three in four of them in a film."""
    tenant = h.tenant(nano_usd=MONEY)
    upstream_ids = [
        submitted(
            h.simulator.url,
            "film",
            task_seconds=number % 7,
            **({"task_error": {"code": "blocked", "message": "no"}} if number % 4 == 3 else {}),
        )
        for number in range(JOBS)
    ]
    (key,) = h.query("SELECT id FROM keys WHERE account_id = %s", tenant.account)
    url = h.settings["database_url"]
    return tenant, asyncio.run(seed(url, tenant.account, key["id"], "film", upstream_ids))


def have_ended(h: Deployment, least: int) -> None:
    """Wait until so many jobs have ended."""

    def counted() -> bool:
        (found,) = h.query("SELECT count(*) FROM jobs WHERE ended_at IS NOT NULL")
        return bool(found["count"] >= least)

    until(counted, what=f"{least} jobs that have ended")


def proved(h: Deployment, tenant: Tenant, job_ids: list[str]) -> None:
    """Every job has its end, its row and its money, once."""
    rows = h.query("SELECT task_id, status, cost_nano_usd FROM call_logs ORDER BY id")
    assert sorted(row["task_id"] for row in rows) == sorted(job_ids)
    assert Counter(row["status"] for row in rows) == {"success": JOBS * 3 // 4, "error": JOBS // 4}
    assert {row["cost_nano_usd"] for row in rows} == {0, HOLD_NANO_USD}
    paid = JOBS * 3 // 4 * HOLD_NANO_USD
    (account,) = h.query("SELECT * FROM accounts WHERE id = %s", tenant.account)
    assert (account["balance_nano_usd"], account["held_nano_usd"]) == (MONEY - paid, 0)
    states = h.query("SELECT state::text, count(*) FROM jobs GROUP BY state")
    assert {row["state"]: row["count"] for row in states} == {
        "succeeded": JOBS * 3 // 4,
        "failed": JOBS // 4,
    }


def test_process_killed_again_and_again_ends_every_job_once(
    database_url: str, tmp_path: Path
) -> None:
    with deployment(database_url, tmp_path, is_funded=False, **SETTINGS) as h:
        tenant, job_ids = begin(h)
        for least in (10, 80, 150):
            have_ended(h, least)
            h.gateway.kill()
            h.gateway.close()
            h.start()
        have_ended(h, JOBS)
        proved(h, tenant, job_ids)


def test_job_is_cancelled_while_nobody_serves_and_stays_so(
    database_url: str, tmp_path: Path
) -> None:
    with deployment(database_url, tmp_path, is_funded=False, **SETTINGS) as h:
        tenant = h.tenant(nano_usd=MONEY)
        upstream_id = submitted(h.simulator.url, "film", task_seconds=3600)
        (key,) = h.query("SELECT id FROM keys WHERE account_id = %s", tenant.account)
        h.gateway.kill()
        h.gateway.close()
        (job_id,) = asyncio.run(
            seed(database_url, tenant.account, key["id"], "film", [upstream_id])
        )
        assert h.gw("tasks", "show", job_id)["upstream_id"] == upstream_id
        assert h.gw("tasks", "cancel", job_id) == {
            "id": job_id,
            "status": "cancelled",
            "refunded_usd": "0.4",
        }
        requested = h.upstream.requests(1)[0]
        assert requested["method"] == "DELETE"
        assert requested["path"] == f"/v1/videos/generations/{upstream_id}"
        h.start()
        assert h.gw("tasks", "list", "--status", "cancelled")["tasks"][0]["id"] == job_id
        assert h.balance_nano_usd(tenant) == MONEY


def test_kill_within_submits_is_refunded_and_none_is_sent_again(
    database_url: str, tmp_path: Path
) -> None:
    with deployment(database_url, tmp_path, is_funded=False, **sounds.SETTINGS) as h:
        tenant = h.tenant(nano_usd=2 * 10**9)
        h.upstream.fault("one", hang="headers")
        calls = [
            tenant.client.begin("POST", path, body, headers={"Idempotency-Key": kind})
            for kind, (path, body) in SUBMITS.items()
        ]
        h.upstream.wait(active=len(calls))
        h.gateway.kill()
        for call in calls:
            with pytest.raises(OSError):
                call.response()
        h.gateway.close()
        h.start()
        client = Client(h.gateway.url, tenant.key)
        until(lambda: len(h.rows(tenant)) == len(calls), what="a row for each")
        assert {(row["status"], row["cost_nano_usd"]) for row in h.rows(tenant)} == {
            ("interrupted", 0)
        }
        assert {row["unit_count"] for row in h.rows(tenant)} == {0}
        assert h.spent_nano_usd(tenant, 2 * 10**9) == 0
        assert h.upstream.requested("one", "two") == [len(calls), 0]
        for kind, name in LISTS.items():
            assert client.get(SUBMITS[kind][0]).json == {name: []}
