"""A whole call without a socket: real wallets and channel actors around a scripted upstream.

    async with world(a=[script, …], b=[script]) as w:
        told = await w.call()

Leaving it proves that nothing is left behind: every invariant of the ledger holds, no hold is open,
every slot is free, every upstream response is closed, every call that was admitted has its row.

A script is a list of steps for one request. Before `Head` come the steps up to the answer's head,
after it those of its body: bytes are sent, an Event is waited for, an int is so many turns of the
loop (or FOR_EVER, or CONNECTING: nothing is sent), a float so many seconds, an exception is raised.
A body ends where its steps do.
"""

import asyncio
import json
from asyncio import Future
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast
from urllib.parse import urlsplit
from uuid import UUID

from actors.channel import ChannelLease
from actors.channel_directory import ChannelDirectory
from actors.process import ProcessIdentity
from actors.routing import Candidate
from actors.store.database import Database
from actors.supervisor import Supervisor
from actors.wallet.live_calls import LiveCalls
from actors.wallet.messages import CallFacts
from actors.wallet.wallets import Wallets
from actors.wallet.writer import LedgerWriter
from channels.errors import UpstreamCut, UpstreamMalformed, UpstreamUnreachable
from channels.http.interfaces import UpstreamClient, UpstreamRequest, UpstreamResponse
from channels.offload.pool import OffloadPool
from channels.redaction import Redactor
from channels.registry import ChannelSpec, HealthSpec, ModelSpec, Registry
from gw.calls.call import Call, ClientGone
from gw.calls.chain import Chain
from gw.calls.chat_request import ChatCall, ChatClientRequest, UpstreamPlan
from gw.calls.media_calls import PieceCall
from gw.calls.stream_events import Framing
from gw.config.config import Precharge
from gw.errors import GatewayError
from metrics.prometheus import Metrics
from tests.support.aio import eventually
from tests.support.calls import CallContext, Limits, UseCases, chat_call, use_cases
from tests.support.clock import FakeClock
from tests.support.fake_ledger import FakeLedger
from tests.support.figures import samples
from tests.support.specs import make_channel, make_model


@dataclass(frozen=True)
class Head:
    """Status and headers of the answer (names in lower case)."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


FOR_EVER, CONNECTING = -1, -2
Step = Head | bytes | int | float | asyncio.Event | Exception
Script = Sequence[Step]


def response_of(*steps: Step, status: int = 200, **headers: str) -> Script:
    """An answer: its head at once, then these steps."""
    return (Head(status, {k.replace("_", "-"): v for k, v in headers.items()}), *steps)


async def _take(step: Step) -> bytes:
    """Do a step; what it sends, if anything."""
    if isinstance(step, bytes):
        return step
    if isinstance(step, Exception):
        raise step
    if isinstance(step, asyncio.Event):
        await step.wait()
    elif isinstance(step, float):
        await asyncio.sleep(step)
    else:
        assert isinstance(step, int)
        if step in (FOR_EVER, CONNECTING):
            await asyncio.Event().wait()
        for _ in range(step):
            await asyncio.sleep(0)
    return b""


class FakeResponse(UpstreamResponse):
    """Plays the steps after the head; knows whether it was closed, and how far it had come."""

    def __init__(self, head: Head, steps: Script) -> None:
        self._head = head
        self._steps = list(steps)
        self._closing = asyncio.Event()
        self.pieces_taken = 0
        self._has_ended = False

    @property
    def status(self) -> int:
        return self._head.status

    @property
    def has_ended(self) -> bool:
        return self._has_ended

    @property
    def is_closed(self) -> bool:
        return self._closing.is_set()

    @property
    def left(self) -> Script:
        """The steps that have not been taken."""
        return self._steps

    @property
    def has_proven_end(self) -> bool:
        return self._head.headers.get("connection") != "ends the body"

    def header(self, name: str) -> str | None:
        return self._head.headers.get(name.lower())

    def chunks(self) -> AsyncIterator[bytes]:
        return self

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        while self._steps:
            if self.is_closed:
                raise UpstreamCut("closed by us")
            step = self._steps[0]
            try:
                sent = await _take(step)
            except Exception:
                self._steps.clear()
                self._closing.set()
                raise
            self._steps.pop(0)
            if sent:
                self.pieces_taken += 1
                return sent
        self._has_ended = True
        raise StopAsyncIteration

    async def read(self, limit: int) -> bytes:
        body = b"".join([piece async for piece in self])
        if len(body) > limit:
            raise UpstreamMalformed("too large")
        return body

    def close(self) -> None:
        self._closing.set()


class FakeHttp(UpstreamClient):
    """Scripts by channel, one for each request to it; the last one is played again."""

    def __init__(self, scripts: Mapping[str, Sequence[Script]]) -> None:
        self._scripts = {channel: list(given) for channel, given in scripts.items()}
        self.requests: list[UpstreamRequest] = []
        self.responses: list[FakeResponse] = []
        self.opening = 0

    @property
    def tried(self) -> list[str]:
        """Channels in the order they were asked."""
        hosts = [urlsplit(request.url).hostname or "" for request in self.requests]
        return [host.removesuffix(".example") for host in hosts]

    async def open(self, request: UpstreamRequest) -> UpstreamResponse:
        self.requests.append(request)
        scripts = self._scripts[self.tried[-1]]
        steps = list(scripts.pop(0) if len(scripts) > 1 else scripts[0])
        self.opening += 1
        if request.sender and steps[0] != CONNECTING and type(steps[0]) is not UpstreamUnreachable:
            request.sender.is_sent = True
        try:
            while not isinstance(steps[0], Head):
                await _take(steps.pop(0))
        finally:
            self.opening -= 1
        head = steps.pop(0)
        assert isinstance(head, Head)
        response = FakeResponse(head, steps)
        self.responses.append(response)
        return response

    def leftovers(self) -> list[str]:
        """Responses that nobody has closed, requests that nobody has given up."""
        left = [f"open response of {response.status}" for response in self.responses]
        left = [
            text
            for text, response in zip(left, self.responses, strict=True)
            if not response.is_closed
        ]
        return left + ["a request on its way"] * self.opening


class RecordingWriter:
    """Takes an answer. Every block waits at the gate `reads`; it leaves after so many blocks."""

    sends_at_once = True

    def __init__(
        self, *, reads: asyncio.Event | None = None, leaves_after: int | None = None
    ) -> None:
        self._reads = reads
        self.leaves_after = leaves_after
        self.task: asyncio.Task[None] | None = None
        self.client_gone = False
        self.is_cut = False
        self.is_row_owned = False
        self.blocks: list[bytes] = []
        self.waiting = 0
        self.has_ended = False
        self.is_broken_off = False
        self.has_forgotten = False
        self.content_type: str | None = None
        self.kept_headers: dict[str, str] = {}
        self.http_status = 200

    @property
    def sent(self) -> bytes:
        """Every byte the client was sent."""
        return b"".join(self.blocks)

    def hold_decided(self) -> None:
        self.is_row_owned = True

    def keep_header(self, name: str, value: str) -> None:
        self.kept_headers[name] = value

    def forget_request(self) -> None:
        self.has_forgotten = True

    def begin(
        self, content_type: str, headers: Mapping[str, str], *, http_status: int = 200
    ) -> None:
        self.http_status = http_status
        self.content_type = content_type
        self.headers = dict(headers)

    def write(self, block: bytes) -> Future[None] | None:
        assert not self.has_ended
        assert block
        if self.leaves_after is not None and len(self.blocks) == self.leaves_after:
            self.client_gone = True
            raise ClientGone
        self.blocks.append(block)
        return None if self._reads is None else asyncio.ensure_future(self._kept_up(self._reads))

    async def _kept_up(self, reads: asyncio.Event) -> None:
        self.waiting += 1
        await reads.wait()
        self.waiting -= 1

    def finish(self, block: bytes) -> None:
        assert not self.has_ended
        self.has_ended = True
        if block:
            self.blocks.append(block)

    def break_off(self, block: bytes) -> None:
        self.finish(block)
        self.is_broken_off = True

    def send(self, body: bytes) -> None:
        assert not self.has_ended
        assert not self.blocks
        self.has_ended = True
        self.blocks.append(body)

    def leave(self) -> None:
        """The client closes its connection: the handler cancels the call."""
        assert self.task is not None
        self.client_gone = True
        self.task.cancel()

    def cut(self) -> None:
        """The process ends: the drain cancels the call."""
        assert self.task is not None
        self.is_cut = True
        self.task.cancel()


ACCOUNT, KEY = "acct_a", "key_a"
FUNDS = 1_000_000_000
TIMEOUT_SECONDS = 30.0
ATTEMPT_SECONDS = 12.0  # of a media call
TOTAL_SECONDS = 14.0
MESSAGES = [{"role": "user", "content": "Say hello."}]
MESSAGES_TOKENS = -(-len(json.dumps(MESSAGES)) // 4)  # as the pre-charge counts them

Plan = Callable[[UpstreamRequest], UpstreamPlan]


class PlannedRequest(ChatClientRequest):
    """A chat request whose channels answer as a test says: in this dialect, so translated."""

    plan: Plan | None = None

    async def plan_for(
        self,
        candidate: Candidate,
        channel: ChannelSpec,
        pin: str | None = None,
        chain: Chain | None = None,
    ) -> UpstreamPlan:
        made = await super().plan_for(candidate, channel, pin, chain)
        return made if self.plan is None else self.plan(made.request)


@dataclass
class CallResult:
    """What became of one call, on every side."""

    call: Call
    writer: RecordingWriter
    error: GatewayError | None
    row: dict[str, Any] | None

    @property
    def refusal(self) -> GatewayError:
        """The error that the client gets."""
        assert self.error is not None
        return self.error

    @property
    def logged(self) -> dict[str, Any]:
        """The call's row."""
        assert self.row is not None
        return self.row

    @property
    def status(self) -> tuple[str, str | None]:
        """The row's status and error code."""
        return self.logged["status"], self.logged["error_code"]

    @property
    def tokens(self) -> tuple[int, int, int]:
        """The row's input, output and cached tokens."""
        return (
            self.logged["input_tokens"],
            self.logged["output_tokens"],
            self.logged["cached_tokens"],
        )

    @property
    def cost(self) -> int:
        """What the row says was charged, in nano-USD."""
        return int(self.logged.get("cost", 0))  # a call without a hold has none

    @property
    def attempts(self) -> list[str]:
        """The error codes of the failed attempts."""
        return [attempt["error_code"] for attempt in self.logged.get("attempts") or ()]


@dataclass
class World:
    """Everything around a conversation, and the verbs of a test."""

    ledger: FakeLedger
    clock: FakeClock
    metrics: Metrics
    writer: LedgerWriter
    wallets: Wallets
    live: LiveCalls
    channels: ChannelDirectory
    http: FakeHttp
    use_cases: UseCases
    model: ModelSpec
    redactor: Redactor
    offload: OffloadPool
    calls: list[Call] = field(default_factory=list)

    def facts(self, protocol: str) -> CallFacts:
        """Of the next call."""
        return CallFacts(
            call_id=UUID(int=len(self.calls) + 1),
            account_id=ACCOUNT,
            key_id=KEY,
            protocol=protocol,
            model=self.model.id,
            submitted_at=self.clock.now(),
        )

    def context(self, protocol: str, *, cap_nano_usd: int | None) -> CallContext:
        """Of the next call, too."""
        return CallContext(
            self.facts(protocol), self.model, self.clock.monotonic(), self.offload, cap_nano_usd
        )

    def prepare(
        self,
        *,
        stream: bool = False,
        usage: bool = False,
        plan: Plan | None = None,
        framing: Framing | None = None,
        **body: Any,
    ) -> ChatCall:
        """A call as the endpoint makes it. `usage`: the client asks for the usage chunk.

        `plan` says in which dialect the scripts answer, and how they are translated.
        """
        options = {"stream_options": {"include_usage": True}} if usage else {}
        cap = body.pop("cap", None)
        pin = body.pop("pin", None)
        requested = {"model": "m", "messages": MESSAGES, "max_tokens": 100, "stream": stream}
        written = json.dumps({**requested, **options, **body}).encode()
        call = chat_call(
            self.context("chat", cap_nano_usd=cap),
            written,
            redact=self.redactor.text,
            request_type=PlannedRequest,
            framing=framing,
            pin=pin,
        )
        assert isinstance(call.request, PlannedRequest)
        call.request.plan = plan
        self.calls.append(call)
        return call

    def begin(self, call: ChatCall | PieceCall, writer: RecordingWriter) -> asyncio.Task[None]:
        """Run a call in a task of its own, as a handler does."""
        if isinstance(call, PieceCall):
            running = self.use_cases.images.run_call(call, writer)
        else:
            running = self.use_cases.chat_calls.run_call(call, writer)
        writer.task = asyncio.ensure_future(running)
        return writer.task

    def start(
        self, writer: RecordingWriter | None = None, **options: Any
    ) -> tuple[ChatCall, RecordingWriter]:
        """Begin a call as the endpoint makes it, and go on beside it."""
        call, writer = self.prepare(**options), writer or RecordingWriter()
        self.begin(call, writer)
        return call, writer

    async def end(self, call: Call, writer: RecordingWriter) -> CallResult:
        """Wait until the call has ended and its settlement is applied."""
        assert writer.task is not None
        error: GatewayError | None = None
        try:
            await writer.task
        except GatewayError as raised:
            error = raised
        except asyncio.CancelledError:
            assert writer.is_cut or writer.client_gone
        await self.settled()
        return CallResult(call, writer, error, self.ledger.rows.get(call.facts.call_id))

    async def call(self, writer: RecordingWriter | None = None, **options: Any) -> CallResult:
        """One call from its beginning to its end."""
        return await self.end(*self.start(writer, **options))

    async def settled(self) -> None:
        """Wait until the ledger and the channels have worked off what they were told."""
        for _ in range(2):  # a settlement may bring forth another: a hold given back
            await self.wallets.settled(ACCOUNT)
        await eventually(lambda: not any(len(a.mailbox) for a in self.channels.values()))
        await asyncio.sleep(0)

    def verdict(self, channel_id: str) -> str | None:
        """What the call has said of a channel's health, which began with one failure."""
        failures = self.channels[channel_id].health.failures
        return {0: "success", 1: None, 2: "failure"}[failures]

    def faults(self) -> list[str]:
        """Everything a call must not leave behind."""
        left = [*self.ledger.faults(), *self.http.leftovers()]
        left += [f"hold of {call_id}" for call_id in self.ledger.holds]
        left += [f"slots of {a!r}" for a in self.channels.values() if a.in_use]
        left += [f"live call {call_id}" for call_id in self.live.ids()]
        held = {entry[2] for entry in self.ledger.entries if entry[3] == "settle"}
        left += [f"no row of {call_id}" for call_id in held - set(self.ledger.rows)]
        flying = samples(self.metrics, "gw_calls_in_flight")
        return left + [f"in flight {labels}" for labels, count in flying.items() if count]


def in_order(names: Iterable[str], **changes: Any) -> list[ChannelSpec]:
    """Channels in this order of priority, which three failures open."""
    usual = {"health": HealthSpec(failures=3), **changes}
    return [make_channel(name, priority=place, **usual) for place, name in enumerate(names, 1)]


@asynccontextmanager
async def world(
    given: Mapping[str, Sequence[Script]] | None = None,
    *,
    balance: int = FUNDS,
    timeout_seconds: float = TIMEOUT_SECONDS,
    slots: int = 10,
    channels: Sequence[ChannelSpec] | None = None,
    model: ModelSpec | None = None,
    precharge: Precharge = "messages",
    **named: Sequence[Script],
) -> AsyncIterator[World]:
    """Channels `a`, `b`, … in this order of priority, playing the scripts given for them."""
    scripts = {**(given or {}), **named}
    ledger, clock, metrics = FakeLedger(), FakeClock(), Metrics()
    ledger.open_account(ACCOUNT, KEY, balance)
    database = cast(Database, ledger)
    supervisor = Supervisor(clock=clock, metrics=metrics)
    writer = LedgerWriter(
        database=database,
        identity=ProcessIdentity("p", "here", "boot", 1),
        clock=clock,
        metrics=metrics,
    )
    wallets = Wallets(writer=writer, database=database, clock=clock, metrics=metrics)
    directory = ChannelDirectory(supervisor=supervisor, clock=clock, metrics=metrics)
    if channels is None:
        channels = in_order(scripts, max_concurrency=slots)
    directory.configure({channel.id: channel for channel in channels})
    supervisor.start("ledger", writer.run)
    for actor in directory.values():  # so that a success can be told from no verdict
        lease = actor.acquire()
        assert isinstance(lease, ChannelLease)
        lease.release("failure")
    live = LiveCalls()
    model = model or make_model(*(channel.id for channel in channels))
    redactor, offload = Redactor(channels), OffloadPool()
    http = FakeHttp(scripts)
    running = use_cases(
        wallets=wallets,
        live=live,
        channels=directory,
        http=http,
        redactor=redactor,
        registry=Registry.of(channels, []),
        offload=offload,
        limits=Limits(timeout_seconds, ATTEMPT_SECONDS, TOTAL_SECONDS),
        clock=clock,
        metrics=metrics,
        precharge=precharge,
    )
    made = World(
        ledger=ledger,
        clock=clock,
        metrics=metrics,
        writer=writer,
        wallets=wallets,
        live=live,
        channels=directory,
        http=http,
        use_cases=running,
        model=model,
        redactor=redactor,
        offload=offload,
    )
    yield made
    await made.settled()
    assert made.faults() == []
    await supervisor.stop()


# What may be expected of a call, by name.
FOUND: Mapping[str, Callable[[World, CallResult], Any]] = {
    "sent": lambda w, result: result.writer.sent,
    "blocks": lambda w, result: result.writer.blocks,
    "has_ended": lambda w, result: result.writer.has_ended,
    "status": lambda w, result: result.status,
    "tokens": lambda w, result: result.tokens,
    "cost": lambda w, result: result.cost,
    "attempts": lambda w, result: result.attempts,
    "outcomes": lambda w, result: [one[3] for one in result.logged["detail"]["tried"]],
    "tried": lambda w, result: "".join(w.http.tried),
    "verdicts": lambda w, result: [w.verdict(name) for name in dict.fromkeys(w.http.tried)],
    "error": lambda w, result: (
        None if result.error is None else (result.error.http_status, result.error.kind.code)
    ),
    "message": lambda w, result: result.refusal.message,
    "headers": lambda w, result: result.refusal.headers,
    "kept": lambda w, result: w.http.responses[0].has_ended,
}
SUCCESS, CUT = ("success", None), ("error", "upstream_error")


@dataclass(frozen=True)
class Case:
    """One call to channels `a`, `b`, … that each play one script, and what is expected of it."""

    scripts: Sequence[Script]
    options: Mapping[str, Any]
    expected: Mapping[str, Any]

    async def check(self, **around: Any) -> None:
        """Make the call in a world, and compare."""
        given = {name: [one] for name, one in zip("abcd", self.scripts, strict=False)}
        async with world(given, **around) as w:
            result = await w.call(**self.options)
            assert {name: FOUND[name](w, result) for name in self.expected} == self.expected


def plain(*scripts: Script, plan: Plan | None = None, **expected: Any) -> Case:
    """A call for a whole answer."""
    return Case(scripts, {"plan": plan}, expected)


def streamed(*scripts: Script, plan: Plan | None = None, **expected: Any) -> Case:
    """A call for a stream."""
    return Case(scripts, {"stream": True, "plan": plan}, expected)
