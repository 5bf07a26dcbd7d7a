"""Submits media jobs: hold and job in one transaction, an upstream that accepts, a response.

Independent of HTTP and of the kind of job. Once an upstream has accepted it, any process polls and
settles the job (`actors/jobs`), and the call is over. A disconnect of the client cancels nothing:
the client finds the job in its list.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct

from actors.jobs.ending import CancelsJobs
from actors.jobs.job import Acceptance
from actors.jobs.service import Jobs
from actors.wallet.claims import ClaimEnd
from channels.media.model import TaskKind
from channels.media.replies import Accepted
from gw.calls.bills import NOTHING, Bill
from gw.calls.endings import attempt_row, shown
from gw.calls.media import Media, kept
from gw.calls.media_calls import Delivery, SubmitCall, SubmitResult
from gw.calls.settlement import Settlement
from gw.upstream_errors import from_upstream


class _Orphan(Struct, frozen=True):
    """A job at its upstream that no process will poll (`UpstreamJob`)."""

    kind: TaskKind
    channel_id: str
    upstream_protocol: str
    upstream_id: str


class JobSubmit(Media[SubmitCall]):
    """Submits jobs, and hands the accepted ones over to polling."""

    def __init__(self, *, upstreams: CancelsJobs, jobs: Jobs, **media: Any) -> None:
        """`media` are the arguments of `Media`."""
        super().__init__(
            unknown=lambda call, channel_id: jobs.submit_unknown(call.facts, channel_id), **media
        )
        self._upstreams = upstreams
        self._jobs = jobs

    async def _finish(
        self, call: SubmitCall, settlement: Settlement[Bill], result: Delivery | SubmitResult
    ) -> Delivery:
        """Store the job as accepted and keep its response; the hold stays until the job ends."""
        assert isinstance(result, SubmitResult), result
        candidate, reply = result.candidate, result.reply
        assert isinstance(reply, Accepted), reply
        assert call.job is not None
        redactor = self._current.redactor
        attempts = settlement.attempts
        acceptance = Acceptance(
            channel_id=candidate.channel_id,
            upstream_protocol=candidate.protocol,
            upstream_model=candidate.upstream_model,
            upstream_id=reply.upstream_id,
            attempts=tuple(attempt_row(one, redactor) for one in attempts.failed),
            detail=settlement.observer.receipt(NOTHING, attempts.status, redactor),
        )

        async def accept(claim_end: ClaimEnd) -> bool:
            return await self._jobs.accepted(call.facts, acceptance, claim_end=claim_end)

        delivery = await call.deliver(result)
        if not await settlement.hand_over(accept, kept(delivery)):
            kind, channel_id = call.job.kind, candidate.channel_id
            orphan = _Orphan(kind, channel_id, candidate.protocol, reply.upstream_id)
            await self._upstreams.cancel(orphan)
            settlement.fail(shown("interrupted", from_upstream(502, _TAKEN_FOR_DEAD)))
        return delivery


_TAKEN_FOR_DEAD = "The gateway was interrupted while the task was submitted. Nothing was charged."
