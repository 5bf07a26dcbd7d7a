"""Whatever upstreams send and whenever clients leave: one settlement, no slot, nothing else left.

Several calls run at once over the same few channels, the ledger's connection is lost now and then;
what must hold is checked on leaving `world` and below.
"""

import asyncio
import itertools
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from channels.errors import UpstreamCut, UpstreamMalformed, UpstreamUnreachable
from gw.calls.chat_request import ChatCall
from tests.support.aio import run
from tests.support.logs import ExpectLog
from tests.unit.calls import sse
from tests.unit.calls.world import (
    FOR_EVER,
    CallResult,
    Head,
    RecordingWriter,
    Script,
    Step,
    World,
    world,
)


@pytest.fixture(autouse=True)
def key_refusals(expect_log: ExpectLog) -> None:
    """An upstream may refuse the channel's key here, which is told."""
    expect_log("channel_key_refused", required=False)


turns = st.integers(min_value=1, max_value=6)
trouble = st.sampled_from([UpstreamCut, UpstreamMalformed, UpstreamUnreachable])

EVENTS = (
    sse.delta("Hello"),
    sse.delta("x" * 40),
    sse.delta(finish="stop"),
    sse.delta("y", usage=sse.usage_of(9, 1)),
    sse.usage_event(40, 4, 8),
    sse.usage_event(0, 0),
    sse.usage_event(10**15, 10**15),
    sse.event({"choices": [], "usage": {"prompt_tokens": -1, "completion_tokens": 1}}),
    sse.error_event(),
    sse.KEEP_ALIVE,
    b"data: {broken\n\n",
    b"\n\n",
    b"event: ping\r\ndata: {}\r\n\r\n",
    sse.DONE,
    sse.DONE,
)
BODIES = (
    sse.whole(usage=sse.usage_of(40, 4)),
    sse.whole("no usage"),
    sse.whole("", usage=sse.usage_of(10**15, 1)),
    sse.error_body("not today"),
    b"",
    b"[]",
    b"<html>",
)


def cut_up(body: bytes, cuts: list[int]) -> list[bytes]:
    """The body in pieces."""
    places = sorted({0, len(body), *(cut % (len(body) + 1) for cut in cuts)})
    return [body[a:b] for a, b in itertools.pairwise(places) if a < b]


@st.composite
def bodies(draw: st.DrawFn) -> list[Step]:
    whole = st.sampled_from(BODIES)
    stream = st.lists(st.sampled_from(EVENTS), max_size=6).map(b"".join)
    body = draw(st.one_of(stream, stream, whole))
    steps: list[Step] = []
    for piece in cut_up(body, draw(st.lists(st.integers(0, 10_000), max_size=4))):
        steps.append(piece)
        if draw(st.booleans()):
            steps.append(draw(turns))
    return steps


@st.composite
def scripts(draw: st.DrawFn) -> Script:
    """Anything a channel may do with one request."""
    before: list[Step] = draw(st.lists(turns, max_size=2))
    fate = draw(st.sampled_from(["answer"] * 6 + ["fails", "hangs"]))
    if fate == "fails":
        return [*before, draw(trouble)()]
    if fate == "hangs":
        return [*before, FOR_EVER]
    status = draw(st.sampled_from([200] * 8 + [201, 302, 400, 401, 429, 500, 503, 529]))
    end: list[Step] = draw(
        st.sampled_from([[]] * 4 + [[UpstreamCut()], [UpstreamMalformed()], [FOR_EVER]])
    )
    return [*before, Head(status, {"retry-after": "3"}), *draw(bodies()), *end]


@st.composite
def clients(draw: st.DrawFn) -> dict[str, Any]:
    """What is asked, and how the one who asks behaves."""
    return {
        "stream": draw(st.booleans()),
        "usage": draw(st.booleans()),
        "begins_after": draw(st.integers(0, 5)),
        "leaves": draw(st.sampled_from(["", "", "leave", "leave", "cut"])),
        "leaves_turn": draw(st.integers(1, 60)),
        "leaves_after": draw(st.none() | st.integers(0, 3)),
    }


async def serve(w: World, client: dict[str, Any]) -> CallResult:
    """One client's call to its end."""
    for _ in range(client["begins_after"]):
        await asyncio.sleep(0)
    stream = client["stream"]
    call = w.prepare(stream=stream, usage=stream and client["usage"])
    writer = RecordingWriter(leaves_after=client["leaves_after"])
    task = w.begin(call, writer)
    if client["leaves"]:
        for _ in range(client["leaves_turn"]):
            await asyncio.sleep(0)
        if not task.done():
            (writer.leave if client["leaves"] == "leave" else writer.cut)()
    return await w.end(call, writer)


def check(w: World, result: CallResult) -> None:
    """What holds of every call that was admitted, however it went."""
    call_id, writer = result.call.facts.call_id, result.writer
    kinds = [kind for _, _, entry_of, kind, _, _ in w.ledger.entries if entry_of == call_id]
    assert kinds in (["hold", "settle"], ["hold", "refund"], []), kinds
    assert writer.is_row_owned
    assert len(result.attempts) <= 3
    if result.error is not None:  # an error, or an answer; never something of both
        assert writer.blocks == []
    if not writer.blocks and writer.leaves_after != 0:
        assert result.cost == 0
    assert 0 <= result.cost < 10**9
    if result.status[0] == "success":
        assert writer.has_ended or writer.client_gone  # behind the terminator, say
        assert isinstance(result.call, ChatCall)
        is_stream = result.call.request.parsed.stream
        assert writer.client_gone or not is_stream or b"[DONE]\n\n" in writer.sent
    if result.status[0] == "rejected":
        assert result.error is not None


async def time_passes(w: World) -> None:
    """Let the ledger's writer try again as soon as it waits."""
    while True:
        if w.clock.sleepers:
            w.clock.advance(0.2)
        await asyncio.sleep(0)


@settings(
    max_examples=120,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    given=st.lists(scripts(), min_size=1, max_size=4),
    callers=st.lists(clients(), min_size=1, max_size=3),
    slots=st.integers(1, 3),
    loses=st.tuples(st.integers(0, 1), st.integers(0, 1)),
)
def test_every_call_is_settled_once_and_leaves_nothing_behind(
    expect_log: ExpectLog,
    given: list[Script],
    callers: list[dict[str, Any]],
    slots: int,
    loses: tuple[int, int],
) -> None:
    for name in ("ledger_unreachable", "channel_opened", "usage_doubted"):
        expect_log(name, required=False)

    async def main() -> None:
        scripted = {name: [script] for name, script in zip("abcd", given, strict=False)}
        async with world(scripted, timeout_seconds=0.02, slots=slots) as w:
            w.ledger.lose_before, w.ledger.lose_after = loses
            passing = asyncio.ensure_future(time_passes(w))
            result = await asyncio.gather(*(serve(w, client) for client in callers))
            passing.cancel()
            for one in result:
                check(w, one)

    run(main())
