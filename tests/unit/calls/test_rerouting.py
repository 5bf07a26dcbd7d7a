"""Channels that fail before anything was sent: who is tried next, and what the client is told."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from actors.channel import Lease
from channels.errors import UpstreamCut, UpstreamMalformed, UpstreamUnreachable
from channels.registry import Binding, ChannelSpec, HealthSpec
from tests.support.specs import make_channel, make_model
from tests.unit.calls import sse
from tests.unit.calls.fake_wire import FOR_EVER, Head, Script, answer
from tests.unit.calls.world import World, world
from tests.unit.calls.writer import RecordingWriter

GOOD = answer(sse.whole(usage=sse.usage_of(10, 1)))
GOOD_STREAM = answer(sse.delta("Hi"), sse.usage_event(10, 1), sse.DONE)
REFUSED: Script = (UpstreamUnreachable("connect: refused by 10.0.0.7:443"),)


def failed(status: int, message: str = "try later") -> Script:
    return answer(sse.error_body(message), status=status)


# What a channel does -> the attempt's code in the row.
FAILURES: dict[str, tuple[Script, str]] = {
    "unreachable": (REFUSED, "upstream_unreachable"),
    "lost within its head": ((UpstreamCut(),), "upstream_cut"),
    "no HTTP": ((UpstreamMalformed(),), "upstream_malformed"),
    "500": (failed(500), "upstream_500"),
    "503 without a body": (answer(status=503), "upstream_503"),
    "529": (failed(529), "upstream_529"),
    "502 whose body breaks off": (answer(b"<html>", UpstreamCut(), status=502), "upstream_502"),
    "no JSON": (answer(b"<html>Welcome</html>"), "upstream_malformed"),
    "JSON, but no object": (answer(b"[1]"), "upstream_malformed"),
    "nothing": (answer(), "upstream_malformed"),
    "body that breaks off": (answer(b'{"choices":', UpstreamCut()), "upstream_cut"),
    "body without an end": (answer(b" " * 1_000_001), "upstream_malformed"),
}


@pytest.mark.parametrize(("script", "code"), FAILURES.values(), ids=FAILURES.keys())
async def test_next_channel_answers_for_one_that_fails(script: Script, code: str) -> None:
    async with world(a=[script], b=[GOOD]) as w:
        told = await w.call()
        assert told.writer.sent == GOOD[1]
        assert told.status == ("success", None)
        assert told.attempts == [code]
        assert told.cost == 10 * 1000 + 10_000  # the failed one is not billed
        assert (w.verdict("a"), w.verdict("b")) == ("failure", "success")
        assert told.row is not None
        tried = told.row["detail"]["tried"]
        assert [(attempt[0], attempt[3] == "ok") for attempt in tried] == [
            ("a", False),
            ("b", True),
        ]


SILENT: dict[str, Script] = {
    "cut after its head": answer(UpstreamCut()),
    "end after its head": answer(),
    "comments only": answer(sse.KEEP_ALIVE, sse.KEEP_ALIVE, UpstreamCut()),
    "half an event": answer(b'data: {"choices":[{"delta"', UpstreamCut()),
    "usage only": answer(sse.usage_event(10, 1), UpstreamCut()),
    "a body that is no stream": answer(sse.error_body("quota")),
    "an event without end": answer(b"data: " + b"x" * (33 * 1024 * 1024)),
}


@pytest.mark.parametrize("script", SILENT.values(), ids=SILENT.keys())
async def test_stream_that_fails_before_its_first_event_is_begun_elsewhere(script: Script) -> None:
    async with world(a=[script], b=[GOOD_STREAM]) as w:
        told = await w.call(stream=True)
        assert told.writer.sent == sse.delta("Hi") + sse.DONE
        assert told.status == ("success", None)
        assert len(told.attempts) == 1
        assert told.tokens == (10, 1, 0)
        assert (w.verdict("a"), w.verdict("b")) == ("failure", "success")


async def test_comments_wait_for_the_first_event_and_are_not_lost() -> None:
    steps = (sse.KEEP_ALIVE, 2, sse.KEEP_ALIVE, sse.delta("Hi"), sse.KEEP_ALIVE, sse.DONE)
    async with world(a=[answer(*steps)]) as w:
        told = await w.call(stream=True)
        assert told.writer.blocks[0] == sse.KEEP_ALIVE * 2 + sse.delta("Hi")
        assert told.writer.sent == b"".join(step for step in steps if isinstance(step, bytes))


async def test_flood_of_comments_begins_the_stream() -> None:
    comment = b": " + b"x" * 30_000 + b"\n\n"
    async with world(a=[answer(comment, comment, comment, comment, UpstreamCut())]) as w:
        told = await w.call(stream=True)
        assert told.writer.sent == comment * 4
        assert told.status == ("error", "upstream_error")
        assert told.cost == 0


# All channels fail -> status, code, and how many were tried.
HOPELESS: list[tuple[str, dict[str, Script], tuple[int, str], int]] = [
    (
        "unreachable three times",
        {"a": REFUSED, "b": REFUSED, "c": REFUSED, "d": GOOD},
        (502, "upstream_unreachable"),
        3,
    ),
    (
        "5xx three times: the last one's",
        {"a": failed(500), "b": failed(502), "c": failed(503), "d": GOOD},
        (503, "upstream_error"),
        3,
    ),
    ("5xx, then refused", {"a": failed(500), "b": REFUSED}, (502, "upstream_unreachable"), 2),
    ("refused, then 5xx", {"a": REFUSED, "b": failed(529)}, (529, "upstream_error"), 2),
    ("two channels, no third try", {"a": REFUSED, "b": REFUSED}, (502, "upstream_unreachable"), 2),
    ("one channel", {"a": failed(504)}, (504, "upstream_error"), 1),
    (
        "no JSON from any",
        {"a": answer(b"?"), "b": answer(b"?")},
        (502, "upstream_error"),
        2,
    ),
]


@pytest.mark.parametrize(
    ("scripts", "told_client", "tries"), [c[1:] for c in HOPELESS], ids=[c[0] for c in HOPELESS]
)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_no_channel_answers(
    scripts: dict[str, Script], told_client: tuple[int, str], tries: int, stream: bool
) -> None:
    async with world({name: [script] for name, script in scripts.items()}) as w:
        told = await w.call(stream=stream)
        assert told.error is not None
        assert (told.error.http_status, told.error.kind.code) == told_client
        assert w.wire.tried == list(scripts)[:tries]
        assert len(told.attempts) == tries
        assert told.status == ("error", told_client[1])
        assert told.cost == 0
        assert told.writer.blocks == []
        assert {w.verdict(name) for name in w.wire.tried} == {"failure"}


async def test_message_of_the_last_5xx_is_passed_on_without_what_it_gives_away() -> None:
    secret = "api-key-of-a at http://a.example/v1 is overloaded"
    async with world(a=[failed(503, secret)]) as w:
        told = await w.call()
        assert told.error is not None
        assert "overloaded" in told.error.message
        for shown in (told.error.message, str(told.row)):
            assert "api-key-of-a" not in shown
            assert "a.example" not in shown


async def test_address_of_an_unreachable_upstream_is_nobodys_business() -> None:
    async with world(a=[REFUSED]) as w:
        told = await w.call()
        assert told.error is not None
        assert "10.0.0.7" not in told.error.message
        assert "10.0.0.7" not in str(told.row)


async def test_attempts_in_the_row_say_when_and_how_long() -> None:
    gate = asyncio.Event()
    async with world(a=[(gate, *failed(500, "boom"))], b=[GOOD]) as w:
        call, writer = w.prepare(), RecordingWriter()
        began = w.clock.now()
        w.begin(call, writer)
        while not w.wire.opening:
            await asyncio.sleep(0)
        w.clock.advance(0.75)
        gate.set()
        told = await w.end(call, writer)
        assert told.row is not None
        assert told.row["attempts"] == [
            {
                "seq": 1,
                "created_at": began,
                "latency_ms": 750,
                "error_code": "upstream_500",
                "error_message": "boom",
            }
        ]


async def fill(w: World, *names: str) -> list[Lease]:
    leases = []
    for name in names:
        actor = w.channels[name]
        while actor.in_use < actor.spec.max_concurrency:
            lease = actor.try_acquire()
            assert isinstance(lease, Lease)
            leases.append(lease)
    return leases


async def test_full_channel_is_passed_over_and_is_no_try() -> None:
    scripts = {"a": [GOOD], "b": [failed(500)], "c": [failed(500)], "d": [GOOD]}
    async with world(scripts) as w:
        leases = await fill(w, "a")
        told = await w.call()
        assert w.wire.tried == ["b", "c", "d"]
        assert told.status == ("success", None)
        assert told.row is not None
        assert told.row["detail"]["passed_over"] == {"a": "full"}
        for lease in leases:
            lease.release("abandoned")


@pytest.mark.parametrize("why", ["full", "open"])
async def test_no_channel_to_be_had_is_503_at_no_cost(why: str, expect_log: Any) -> None:
    expect_log("channel_opened", required=why == "open")

    async with world(a=[GOOD], b=[GOOD]) as w:
        leases = await fill(w, "a", "b")
        for lease in leases:
            if why == "open":
                lease.release("failure")
        await w.settled()
        told = await w.call()
        assert told.error is not None
        assert (told.error.http_status, told.error.kind.code) == (503, "no_channel_available")
        assert told.status == ("rejected", "no_channel_available")
        assert ("busy" in told.error.message) == (why == "full")
        assert told.error.headers == {"Retry-After": "1" if why == "full" else "10"}
        assert (told.cost, told.attempts, w.wire.tried) == (0, [], [])
        for lease in leases:
            lease.release("abandoned")


@pytest.mark.parametrize(
    ("model", "spoken", "named"),
    [
        (make_model("a", endpoint_type="images_generations"), "chat", ""),
        (make_model("m"), "chat", ""),
        (make_model("a"), "messages", " It is served on: messages."),
    ],
    ids=["media model", "bound to a channel that is gone", "served on another protocol"],
)
async def test_model_without_a_channel_on_this_protocol_is_503_not_to_be_repeated(
    model: Any, spoken: str, named: str
) -> None:
    specs = [make_channel("a", protocols=frozenset({spoken}))]
    async with world(a=[GOOD], channels=specs, model=model) as w:
        told = await w.call()
        assert told.error is not None
        assert (told.error.http_status, told.error.kind.code) == (503, "no_channel_available")
        assert told.error.message == f"No channel serves this model on this protocol.{named}"
        assert told.error.headers == {"x-should-retry": "false"}
        assert told.status == ("rejected", "no_channel_available")
        assert w.wire.tried == []


async def test_channel_removed_in_the_meantime_is_passed_over() -> None:
    gate = asyncio.Event()
    async with world(a=[(gate, *failed(500))], b=[GOOD], c=[GOOD]) as w:
        call, writer = w.prepare(), RecordingWriter()
        w.begin(call, writer)
        while not w.wire.opening:
            await asyncio.sleep(0)
        w.channels.configure({"c": make_channel("c")})
        gate.set()
        told = await w.end(call, writer)
        assert w.wire.tried == ["a", "c"]
        assert told.status == ("success", None)
        assert told.row is not None
        assert told.row["detail"]["passed_over"] == {"b": "removed"}


async def test_head_alone_commits_to_nothing() -> None:
    async with world(a=[(Head(), 5, UpstreamCut())], b=[GOOD_STREAM]) as w:
        told = await w.call(stream=True)
        assert told.writer.sent == sse.delta("Hi") + sse.DONE


QUIET = 0.03  # seconds
# Before the head, after it, and after what is no event.
QUIET_SCRIPTS: dict[str, Script] = {
    "nothing": (FOR_EVER, Head()),
    "a head": answer(FOR_EVER),
    "comments": answer(*[step for _ in range(40) for step in (sse.KEEP_ALIVE, 0.005)], FOR_EVER),
    "usage": answer(sse.usage_event(10, 1), FOR_EVER),
}


def watched(*names: str, seconds: float | None = QUIET) -> list[ChannelSpec]:
    health = HealthSpec(failures=3, first_event_seconds=seconds)
    return [make_channel(name, priority=n, health=health) for n, name in enumerate(names)]


@pytest.mark.parametrize("script", QUIET_SCRIPTS.values(), ids=QUIET_SCRIPTS)
async def test_silent_stream_is_left_for_the_next_channel(script: Script) -> None:
    async with world(a=[script], b=[GOOD_STREAM], channels=watched("a", "b")) as w:
        told = await w.call(stream=True)
        assert told.writer.sent == sse.delta("Hi") + sse.DONE
        assert (told.status, told.attempts) == (("success", None), ["upstream_unreachable"])
        assert told.cost == 10 * 1000 + 10_000
        assert (w.verdict("a"), w.verdict("b")) == ("failure", "success")
        assert told.row is not None
        assert [attempt[3] for attempt in told.row["detail"]["tried"]] == ["silent", "ok"]


async def test_of_a_whole_response_the_head_alone_has_to_be_in_time() -> None:
    slow = answer(2 * QUIET, sse.whole(usage=sse.usage_of(10, 1)))
    async with world(a=[slow, (FOR_EVER, Head())], b=[GOOD], channels=watched("a", "b")) as w:
        assert (await w.call()).attempts == []
        assert (await w.call()).attempts == ["upstream_unreachable"]
        assert w.wire.tried == ["a", "a", "b"]


async def test_error_whose_body_is_late_and_a_stream_that_pauses_are_not_silent() -> None:
    late = answer(2 * QUIET, sse.error_body("no"), status=400)
    paused = answer(sse.delta("Hi"), 2 * QUIET, sse.usage_event(10, 1), sse.DONE)
    async with world(a=[late, paused], b=[GOOD_STREAM], channels=watched("a", "b")) as w:
        told = await w.call(stream=True)
        assert told.error is not None
        assert told.error.http_status == 400
        told = await w.call(stream=True)
        assert told.status == ("success", None)
        assert w.wire.tried == ["a", "a"]


async def test_silence_of_a_model_on_a_channel_is_its_own_matter() -> None:
    model = make_model(Binding("a"), Binding("b", first_event_seconds=QUIET), "c")
    specs = watched("a", "b", "c", seconds=None)
    scripts: dict[str, list[Script]] = {
        "a": [answer(2 * QUIET, *GOOD_STREAM[1:]), REFUSED],
        "b": [answer(FOR_EVER)],
        "c": [GOOD_STREAM],
    }
    async with world(scripts, channels=specs, model=model) as w:
        assert (await w.call(stream=True)).status == ("success", None)
        assert (await w.call(stream=True)).attempts == ["upstream_unreachable"] * 2
        assert w.wire.tried == ["a", "a", "b", "c"]


async def test_three_silent_channels_are_an_unreachable_upstream() -> None:
    scripts = {name: [answer(FOR_EVER)] for name in "abcd"}
    async with world(scripts, channels=watched(*scripts)) as w:
        told = await w.call(stream=True)
        assert told.error is not None
        assert told.error.http_status == 502
        assert told.status == ("error", "upstream_unreachable")
        assert (w.wire.tried, told.cost) == (["a", "b", "c"], 0)
