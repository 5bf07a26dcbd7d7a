"""A whole call without a socket: real wallets and channel actors around a scripted upstream.

    async with world(a=[script, …], b=[script]) as w:
        told = await w.call()

Leaving it proves that nothing is left behind: every invariant of the ledger holds, no hold is open,
every slot is free, every upstream response is closed, every call that was admitted has its row.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, cast
from uuid import UUID

from actors.actor import Supervisor
from actors.channel import Lease
from actors.process import ProcessIdentity
from actors.routing import Candidate, ChannelDirectory
from actors.store.database import Database
from actors.wallet.messages import CallFacts
from actors.wallet.wallets import LiveCalls, Wallets
from actors.wallet.writer import LedgerWriter
from channels.http.interfaces import UpstreamRequest
from channels.offload.pool import OffloadPool
from channels.redaction import Redactor
from channels.registry import ChannelSpec, HealthSpec, ModelSpec, Registry
from gw.calls.call import Call
from gw.calls.chat import Conversation
from gw.calls.media import Media, PieceCall
from gw.calls.request import ChatCall, ConversationRequest, UpstreamPlan
from gw.calls.stream import Framing
from gw.config.config import Precharge
from gw.errors import GatewayError
from metrics.prometheus import Metrics
from tests.support.aio import eventually
from tests.support.calls import Asking, Limits, chat_call, use_cases
from tests.support.clock import FakeClock
from tests.support.fake_ledger import FakeLedger
from tests.support.specs import make_channel, make_model
from tests.unit.calls.fake_wire import FakeWire, Script
from tests.unit.calls.writer import RecordingWriter

ACCOUNT, KEY = "acct_a", "key_a"
FUNDS = 1_000_000_000
TIMEOUT_SECONDS = 30.0
ATTEMPT_SECONDS = 12.0  # of a media call
TOTAL_SECONDS = 14.0
MESSAGES = [{"role": "user", "content": "Say hello."}]
MESSAGES_TOKENS = -(-len(json.dumps(MESSAGES)) // 4)  # as the pre-charge counts them


Plan = Callable[[UpstreamRequest], UpstreamPlan]


class PlannedRequest(ConversationRequest):
    """A chat request whose channels answer as a test says: in this dialect, so translated."""

    plan: Plan | None = None

    async def plan_for(
        self, candidate: Candidate, channel: ChannelSpec, pin: str | None = None
    ) -> UpstreamPlan:
        made = await super().plan_for(candidate, channel, pin)
        return made if self.plan is None else self.plan(made.request)


@dataclass
class Told:
    """What became of one call, on every side."""

    call: Call
    writer: RecordingWriter
    error: GatewayError | None
    row: dict[str, Any] | None

    @property
    def status(self) -> tuple[str, str | None]:
        """The row's status and error code."""
        assert self.row is not None
        return self.row["status"], self.row["error_code"]

    @property
    def tokens(self) -> tuple[int, int, int]:
        """The row's input, output and cached tokens."""
        assert self.row is not None
        return self.row["input_tokens"], self.row["output_tokens"], self.row["cached_tokens"]

    @property
    def cost(self) -> int:
        """What the row says was charged, in nano-USD."""
        assert self.row is not None
        return int(self.row.get("cost", 0))  # a call without a hold has none

    @property
    def attempts(self) -> list[str]:
        """The error codes of the failed attempts."""
        assert self.row is not None
        return [attempt["error_code"] for attempt in self.row.get("attempts") or ()]


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
    wire: FakeWire
    conversation: Conversation
    images: Media[PieceCall]
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

    def asking(self, protocol: str, *, cap_nano_usd: int | None) -> Asking:
        """Of the next call, too."""
        return Asking(
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
        asked = {"model": "m", "messages": MESSAGES, "max_tokens": 100, "stream": stream}
        written = json.dumps({**asked, **options, **body}).encode()
        call = chat_call(
            self.asking("chat", cap_nano_usd=cap),
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
            running = self.images.run(call, writer)
        else:
            running = self.conversation.run(call, writer)
        writer.task = asyncio.ensure_future(running)
        return writer.task

    async def end(self, call: Call, writer: RecordingWriter) -> Told:
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
        return Told(call, writer, error, self.ledger.rows.get(call.facts.call_id))

    async def call(self, writer: RecordingWriter | None = None, **options: Any) -> Told:
        """One call from its beginning to its end."""
        call, writer = self.prepare(**options), writer or RecordingWriter()
        self.begin(call, writer)
        return await self.end(call, writer)

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
        left = [*self.ledger.faults(), *self.wire.leftovers()]
        left += [f"hold of {call_id}" for call_id in self.ledger.holds]
        left += [f"slots of {a!r}" for a in self.channels.values() if a.in_use]
        left += [f"live call {call_id}" for call_id in self.live.ids()]
        held = {entry[2] for entry in self.ledger.entries if entry[3] == "settle"}
        left += [f"no row of {call_id}" for call_id in held - set(self.ledger.rows)]
        text = self.metrics.render("")[0].decode()
        flying = [line for line in text.splitlines() if line.startswith("gw_calls_in_flight{")]
        return left + [line for line in flying if not line.endswith(" 0.0")]


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
        health = HealthSpec(failures=3)
        channels = [
            make_channel(name, priority=place, health=health, max_concurrency=slots)
            for place, name in enumerate(scripts, start=1)
        ]
    directory.configure({channel.id: channel for channel in channels})
    supervisor.start("ledger", writer.run)
    for actor in directory.values():  # so that a success can be told from no verdict
        lease = actor.try_acquire()
        assert isinstance(lease, Lease)
        lease.release("failure")
    live = LiveCalls()
    model = model or make_model(*(channel.id for channel in channels))
    redactor, offload = Redactor(channels), OffloadPool()
    wire = FakeWire(scripts)
    running = use_cases(
        wallets=wallets,
        live=live,
        channels=directory,
        wire=wire,
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
        wire=wire,
        conversation=running.conversation,
        images=running.images,
        model=model,
        redactor=redactor,
        offload=offload,
    )
    yield made
    await made.settled()
    assert made.faults() == []
    await supervisor.stop()
