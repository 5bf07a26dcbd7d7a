"""What endpoints and commands do with jobs; how each is polled is `poller.py`.

A submission, seen from here:

1. `wallets.hold(Hold(facts=…, job=jobs.new_job(…)))`, with `facts.job_id` from `new_job_id`:
   money is held and the job is there, `submitting`, not shown to its account yet.
2. The request is sent to the upstream, with the job's id as its idempotency key.
3. It accepts: `accepted`, and only then the client gets its response. The call has no
   settlement of its own any more: the end of the job settles it.
4. It does not: `wallets.settle` ends the call, and the job with it, as `failed`. Where it is
   unknown whether it did, `submit_unknown` logs that first; nothing is sent again.

Should the process die before 3, recovery does 4.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol

from actors.clock import Clock
from actors.jobs import job, store
from actors.jobs.schedule import Schedule
from actors.store.database import Database
from actors.store.waits import in_time, until_stored
from actors.wallet.claims import ClaimEnd
from actors.wallet.messages import CallFacts, NewJob
from actors.wallet.piece_prices import MediaPrice
from channels.media.model import TaskKind
from channels.media.results import TaskResult
from metrics.logs import EventLog
from metrics.prometheus import Metrics

PREFIXES: Mapping[TaskKind, str] = MappingProxyType(
    {"video": "vid_", "music": "mus_", "speech": "tts_", "avatar": "ava_"}
)


class Chance(Protocol):
    """A number from [0, 1), another one each time."""

    def __call__(self) -> float: ...


# Puts the links that clients are to have into the results of jobs. Raises StoreUnavailable.
Links = Callable[[Sequence[job.Job]], Awaitable[Sequence[job.Job]]]


async def as_stored(jobs: Sequence[job.Job]) -> Sequence[job.Job]:
    """Links as they are: the upstreams' own."""
    return jobs


def new_job_id(kind: TaskKind) -> str:
    """Make an id: the prefix of the kind and 32 hex digits."""
    return PREFIXES[kind] + uuid.uuid4().hex


class Jobs:
    """The jobs of this gateway. One per process; holds no state of its own."""

    def __init__(
        self,
        *,
        database: Database,
        schedule: Schedule,
        deadline_seconds: float,
        chance: Chance,
        clock: Clock,
        metrics: Metrics,
        links: Links = as_stored,
    ) -> None:
        self._links = links
        self._database = database
        self._schedule = schedule
        self._deadline_seconds = deadline_seconds
        self._chance = chance
        self._clock = clock
        self._metrics = metrics
        self._log = EventLog("actors.jobs")

    # Submissions

    def new_job(
        self,
        kind: TaskKind,
        *,
        price: MediaPrice,
        quantity: int,
        held: int | None = None,
        request: Mapping[str, Any] = MappingProxyType({}),
    ) -> NewJob:
        """What a call is to begin (`NewJob`), with the time that the configuration gives it."""
        return NewJob(
            kind=kind,
            price=price.stated,
            quantity=quantity,
            held=held,
            deadline_seconds=self._deadline_seconds,
            request=dict(request),
        )

    async def accepted(
        self, facts: CallFacts, acceptance: job.Acceptance, *, claim_end: ClaimEnd = None
    ) -> bool:
        """Store what the upstream calls the job of a call, hand its hold over, and have it polled.

        `claim_end` is the new state of its idempotency key, with the response to be kept. Waits for
        a database that is away, however long: an id that is not stored is a job that is lost. So it
        is not to be cancelled by a client who leaves. False when the call has been settled by
        others, who took this process for dead: then the client's error is an unknown outcome, and
        the upstream, as far as it listens, to stop.
        """
        pause = self._schedule.pause_seconds(0, self._chance())
        is_accepted = await until_stored(
            lambda: store.accept(
                self._database, facts, acceptance, pause_seconds=pause, claim_end=claim_end
            ),
            self._clock,
            lambda error: self._log.warning(
                "task_not_stored", task_id=facts.job_id, error=str(error)
            ),
        )
        if is_accepted:
            self._log.info("task_submitted", **_of(facts), channel=acceptance.channel_id)
        else:
            self.submit_unknown(facts, acceptance.channel_id)
        return is_accepted

    def submit_unknown(
        self, facts: CallFacts, channel_id: str, *, task_id: str | None = None
    ) -> None:
        """Log and count that this channel may have taken the job, for the operator who pays for it.

        `task_id` is the id of what is no job: a voice, a script.
        """
        fields = _of(facts) if task_id is None else {**_of(facts), "task_id": task_id}
        self._metrics.tasks.submit_unknown(channel_id)
        self._log.warning("task_submit_unknown", **fields, channel=channel_id)

    # What clients see of them

    async def read(self, account_id: str, kind: TaskKind, job_id: str) -> job.Job | None:
        """A job of an account and of a kind; None for any other. Raises StoreUnavailable."""
        found = await in_time(store.read(self._database, job_id, account_id=account_id))
        if found is None or found.kind != kind:
            return None
        (shown,) = await self._links([found])
        return shown

    async def read_linked(self, job_id: str) -> job.Job | None:
        """The job that a signed link leads to, of any account; None for one that is no more.

        Raises StoreUnavailable.
        """
        found = await in_time(store.read(self._database, job_id, account_id=None))
        if found is None:
            return None
        return await in_time(store.read(self._database, job_id, account_id=found.account_id))

    async def list(
        self,
        account_id: str,
        kind: TaskKind,
        *,
        states: Sequence[job.State] = job.VISIBLE,
        limit: int,
        before: str | None = None,
    ) -> Sequence[job.Job]:
        """An account's jobs in these states, newest first, older than the job `before`.

        Raises StoreUnavailable.
        """
        found = await in_time(
            store.read_of_account(
                self._database, account_id, kind, states=states, limit=limit, before=before
            )
        )
        return await self._links(found)

    async def delete(self, account_id: str, kind: TaskKind, job_id: str) -> bool:
        """Take an ended job from its account's sight, for good; False for an open or unknown one.

        Raises StoreUnavailable.
        """
        return await in_time(store.delete(self._database, job_id, account_id, kind))

    async def renew_result(self, job_id: str, result: TaskResult) -> None:
        """Keep new links of a job that succeeded. Its row stays. Raises StoreUnavailable."""
        await in_time(store.renew_result(self._database, job_id, result))


def _of(facts: CallFacts) -> dict[str, Any]:
    return {"task_id": facts.job_id, "model": facts.model, "account": facts.account_id}
