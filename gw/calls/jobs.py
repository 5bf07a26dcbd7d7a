"""One submission of a job: hold and job in one transaction, an upstream that takes it, a response.

Whatever is made, and without HTTP. From the moment in which an upstream has taken it the job is
polled and settled by any process (`actors/jobs`), and its call is over. A client that leaves stops
nothing: the submit goes on, and the client finds the job in its list.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from actors.jobs.ending import CancelsJobs
from actors.jobs.job import Acceptance
from actors.jobs.store import Jobs
from actors.routing import Candidate, ChannelDirectory, Failover, FailoverExhausted, candidates
from actors.wallet.messages import CallFacts, ClaimEnd, KeptResponse, NewJob
from actors.wallet.wallets import Delivered
from channels.errors import UpstreamLost
from channels.media.model import TaskKind
from channels.media.replies import Accepted
from channels.media.requests import Submission as MediaSubmission
from channels.redaction import Redactor
from channels.registry import ModelSpec
from channels.resources import TimeLimits
from gw.calls.bills import Bill, Charged, UnitBill
from gw.calls.call import Client, ResponseWriter
from gw.calls.media import ExchangeUpstream, Made, SubmitCall, dialect_of
from gw.calls.outcome import (
    SUCCESS,
    Ending,
    attempt_row,
    ending_of_failure,
    ending_of_refusal,
    ending_of_unknown,
    shown,
)
from gw.calls.request import LargeSubmission
from gw.calls.settlement import Billing, Settlement
from gw.calls.stream import UpstreamRefusal
from gw.errors import INVALID_REQUEST, GatewayError, from_upstream
from gw.idempotency import Submission
from metrics.logs import EventLog
from metrics.spans import Attributes, CallSpan

# A call that begins a job, as the use-case sees it, and its bill: nothing, until the job ends.
#
# What the job costs is settled when it ends (`actors/jobs/ending.py`), at the price that is fixed
# here.

NOTHING = Charged(cost_nano_usd=0)


@dataclass(frozen=True, slots=True)
class Pin:
    """The one channel that knows what the request names; `param` is the field that names it."""

    channel_id: str
    param: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobCall:
    """A call that has passed every check except money and channels.

    `facts` has the job's id. `hold_nano_usd` is what the job may cost, `cheaper` tells a client
    that is refused for its balance what would cost less. `response_body` is sent once an upstream
    has taken the job: it says nothing that is not known before. `pins` are what its request names
    of a channel's own; `large` is the client's body where `request` is without it.
    """

    facts: CallFacts
    model: ModelSpec
    cap_nano_usd: int | None
    job: NewJob
    hold_nano_usd: int
    cheaper: str
    request: MediaSubmission
    response_body: bytes
    span: CallSpan
    started: float  # monotonic seconds
    pins: tuple[Pin, ...] = ()
    large: LargeSubmission | None = None
    submission: Submission | None = None
    detail: dict[str, Any] = field(default_factory=dict)

    @property
    def job_id(self) -> str:
        """The job's id."""
        assert self.facts.job_id is not None
        return self.facts.job_id

    @property
    def upstream_key(self) -> str:
        """See `SubmitCall`."""
        return self.job_id


class JobBill:
    """The bill of a submission: until its job ends there is nothing to pay."""

    is_complete = True

    def __init__(self, price: Mapping[str, str]) -> None:
        self._price = price

    def __repr__(self) -> str:
        return f"<JobBill {dict(self._price)}>"

    @property
    def terms(self) -> Mapping[str, Any]:
        return {"price": self._price}

    def delivered(self) -> Delivered | None:
        return None

    def charged(self, *, first_byte_seconds: float | None) -> Charged:
        return NOTHING

    def attributes(self, charged: Charged, *, first_byte_seconds: float | None) -> Attributes:
        return {}


# The channels that may make what a call asks for: in which order, and what comes of asking them.
#
# The same for submits of jobs and for what is made while the client waits. Whether another channel
# is asked after a failure is the upstream's `retry`.


class PinnedCall(SubmitCall, Protocol):
    """A call whose request may name what only one channel knows."""

    @property
    def pins(self) -> Sequence[Pin]: ...


B = TypeVar("B", bound=Bill)
C = TypeVar("C", bound=PinnedCall)


class SubmitAttempts(Generic[C]):
    """Asks channels. `unknown` is told of one that may have made what nobody got."""

    def __init__(
        self,
        *,
        channels: ChannelDirectory,
        upstream: ExchangeUpstream,
        unknown: Callable[[C, str], None],
        redactor: Callable[[], Redactor],
        total_seconds: float,
    ) -> None:
        self._channels = channels
        self._upstream = upstream
        self._unknown = unknown
        self._redactor = redactor
        self._limits = TimeLimits(total_seconds)

    def __repr__(self) -> str:
        return f"<SubmitAttempts {self._upstream!r} {self._limits!r}>"

    def order(self, call: C) -> list[Candidate]:
        """The channels to ask. Raises GatewayError where the request names another one's."""
        order = candidates(call.model, call.facts.protocol, self._channels)
        for pin in call.pins:
            order = [one for one in order if one.channel_id == pin.channel_id]
            if not order:
                raise GatewayError(
                    INVALID_REQUEST,
                    f"{pin.param}: the model `{call.model.id}` is not served where this was made.",
                    param=pin.param,
                )
        return [one for one in order if self._makes(call, one)]

    async def made(self, call: C, settlement: Settlement[B], order: Sequence[Candidate]) -> Made:
        """Have a channel make it, or take it. Raises GatewayError; the settlement knows why."""
        settlement.receipt.considered(order)
        attempts = settlement.attempts
        try:
            result = await attempts.first_result(
                self._upstream, call, Failover(order, self._channels), self._limits.begin()
            )
        except FailoverExhausted as failure:
            settlement.fail(self._ending_of(call, failure))
        except asyncio.CancelledError:
            if (channel_id := attempts.abandoned_on) is not None:
                self.abandoned(call, channel_id)
            raise
        if isinstance(result, UpstreamRefusal):
            settlement.fail(ending_of_refusal(result, self._redactor()))
        return result

    def abandoned(self, call: C, channel_id: str) -> None:
        """Report what this channel has made, or may have made, and nobody will get."""
        # As a connection that is lost with the request on it.
        if self._upstream.retry(UpstreamLost()) == "unknown":
            self._unknown(call, channel_id)

    def _makes(self, call: C, candidate: Candidate) -> bool:
        spec = self._channels[candidate.channel_id].spec
        return dialect_of(candidate, spec).makes(call.request)

    def _ending_of(self, call: C, failure: FailoverExhausted) -> Ending:
        if failure.failed and self._upstream.retry(failure.failed[-1].error) == "unknown":
            self._unknown(call, failure.failed[-1].channel_id)
            return ending_of_unknown(failure, self._redactor())
        return ending_of_failure(failure, self._redactor())


# Work that goes on when the client for whom it was begun has left (contract for media §2.7).
#
# It runs in a task of its own. As long as the client is there it is the request that is in flight;
# from then on the work is, by itself, so that a process that is stopped waits for it.


class Attendant(ResponseWriter, Protocol):
    """The client's side of work that may go on without it."""

    def left_alone(self) -> None:
        """The client has left, and the work goes on."""

    def ended_alone(self, error: Exception | None) -> None:
        """Work that was left alone has ended, by this error if it failed."""


class WorkInFlight(Protocol):
    """What a stopping process waits for."""

    def enter(self, request: Work) -> None: ...

    def leave(self, request: Work) -> None: ...


class Nobody:
    """A client that cannot leave."""

    client_gone = False

    def __init__(self, client: Client) -> None:
        self._client = client

    def owns_row(self) -> None:
        self._client.owns_row()


class Work:
    """Work that was left alone; `cut` cancels it."""

    def __init__(self, task: asyncio.Task[None]) -> None:
        self._task = task

    def __repr__(self) -> str:
        return f"<Work {self._task.get_name()}>"

    def cut(self) -> None:
        """End now, because the process ends."""
        self._task.cancel()


class Unattended:
    """Runs work that its client cannot stop. One per process."""

    def __init__(self, in_flight: WorkInFlight) -> None:
        self._in_flight = in_flight
        self._log = EventLog("gw.calls")

    async def run(self, work: Coroutine[Any, Any, None], attendant: Attendant) -> None:
        """Run it to its end, and raise what it raises, as long as the client is there.

        Cancelled by anybody else than a client who leaves, it cancels the work too, and waits for
        its end.
        """
        task = asyncio.create_task(work, name="unattended")
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if not attendant.client_gone:
                task.cancel()
                await asyncio.wait([task])
                if not task.cancelled():
                    task.exception()  # the process ends: nobody is there to be told
            elif task.done():
                self._ended(task, attendant)
            else:
                self._leave_alone(task, attendant)
            raise

    def _leave_alone(self, task: asyncio.Task[None], attendant: Attendant) -> None:
        left = Work(task)
        self._in_flight.enter(left)
        attendant.left_alone()

        def ended(task: asyncio.Task[None]) -> None:
            try:
                self._ended(task, attendant)
            finally:
                self._in_flight.leave(left)

        task.add_done_callback(ended)

    def _ended(self, task: asyncio.Task[None], attendant: Attendant) -> None:
        error = None if task.cancelled() else task.exception()
        attendant.ended_alone(error if isinstance(error, Exception) else None)


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


# One call for what a media upstream makes while the client waits: speech, a voice, a script.
#
# Hold, candidates, attempts, settlement, response, as with images (`media.py`); requests and
# responses of the upstream are the exchanges of `channels/media`.


@dataclass(frozen=True, slots=True)
class Delivery:
    """What the client gets."""

    content_type: str
    body: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class WholeCall:
    """A call that has passed every check except money and channels.

    `deliver` makes the client's response of the result, and keeps what is to be kept of it; should
    it fail, nothing is charged. The rest is as in `JobCall`.
    """

    facts: CallFacts
    model: ModelSpec
    cap_nano_usd: int | None
    bill: UnitBill
    cheaper: str
    request: MediaSubmission
    deliver: Callable[[Made], Awaitable[Delivery]]
    span: CallSpan
    started: float  # monotonic seconds
    pins: tuple[Pin, ...] = ()
    large: None = None
    submission: Submission | None = None
    detail: dict[str, Any] = field(default_factory=dict)

    @property
    def upstream_key(self) -> str:
        """See `SubmitCall`."""
        return self.facts.task_id or self.facts.call_id.hex


class WholeSubmit:
    """Runs calls of one kind. `unknown` gets the channel that may have made a lost result."""

    def __init__(
        self,
        *,
        billing: Billing,
        channels: ChannelDirectory,
        upstream: ExchangeUpstream,
        unknown: Callable[[WholeCall, str], None],
        redactor: Callable[[], Redactor],
        total_seconds: float,
    ) -> None:
        self._billing = billing
        self._attempts: SubmitAttempts[WholeCall] = SubmitAttempts(
            channels=channels,
            upstream=upstream,
            unknown=unknown,
            redactor=redactor,
            total_seconds=total_seconds,
        )

    def __repr__(self) -> str:
        return f"<WholeSubmit {self._attempts!r}>"

    async def run(self, call: WholeCall, writer: ResponseWriter) -> None:
        """Serve a call to its end; a client that leaves stops it.

        Raises GatewayError, and KeyTaken when the idempotency key of the call is not free.
        """
        _send(await self._serve(call, writer), writer)

    async def run_unattended(
        self, call: WholeCall, writer: Attendant, unattended: Unattended
    ) -> None:
        """The same, but that a client who leaves stops nothing."""
        delivered: list[Delivery] = []

        async def serve() -> None:
            delivered.append(await self._serve(call, Nobody(writer)))

        await unattended.run(serve(), writer)
        _send(delivered[0], writer)

    async def _serve(self, call: WholeCall, client: Client) -> Delivery:
        """Settle before the response is sent: a client that has it finds its balance changed."""
        order = self._attempts.order(call)
        async with await self._billing.hold(
            call,
            call.bill,
            client,
            amount_nano_usd=call.bill.hold_nano_usd,
            cheaper=call.cheaper,
            submission=call.submission,
        ) as settlement:
            made = await self._attempts.made(call, settlement, order)
            try:
                delivery = await call.deliver(made)
            except BaseException:  # cancelled, too: the process ends before it is kept
                self._attempts.abandoned(call, made.candidate.channel_id)
                raise
            settlement.attempts.finish("success", "ok")
            settlement.end(SUCCESS)
            settlement.first_byte()
            headers = (("Content-Type", delivery.content_type),)
            settlement.keep(KeptResponse(status=200, headers=headers, body=delivery.body))
            settlement.settle()
            await settlement.until_durable()
            return delivery
        raise AssertionError("a settlement swallows a client's leaving alone, and nothing is sent")


def _send(delivery: Delivery, writer: ResponseWriter) -> None:
    writer.begin(delivery.content_type, {})
    writer.send(delivery.body)
