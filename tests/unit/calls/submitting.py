"""Submissions of films in the world of this room: channels that take them, and what they say.

async with stage(a=[TAKEN]) as s:
    told = await s.submit()
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, cast

from msgspec import Raw
from msgspec.structs import replace

from actors.jobs.schedule import Schedule
from actors.jobs.service import Jobs, new_job_id
from actors.jobs.upstreams import UpstreamJob
from actors.store.database import Database
from actors.store.errors import StoreUnavailable
from actors.wallet.messages import Outcome
from actors.wallet.piece_prices import MediaPrice
from channels.media.model import MIB
from channels.media.requests import ContentItem, GeneralVideo
from channels.prices import PriceSpec
from gw.calls.detached import DetachedTasks
from gw.calls.exchange_upstream import ExchangeUpstream
from gw.calls.jobs import JobSubmit
from gw.calls.media_calls import Pin, SubmitCall
from gw.calls.offloading import LargeSubmission
from gw.http.drain import RequestsInFlight
from tests.support.calls import in_force, job_call
from tests.support.fake_ledger import FakeLedger
from tests.support.figures import samples
from tests.support.specs import make_model
from tests.unit.calls.world import (
    CallResult,
    RecordingWriter,
    Script,
    World,
    in_order,
    response_of,
    world,
)
from tests.unit.images.stage import claim_of

SUBMIT_SECONDS = 5.0
SECONDS = 5
HELD = 500_000_000  # nano-USD: five seconds at 0.1 USD
RESPONSE = b'{"id":"vid","status":"queued"}'
TAKEN = response_of(b'{"id": "up_1"}')


class SubmittingWriter(RecordingWriter):
    """A client that may leave while its submission goes on."""

    def __init__(self) -> None:
        super().__init__()
        self.is_left_alone = False
        self.ends_alone: list[Exception | None] = []

    def detached(self) -> None:
        self.is_left_alone = True

    def ended_detached(self, error: Exception | None) -> None:
        self.ends_alone.append(error)


@dataclass
class Stage:
    """The world, what submits in it, and the verbs of a test."""

    world: World
    submits: JobSubmit
    jobs: Jobs
    in_flight: RequestsInFlight
    database: LeavingDatabase
    cancelled: list[UpstreamJob] = field(default_factory=list)

    def prepare(
        self,
        *,
        key: str | None = None,
        pins: Sequence[Pin] = (),
        request: GeneralVideo | None = None,
        large: LargeSubmission | None = None,
    ) -> SubmitCall:
        """A call as an endpoint makes it; `key` is the idempotency key that it claims."""
        w = self.world
        price = MediaPrice.of(w.model)
        facts = replace(w.facts("videos"), job_id=new_job_id("video"))
        call = job_call(
            facts,
            w.model,
            self.jobs.new_job("video", price=price, quantity=SECONDS * 1000),
            hold_nano_usd=price.cost_nano_usd(SECONDS * 1000),
            body=RESPONSE,
            cap_nano_usd=None,
            request=request or film(),
            started=w.clock.monotonic(),
            pins=tuple(pins),
            large=large,
            idempotency=None if key is None else claim_of(key),
        )
        w.calls.append(call)
        return call

    def begin(self, call: SubmitCall, writer: SubmittingWriter) -> None:
        """Run a submission in a task of its own, as a handler does."""
        writer.task = asyncio.ensure_future(self.submits.run_detached(call, writer))

    async def submit(self, **message: Any) -> CallResult:
        """One submission from its beginning to its answer."""
        call, writer = self.prepare(**message), SubmittingWriter()
        self.begin(call, writer)
        result = await self.world.end(call, writer)
        assert result.row is None or result.logged["task_id"] == call.facts.job_id
        return result

    def take_for_dead(self, call: SubmitCall) -> None:
        """Another process settles the call, as recovery does."""
        outcome = Outcome(
            status="interrupted",
            cost_nano_usd=0,
            created_at=0.0,
            latency_ms=1,
            error_code="gateway_restarted",
        )
        self.world.wallets.recover(call.facts, outcome)

    def unknown(self, channel: str) -> int:
        """How often the outcome on a channel was told to be unknown."""
        counts = samples(self.world.metrics, "gw_task_submit_unknown_total")
        return int(counts.get(f'{{channel="{channel}"}}', 0))

    def state(self, reported_or_call: Any) -> tuple[str, tuple[str, str] | None]:
        """A job's state, and its channel and id there."""
        call = getattr(reported_or_call, "call", reported_or_call)
        job = self.world.ledger.jobs.rows[call.facts.job_id]
        return job.state, job.upstream


class LeavingDatabase:
    """The ledger's, as jobs see it; `away` is for how many statements it cannot be reached."""

    def __init__(self, ledger: FakeLedger) -> None:
        self._ledger = ledger
        self.away = 0

    async def fetch_all(self, sql: str, params: Any = ()) -> list[tuple[Any, ...]]:
        if self.away:
            self.away -= 1
            raise StoreUnavailable("away")
        return await self._ledger.fetch_all(sql, params)


class _Cancels:
    def __init__(self, into: list[UpstreamJob]) -> None:
        self._into = into

    async def cancel(self, job: UpstreamJob) -> bool:
        self._into.append(job)
        return True


def film(**message: Any) -> GeneralVideo:
    """A film of a boat."""
    text = ContentItem("text", "a boat", Raw(b'{"type":"text","text":"a boat"}'))
    usual: dict[str, Any] = {"model": "m", "content": (text,), "duration": SECONDS}
    return GeneralVideo(**{**usual, **message})


def portrait(**message: Any) -> GeneralVideo:
    """A film of a real person, whose picture is registered first."""
    raw = Raw(b'{"type":"image_url","image_url":{"url":"https://pictures.example/me.png"}}')
    image = ContentItem("image_url", "https://pictures.example/me.png", raw)
    return film(content=(*film().content, image), registers_images=True, **message)


@asynccontextmanager
async def stage(
    *, balance: int = 10**9, seconds: float = SUBMIT_SECONDS, **scripts: Sequence[Script]
) -> AsyncIterator[Stage]:
    """Channels `a`, `b`, … in this order of priority, and the film model `m` on them.

    Jobs that are open when it is left end there, so that nothing else may be left behind.
    """
    channels = in_order(scripts, protocols=frozenset({"videos"}))
    model = make_model(
        *scripts, endpoint_type="videos_generations", price=PriceSpec(per_second=Decimal("0.1"))
    )
    async with world(scripts, balance=balance, channels=channels, model=model) as w:
        database = LeavingDatabase(w.ledger)
        jobs = Jobs(
            database=cast(Database, database),
            schedule=Schedule(first_seconds=2.0, factor=1.5, max_seconds=15.0),
            deadline_seconds=86_400.0,
            chance=lambda: 0.5,
            clock=w.clock,
            metrics=w.metrics,
        )
        in_flight, cancelled = RequestsInFlight(), list[UpstreamJob]()
        submits = JobSubmit(
            billing=w.use_cases.billing,
            channels=w.channels,
            upstream=ExchangeUpstream(http=w.http, body_bytes_max=MIB, clock=w.clock),
            upstreams=_Cancels(cancelled),
            jobs=jobs,
            detached=DetachedTasks(in_flight),
            current=in_force(w.redactor),
            total_seconds=seconds,
        )
        yield Stage(w, submits, jobs, in_flight, database, cancelled)
        await w.settled()
        for call in w.calls:
            job = w.ledger.jobs.rows.get(call.facts.job_id or "")
            if job is not None and job.state == "queued":
                ended = Outcome(status="error", cost_nano_usd=0, created_at=0.0, latency_ms=1)
                w.wallets.settle(call.facts, ended)
        assert not len(in_flight)
