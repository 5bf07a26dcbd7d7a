"""One submission of a job: hold and job in one transaction, an upstream that takes it, a response.

Whatever is made, and without HTTP. From the moment in which an upstream has taken it the job is
polled and settled by any process (`actors/jobs`), and its call is over. A client that leaves stops
nothing: the submit goes on, and the client finds the job in its list.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from actors.directory import ChannelDirectory
from actors.jobs.ending import CancelsJobs
from actors.jobs.job import Acceptance
from actors.jobs.jobs import Jobs
from actors.wallet.claims import ClaimEnd, KeptResponse
from channels.media.model import TaskKind
from channels.media.replies import Accepted
from channels.redact import Redactor
from gw.calls.billing import Billing
from gw.calls.exchange_upstream import ExchangeUpstream, Made
from gw.calls.job import NOTHING, JobBill, JobCall
from gw.calls.outcome import (
    attempt_row,
    shown,
)
from gw.calls.settlement import Settlement
from gw.calls.submit_attempts import SubmitAttempts
from gw.calls.unattended import Attendant, Nobody, Unattended
from gw.errors.table import from_upstream

JSON = "application/json"


@dataclass(frozen=True, slots=True)
class _Orphan:
    """A job at its upstream that no process will poll (`UpstreamJob`)."""

    kind: TaskKind
    channel_id: str
    wire: str
    upstream_id: str


class JobSubmit:
    """Submits jobs. Of its own it has their time."""

    def __init__(
        self,
        *,
        billing: Billing,
        channels: ChannelDirectory,
        upstream: ExchangeUpstream,
        upstreams: CancelsJobs,
        jobs: Jobs,
        unattended: Unattended,
        redactor: Callable[[], Redactor],
        total_seconds: float,
    ) -> None:
        self._billing = billing
        self._upstreams = upstreams
        self._jobs = jobs
        self._unattended = unattended
        self._redactor = redactor
        self._attempts: SubmitAttempts[JobCall] = SubmitAttempts(
            channels=channels,
            upstream=upstream,
            unknown=lambda call, channel_id: jobs.submit_unknown(call.facts, channel_id),
            redactor=redactor,
            total_seconds=total_seconds,
        )

    def __repr__(self) -> str:
        return f"<JobSubmit {self._attempts!r}>"

    async def run(self, call: JobCall, writer: Attendant) -> None:
        """Submit a job and send its response.

        Raises GatewayError, and KeyTaken when the idempotency key of the call is not free.
        """
        await self._unattended.run(self._submit(call, writer), writer)
        writer.begin(JSON, {})
        writer.send(call.response_body)

    async def _submit(self, call: JobCall, writer: Attendant) -> None:
        order = self._attempts.order(call)
        async with await self._billing.hold(
            call,
            JobBill(call.job.price),
            Nobody(writer),
            amount_nano_usd=call.hold_nano_usd,
            cheaper=call.cheaper,
            submission=call.submission,
            job=call.job,
        ) as settlement:
            made = await self._attempts.made(call, settlement, order)
            await self._hand_over(call, settlement, made)

    async def _hand_over(self, call: JobCall, settlement: Settlement[JobBill], made: Made) -> None:
        """The job is its upstream's: the response is kept, the hold waits for the job's end."""
        candidate, reply = made.candidate, made.reply
        assert isinstance(reply, Accepted), reply
        redactor = self._redactor()
        failed = settlement.attempts.failed
        acceptance = Acceptance(
            channel_id=candidate.channel_id,
            wire=candidate.protocol,
            upstream_model=candidate.upstream_model,
            upstream_id=reply.upstream_id,
            attempts=tuple(attempt_row(one, redactor) for one in failed),
            detail=settlement.receipt.finished(NOTHING, settlement.attempts.status, redactor),
        )

        async def accept(claim_end: ClaimEnd) -> bool:
            return await self._jobs.accepted(call.facts, acceptance, claim_end=claim_end)

        headers = (("Content-Type", JSON),)
        kept = KeptResponse(status=200, headers=headers, body=call.response_body)
        if await settlement.hand_over(accept, kept):
            return
        orphan = _Orphan(call.job.kind, candidate.channel_id, candidate.protocol, reply.upstream_id)
        await self._upstreams.cancel(orphan)
        settlement.fail(shown("interrupted", from_upstream(502, _TAKEN_FOR_DEAD)))


_TAKEN_FOR_DEAD = "The gateway was interrupted while the task was submitted. Nothing was charged."
