"""Jobs that have come to their end, by way of the ledger."""

import time

from actors.jobs import store as jobs
from actors.jobs.settlement import settlement_of
from actors.jobs.state_machine import End
from channels.media.replies import TaskError
from channels.media.results import VideoResult
from tests.integration.actors.process import Process
from tests.integration.money import ACCOUNT
from tests.support.jobs import acceptance


async def ended(mine: Process, job_id: str, end: End, *, channel: str = "one") -> None:
    """A job begins, is accepted by a channel, and ends so."""
    facts = await mine.hold(500_000_000, job_id=job_id)
    taken = acceptance(channel_id=channel)
    assert await jobs.accept(mine.database, facts, taken, pause_seconds=60.0)
    found = await jobs.read_open(mine.database, job_id)
    assert found is not None
    outcome, job_end = settlement_of(
        found,
        end,
        now=time.time(),
        by="proc",
        redact=str,
        content_link=lambda job, _: f"https://gateway.example/{job.id}",
        upstream_cost=lambda *_: None,
    )
    mine.wallets.settle(facts, outcome, job_end=job_end)
    await mine.wallets.settled(ACCOUNT)


def made(url: str | None) -> End:
    """A film of five seconds."""
    return End(state="succeeded", result=VideoResult(url=url), seconds_ms=5000)


def failed() -> End:
    return End(state="failed", error=TaskError(code="blocked", message="No."))
