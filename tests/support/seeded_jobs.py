"""Jobs that an upstream is at work on, put into a database as a process that has submitted them."""

import json
import urllib.request
from collections.abc import Sequence
from typing import Any
from uuid import uuid4

from actors.clock import SystemClock
from actors.jobs import store
from actors.jobs.store import new_job_id
from actors.process import ProcessIdentity, register
from actors.store.database import Database
from actors.wallet.batch import Batch, apply
from actors.wallet.messages import CallFacts, Hold
from tests.support.jobs import acceptance, new_job
from tests.support.upstream import key_of
from tests.support.waiting import PATIENCE_SECONDS

SECONDS = 4
FILM = {"model": "film", "content": [{"type": "text", "text": "a boat"}], "duration": SECONDS}
HOLD_NANO_USD = 400_000_000


def submitted(simulator_url: str, channel: str, **sim: Any) -> str:
    """The upstream's id of a film of four seconds that it has begun."""
    request = urllib.request.Request(
        f"{simulator_url}/v1/videos/generations",
        data=json.dumps({**FILM, "sim": sim}).encode(),
        headers={"Authorization": f"Bearer {key_of(channel)}", "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as response:
        task: str = json.load(response)["id"]
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
