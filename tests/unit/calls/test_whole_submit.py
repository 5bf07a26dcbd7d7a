"""What is made while the client waits: asked for, delivered, paid for, or none of it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from decimal import Decimal

import pytest
from msgspec.structs import replace

from actors.store.errors import StoreUnavailable
from actors.wallet.piece_prices import MediaPrice
from channels.errors import UpstreamCut, UpstreamLost, UpstreamUnreachable
from channels.media.model import MIB
from channels.media.replies import Done
from channels.media.requests import SpeechRequest
from channels.media.results import SpeechAudio
from channels.prices import PriceSpec
from gw.calls.bills import UnitBill
from gw.calls.detached import DetachedTasks
from gw.calls.exchange_upstream import ExchangeUpstream, SpeechUpstream
from gw.calls.media import Media
from gw.calls.media_calls import Delivery, SubmitCall, SubmitResult
from gw.http.drain import RequestsInFlight
from metrics.spans import UNSAMPLED
from tests.support.aio import eventually
from tests.support.calls import SPENDER, in_force
from tests.support.logs import logs
from tests.support.rows import cases, each
from tests.support.specs import make_model
from tests.unit.calls.submitting import SubmittingWriter
from tests.unit.calls.world import (
    ACCOUNT,
    FOR_EVER,
    CallResult,
    Head,
    Script,
    World,
    in_order,
    response_of,
    world,
)
from tests.unit.images.stage import claim_of

Deliver = Callable[[SubmitResult], Awaitable[Delivery]]
TEXT = "Hello 👋"
COST = len(TEXT) * 30_000
SOUND = response_of(b"ID3 sound", content_type="audio/mpeg")


async def delivered(made: SubmitResult) -> Delivery:
    """The recording as it is."""
    assert isinstance(made.reply, Done)
    audio = made.reply.result
    assert isinstance(audio, SpeechAudio)
    return Delivery(audio.content_type, audio.data)


async def not_stored(made: SubmitResult) -> Delivery:
    raise StoreUnavailable("away")


@dataclass
class Stage:
    """The world, what is submitted in it, and whose outcome nobody knows."""

    world: World
    submits: Media[SubmitCall]
    unknown: list[str] = field(default_factory=list)

    def prepare(self, *, key: str | None = None, deliver: Deliver = delivered) -> SubmitCall:
        w = self.world
        call = SubmitCall(
            facts=replace(w.facts("speech"), made_id="trs_1"),
            model=w.model,
            cap_nano_usd=None,
            spender=SPENDER,
            demand=None,
            bill=UnitBill(MediaPrice.of(w.model), len(TEXT)),
            cheaper="or less.",
            request=SpeechRequest(model="m", input=TEXT, voice="v"),
            deliver=deliver,
            span=UNSAMPLED,
            started=w.clock.monotonic(),
            idempotency=None if key is None else claim_of(key),
        )
        w.calls.append(call)
        return call

    async def run(self, call: SubmitCall, writer: SubmittingWriter) -> CallResult:
        writer.task = asyncio.ensure_future(self.submits.run_call(call, writer))
        return await self.world.end(call, writer)

    @property
    def spent(self) -> int:
        return 10**9 - self.world.ledger.balances[ACCOUNT]


@asynccontextmanager
async def stage(
    upstream: type[ExchangeUpstream] = SpeechUpstream, **scripts: Sequence[Script]
) -> AsyncIterator[Stage]:
    channels = in_order(scripts, protocols=frozenset({"speech"}))
    model = make_model(
        *scripts, endpoint_type="audio_speech", price=PriceSpec(per_character=Decimal("0.00003"))
    )
    async with world(scripts, channels=channels, model=model) as w:
        unknown: list[str] = []
        submits = Media(
            billing=w.use_cases.billing,
            channels=w.channels,
            upstream=upstream(http=w.http, body_bytes_max=MIB, clock=w.clock),
            unknown=lambda call, channel_id: unknown.append(f"{call.upstream_key} {channel_id}"),
            current=in_force(w.redactor),
            total_seconds=5.0,
            detached=DetachedTasks(RequestsInFlight()),
        )
        yield Stage(w, submits, unknown)


async def test_what_was_made_is_settled_before_it_goes_out() -> None:
    async with stage(a=[SOUND]) as s:
        result = await s.run(s.prepare(key="k"), SubmittingWriter())
        assert (result.error, result.writer.sent) == (None, b"ID3 sound")
        assert (result.status, result.cost, s.spent) == (("success", None), COST, COST)
        assert (result.logged["unit_count"], result.logged["task_id"]) == (len(TEXT), "trs_1")
        assert [row.state for row in s.world.ledger.claims.rows.values()] == ["stored"]
        (request,) = s.world.http.requests
        assert ("Idempotency-Key", "trs_1") in request.headers


@cases("upstream, unknown", (SpeechUpstream, []), (ExchangeUpstream, ["trs_1 a"]))
async def test_what_cannot_be_kept_is_not_paid_for_and_reported(
    upstream: type[ExchangeUpstream], unknown: list[str]
) -> None:
    async with stage(upstream, a=[SOUND]) as s:
        call, writer = s.prepare(key="k", deliver=not_stored), SubmittingWriter()
        with pytest.raises(StoreUnavailable):
            await s.run(call, writer)
        await s.world.settled()
        assert (s.spent, s.unknown) == (0, unknown)
        assert s.world.ledger.rows[call.facts.call_id]["status"] == "error"
        assert not s.world.ledger.claims.rows


NEXT: dict[str, Script] = {
    "no connection": (UpstreamUnreachable("refused"), Head()),
    "lost": (UpstreamLost("reset"), Head()),
    "cut": response_of(b"ID3", UpstreamCut("reset"), content_type="audio/mpeg"),
    "504": response_of(b"", status=504),
    "500": response_of(b"", status=500),
}


@each("script", NEXT.values())
async def test_speech_fails_over_as_pictures_do(script: Script) -> None:
    async with stage(a=[script], b=[SOUND]) as s:
        result = await s.run(s.prepare(), SubmittingWriter())
        assert (result.error, s.world.http.tried) == (None, ["a", "b"])
        assert (s.spent, s.unknown) == (COST, [])


@logs("answer_unusable")
@pytest.mark.parametrize("name", ["lost", "cut", "504"])
async def test_what_is_submitted_is_not_submitted_again_where_it_may_have_been_made(
    name: str,
) -> None:
    async with stage(ExchangeUpstream, a=[NEXT[name]], b=[SOUND]) as s:
        result = await s.run(s.prepare(key="k"), SubmittingWriter())
        assert result.status[0] == "interrupted"
        assert result.logged["task_id"] == "trs_1"
        assert (s.world.http.tried, s.unknown, s.spent) == (["a"], ["trs_1 a"], 0)
        assert not s.world.ledger.claims.rows


@cases("upstream, unknown", (SpeechUpstream, []), (ExchangeUpstream, ["trs_1 a"]))
async def test_channel_that_was_being_tried_when_the_client_left_may_have_made_it(
    upstream: type[ExchangeUpstream], unknown: list[str]
) -> None:
    async with stage(upstream, a=[(FOR_EVER,)]) as s:
        call, writer = s.prepare(), SubmittingWriter()
        running = asyncio.ensure_future(s.run(call, writer))
        await eventually(lambda: s.world.http.tried == ["a"], what="the attempt")
        writer.leave()
        await running
        assert (s.unknown, s.spent) == (unknown, 0)


async def test_client_that_leaves_stops_it_unless_it_is_left_alone() -> None:
    async with stage(a=[(FOR_EVER,)]) as s:
        call, writer = s.prepare(), SubmittingWriter()
        running = asyncio.ensure_future(s.run(call, writer))
        await eventually(lambda: s.world.http.tried == ["a"], what="the attempt")
        writer.leave()
        assert (await running).status == ("interrupted", "client_disconnected")
    ready = asyncio.Event()
    async with stage(a=[(ready, *SOUND)]) as s:
        call, writer = s.prepare(), SubmittingWriter()
        writer.task = asyncio.ensure_future(s.submits.run_detached(call, writer))
        await eventually(lambda: s.world.http.tried == ["a"], what="the attempt")
        writer.leave()
        await eventually(lambda: writer.is_left_alone, what="being left alone")
        ready.set()
        await eventually(lambda: writer.ends_alone == [None], what="its end")
        result = await s.world.end(call, writer)
        assert (result.status, s.spent) == (("success", None), COST)
