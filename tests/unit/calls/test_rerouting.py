"""Channels that fail before anything was sent: who is tried next, and what the client is told."""

import asyncio
from typing import Any

import pytest

from actors.channel import ChannelLease
from channels.errors import UpstreamCut, UpstreamUnreachable
from channels.registry import Binding, ChannelSpec, HealthSpec
from tests.support.logs import ExpectLog
from tests.support.rows import cases, each
from tests.support.specs import make_channel, make_model
from tests.unit.calls import sse
from tests.unit.calls.world import (
    FOR_EVER,
    SUCCESS,
    Case,
    Head,
    RecordingWriter,
    Script,
    Step,
    World,
    in_order,
    plain,
    response_of,
    streamed,
    world,
)

GOOD = response_of(sse.whole(usage=sse.usage_of(10, 1)))
GOOD_STREAM = response_of(sse.delta("Hi"), sse.usage_event(10, 1), sse.DONE)
REFUSED: Script = (UpstreamUnreachable("connect: refused by 10.0.0.7:443"),)


def failed(status: int, message: str = "try later") -> Script:
    return response_of(sse.error_body(message), status=status)


def quiet(*steps: Step) -> Script:
    """A head, these steps, and nothing else."""
    return response_of(*steps, FOR_EVER)


STREAM_OF_B = sse.delta("Hi") + sse.DONE
COMMENTS = (sse.KEEP_ALIVE, 2, sse.KEEP_ALIVE)
FLOOD = b": " + b"x" * 30_000 + b"\n\n"
UNREACHABLE, ERROR = (502, "upstream_unreachable"), (502, "upstream_error")
# A stream that fails before its first event is begun elsewhere.
SILENT: list[Script] = [
    response_of(UpstreamCut()),
    response_of(),
    response_of(sse.KEEP_ALIVE, sse.KEEP_ALIVE, UpstreamCut()),
    response_of(b'data: {"choices":[{"delta"', UpstreamCut()),
    response_of(sse.usage_event(10, 1), UpstreamCut()),
    response_of(sse.error_body("quota")),
    response_of(b"data: " + b"x" * (33 * 1024 * 1024)),
    (Head(), 5, UpstreamCut()),
    response_of(*[FLOOD] * 4, UpstreamCut()),
]
ELSEWHERE: dict[str, Any] = {
    "sent": STREAM_OF_B,
    "status": SUCCESS,
    "tokens": (10, 1, 0),
    "verdicts": ["failure", "success"],
}
CASES = [
    plain(
        failed(500),
        GOOD,
        sent=GOOD[1],
        status=SUCCESS,
        attempts=["upstream_500"],
        cost=10 * 1000 + 10_000,  # the failed one is not billed
        outcomes=["status_5xx", "ok"],
        verdicts=["failure", "success"],
    ),
    *(streamed(script, GOOD_STREAM, **ELSEWHERE) for script in SILENT),
    # Comments wait for the first event.
    streamed(
        response_of(*COMMENTS, sse.delta("Hi"), sse.KEEP_ALIVE, sse.DONE),
        blocks=[sse.KEEP_ALIVE * 2 + sse.delta("Hi"), sse.KEEP_ALIVE, sse.DONE],
    ),
]
# What channels do in their order, the status and code of the last one tried, and which were.
HOPELESS: list[tuple[tuple[Script, ...], tuple[int, str], str]] = [
    ((REFUSED, REFUSED, REFUSED, GOOD), UNREACHABLE, "abc"),
    ((failed(500), failed(502), failed(503), GOOD), (503, "upstream_error"), "abc"),
    ((failed(500), REFUSED), UNREACHABLE, "ab"),
    ((REFUSED, failed(529)), (529, "upstream_error"), "ab"),
    ((response_of(b"?"), response_of(b"?")), ERROR, "ab"),
]
CASES += [
    kind(
        *scripts,
        error=error,
        tried=tried,
        status=("error", error[1]),
        cost=0,
        blocks=[],
        verdicts=["failure"] * len(tried),
    )
    for scripts, error, tried in HOPELESS
    for kind in (plain, streamed)
]


@each("case", CASES)
async def test_next_channel_answers_for_one_that_fails(case: Case) -> None:
    await case.check()


async def test_attempts_in_the_row_say_when_and_how_long() -> None:
    gate = asyncio.Event()
    async with world(a=[(gate, *failed(500, "boom"))], b=[GOOD]) as w:
        call, writer = w.prepare(), RecordingWriter()
        began = w.clock.now()
        w.begin(call, writer)
        while not w.http.opening:
            await asyncio.sleep(0)
        w.clock.advance(0.75)
        gate.set()
        result = await w.end(call, writer)
        assert result.logged["attempts"] == [
            {
                "seq": 1,
                "created_at": began,
                "latency_ms": 750,
                "error_code": "upstream_500",
                "error_message": "boom",
            }
        ]


async def fill(w: World, *names: str) -> list[ChannelLease]:
    leases = []
    for name in names:
        actor = w.channels[name]
        while actor.in_use < actor.spec.max_concurrency:
            lease = actor.acquire()
            assert isinstance(lease, ChannelLease)
            leases.append(lease)
    return leases


@pytest.mark.parametrize("why", ["full", "open"])
async def test_no_channel_to_be_had_is_503_at_no_cost(why: str, expect_log: ExpectLog) -> None:
    expect_log("channel_opened", required=why == "open")

    async with world(a=[GOOD], b=[GOOD]) as w:
        leases = await fill(w, "a", "b")
        for lease in leases:
            if why == "open":
                lease.release("failure")
        await w.settled()
        result = await w.call()
        assert (result.refusal.http_status, result.refusal.kind.code) == (
            503,
            "no_channel_available",
        )
        assert result.status == ("rejected", "no_channel_available")
        assert ("busy" in result.refusal.message) == (why == "full")
        assert result.refusal.headers == {"Retry-After": "1" if why == "full" else "10"}
        assert (result.cost, result.attempts, w.http.tried) == (0, [], [])
        for lease in leases:
            lease.release("abandoned")


@cases(
    "model, spoken, named",
    (make_model("a", endpoint_type="images_generations"), "chat", ""),
    (make_model("m"), "chat", ""),
    (make_model("a"), "messages", " It is served on: messages."),
)
async def test_model_without_a_channel_on_this_protocol_is_503_not_to_be_repeated(
    model: Any, spoken: str, named: str
) -> None:
    specs = [make_channel("a", protocols=frozenset({spoken}))]
    async with world(a=[GOOD], channels=specs, model=model) as w:
        result = await w.call()
        assert (result.refusal.http_status, result.refusal.kind.code) == (
            503,
            "no_channel_available",
        )
        assert result.refusal.message == f"No channel serves this model on this protocol.{named}"
        assert result.refusal.headers == {"x-should-retry": "false"}
        assert result.status == ("rejected", "no_channel_available")
        assert w.http.tried == []


async def test_channel_removed_in_the_meantime_is_passed_over() -> None:
    gate = asyncio.Event()
    async with world(a=[(gate, *failed(500))], b=[GOOD], c=[GOOD]) as w:
        call, writer = w.start()
        while not w.http.opening:
            await asyncio.sleep(0)
        w.channels.configure({"c": make_channel("c")})
        gate.set()
        result = await w.end(call, writer)
        assert w.http.tried == ["a", "c"]
        assert result.status == ("success", None)
        assert result.logged["detail"]["passed_over"] == {"b": "removed"}


QUIET = 0.03  # seconds


def watched(*names: str, seconds: float | None = QUIET) -> list[ChannelSpec]:
    return in_order(names, health=HealthSpec(failures=3, first_event_seconds=seconds))


PAUSES = [step for _ in range(40) for step in (sse.KEEP_ALIVE, 0.005)]
# Before the head, after it, and after what is no event.
QUIET_CASES = [
    streamed(
        script,
        GOOD_STREAM,
        attempts=["upstream_unreachable"],
        cost=10 * 1000 + 10_000,
        outcomes=["silent", "ok"],
        **{name: value for name, value in ELSEWHERE.items() if name != "tokens"},
    )
    for script in ((FOR_EVER, Head()), quiet(), quiet(*PAUSES), quiet(sse.usage_event(10, 1)))
]
QUIET_CASES.append(
    streamed(
        *[quiet()] * 4, error=UNREACHABLE, tried="abc", cost=0, status=("error", UNREACHABLE[1])
    )
)


@each("case", QUIET_CASES)
async def test_silent_stream_is_left_for_the_next_channel(case: Case) -> None:
    await case.check(channels=watched(*"abcd"[: len(case.scripts)]))


async def test_of_a_whole_response_the_head_alone_has_to_be_in_time() -> None:
    slow = response_of(2 * QUIET, sse.whole(usage=sse.usage_of(10, 1)))
    async with world(a=[slow, (FOR_EVER, Head())], b=[GOOD], channels=watched("a", "b")) as w:
        assert (await w.call()).attempts == []
        assert (await w.call()).attempts == ["upstream_unreachable"]
        assert w.http.tried == ["a", "a", "b"]


async def test_error_whose_body_is_late_and_a_stream_that_pauses_are_not_silent() -> None:
    late = response_of(2 * QUIET, sse.error_body("no"), status=400)
    paused = response_of(sse.delta("Hi"), 2 * QUIET, sse.usage_event(10, 1), sse.DONE)
    async with world(a=[late, paused], b=[GOOD_STREAM], channels=watched("a", "b")) as w:
        result = await w.call(stream=True)
        assert result.refusal.http_status == 400
        result = await w.call(stream=True)
        assert result.status == ("success", None)
        assert w.http.tried == ["a", "a"]


async def test_silence_of_a_model_on_a_channel_is_its_own_matter() -> None:
    model = make_model(Binding("a"), Binding("b", first_event_seconds=QUIET), "c")
    specs = watched("a", "b", "c", seconds=None)
    scripts: dict[str, list[Script]] = {
        "a": [response_of(2 * QUIET, *GOOD_STREAM[1:]), REFUSED],
        "b": [response_of(FOR_EVER)],
        "c": [GOOD_STREAM],
    }
    async with world(scripts, channels=specs, model=model) as w:
        assert (await w.call(stream=True)).status == ("success", None)
        assert (await w.call(stream=True)).attempts == ["upstream_unreachable"] * 2
        assert w.http.tried == ["a", "a", "b", "c"]
