"""Streams that go wrong once they have begun, and how they end (reference 1.7)."""

import asyncio
import gc
from typing import Any

from channels.dialects.gemini.dialect import DIALECT as GEMINI
from channels.errors import UpstreamCut, UpstreamMalformed
from channels.http.interfaces import UpstreamRequest
from gw.calls.attempts import CLOSE_SECONDS
from gw.calls.chat_request import UpstreamPlan
from gw.calls.relay import ENDING_SECONDS, REST_SECONDS
from gw.calls.stream import EARLY_BYTES_MAX, StreamPipeline
from tests.support.aio import eventually, jump
from tests.support.rows import cases, each
from tests.unit.calls import sse
from tests.unit.calls.relaying import translated, untranslated
from tests.unit.calls.world import (
    CUT,
    FOR_EVER,
    MESSAGES_TOKENS,
    SUCCESS,
    Case,
    RecordingWriter,
    Script,
    Step,
    World,
    response_of,
    streamed,
    world,
)

HELLO = sse.delta("Hello")
GOOD = response_of(HELLO, sse.DONE)


async def test_request_is_kept_until_the_first_event_and_no_longer() -> None:
    """Until then another channel may have to be asked; a stream may last for minutes."""

    begins, ends = asyncio.Event(), asyncio.Event()
    failed = response_of(sse.error_body("later"), status=500)
    good = response_of(begins, HELLO, ends, sse.DONE)
    async with world(a=[failed], b=[good]) as w:
        call, writer = w.prepare(stream=True), RecordingWriter()
        kept = repr(call.request)
        w.begin(call, writer)
        await eventually(lambda: w.http.tried == ["a", "b"])
        assert (repr(call.request), writer.has_forgotten) == (kept, False)
        begins.set()
        await eventually(lambda: writer.sent == HELLO)
        assert repr(call.request) == "<PlannedRequest chat 0 bytes>" != kept
        assert writer.has_forgotten
        ends.set()
        result = await w.end(call, writer)
        assert result.status == ("success", None)
        assert result.logged["detail"]["request"], "what it asked for is still told"


def pipelines() -> list[object]:
    return [one for one in gc.get_objects() if isinstance(one, StreamPipeline)]


async def test_stream_that_has_ended_is_freed_without_the_garbage_collector() -> None:
    async with world(a=[GOOD] * 5) as w:
        gc.collect()
        gc.disable()
        try:
            before = {id(one) for one in pipelines()}  # of other tests
            for _ in range(5):
                assert (await w.call(stream=True)).status == ("success", None)
            left = [one for one in pipelines() if id(one) not in before]
        finally:
            gc.enable()
    assert len(left) < 2  # the last one


async def test_client_that_reads_slowly_holds_back_the_reading_of_the_upstream() -> None:
    reads = asyncio.Event()
    steps = [sse.delta(f"piece {n}") for n in range(50)]
    async with world(a=[response_of(*steps, sse.DONE)]) as w:
        call, writer = w.start(RecordingWriter(reads=reads), stream=True)
        await eventually(lambda: writer.waiting == 1)
        for _ in range(200):
            await asyncio.sleep(0)
        (response,) = w.http.responses
        assert (len(writer.blocks), response.pieces_taken) == (1, 1)
        reads.set()
        result = await w.end(call, writer)
        assert result.writer.sent == b"".join(steps) + sse.DONE
        assert result.status == ("success", None)


COMMENT = b": still here\n\n"
# A stream, and its terminator.
STREAMS: dict[str, tuple[bytes, bytes]] = {
    "chat": (HELLO, sse.DONE),
    "messages": (
        sse.event({"type": "content_block_delta", "delta": {"type": "text_delta", "text": "Hi"}}),
        b"event: message_stop\n" + sse.event({"type": "message_stop"}),
    ),
    "responses": (
        sse.event({"type": "response.output_text.delta", "delta": "Hi"}),
        sse.event({"type": "response.completed", "response": {"id": "r", "status": "completed"}}),
    ),
}
RESTS: dict[str, list[bytes]] = {
    "the terminator of another protocol": [sse.DONE],
    "comments": [b": bye\n\n", b": bye\r\n\r\n"],
    "half an event": [b'data: {"choices": [{"del'],
    "events and more": [sse.usage_event(9, 9), sse.delta("late"), b"\n", b"x"],
}


@each("rest", RESTS.values())
@each("comes", ["in one read", "with the terminator", "later"])
@each("protocol", STREAMS)
async def test_rest_is_passed_on_and_changes_nothing(
    protocol: str, comes: str, rest: list[bytes]
) -> None:
    text, end = STREAMS[protocol]
    steps: dict[str, list[Step]] = {
        "in one read": [b"".join((text, end, *rest))],
        "with the terminator": [text, b"".join((end, *rest))],
        "later": [text, end, 3, *rest],
    }
    async with world(a=[response_of(text, end), response_of(*steps[comes])]) as w:
        without = await w.call(stream=True, plan=untranslated(protocol))
        result = await w.call(stream=True, plan=untranslated(protocol))
        assert result.writer.sent == b"".join((text, end, *rest))
        assert result.status == ("success", None)
        assert (result.tokens, result.cost) == (without.tokens, without.cost)
        assert w.http.responses[1].has_ended  # and its connection may carry another request


async def begun(w: World, writer: RecordingWriter) -> asyncio.Task[None]:
    """A call whose terminator has gone out, and which is settled, though its upstream goes on."""
    task = w.begin(w.prepare(stream=True), writer)
    await eventually(lambda: writer.sent.startswith(HELLO + sse.DONE))
    await w.settled()
    assert len(w.ledger.rows) == 1
    assert w.verdict("a") == "success"
    assert not writer.has_ended
    return task


async def test_comments_before_the_first_event_are_no_event_however_many() -> None:
    many = COMMENT * (EARLY_BYTES_MAX // len(COMMENT) + 1)
    async with world(
        a=[response_of(many, many)], b=[response_of(many, many, HELLO, sse.DONE)]
    ) as w:
        result = await w.call(stream=True)
        assert result.status == ("success", None)
        assert result.writer.sent == HELLO + sse.DONE


@cases("steps", (FOR_EVER,), (COMMENT, 2) * 50 + (FOR_EVER,))
async def test_upstream_that_does_not_end_is_let_go_in_the_end(steps: Script) -> None:
    async with world(a=[response_of(HELLO, sse.DONE, *steps)]) as w:
        writer = RecordingWriter()
        task = await begun(w, writer)
        comments = steps.count(COMMENT)
        await eventually(lambda: writer.sent.count(COMMENT) == comments)
        jump(REST_SECONDS)
        await task
        assert writer.has_ended
        (response,) = w.http.responses
        assert (response.has_ended, response.is_closed) == (False, True)


async def test_client_that_does_not_read_the_rest_is_not_waited_for_either() -> None:
    reads, goes_on = asyncio.Event(), asyncio.Event()
    reads.set()
    async with world(a=[response_of(HELLO, sse.DONE, goes_on, COMMENT, COMMENT)]) as w:
        writer = RecordingWriter(reads=reads)
        task = await begun(w, writer)
        reads.clear()
        goes_on.set()
        await eventually(lambda: writer.waiting == 1)
        jump(REST_SECONDS)
        await task
        assert writer.has_ended
        reads.set()


@cases("leaves", True, False)
async def test_client_that_leaves_behind_the_terminator_has_had_its_answer(leaves: bool) -> None:
    async with world(a=[response_of(HELLO, sse.DONE, COMMENT, FOR_EVER)]) as w:
        call, writer = (w.prepare(stream=True), RecordingWriter(leaves_after=None if leaves else 2))
        w.begin(call, writer)
        await eventually(lambda: sse.DONE in writer.sent)
        if leaves:
            writer.leave()
        result = await w.end(call, writer)
        assert result.status == ("success", None)
        assert w.http.responses[0].is_closed


async def test_translated_stream_ends_with_its_terminator() -> None:
    async with world(a=[response_of(HELLO, sse.DONE + sse.DONE, sse.delta("late"), FOR_EVER)]) as w:
        call, writer = w.start(stream=True, plan=translated("messages", "chat"))
        await eventually(lambda: writer.has_ended)  # nobody waits for the upstream's end
        jump(CLOSE_SECONDS)
        result = await w.end(call, writer)
        assert result.status == ("success", None)
        assert b"late" not in result.writer.sent
        assert result.writer.sent.count(b"message_stop") == 2  # the event's name, and its type


def message_of(text: str, *, index: int = 0, **candidate: Any) -> bytes:
    """A chunk of native-content."""
    content = {"parts": [{"text": text}], "role": "model"}
    return sse.event({"candidates": [{"content": content, "index": index, **candidate}]})


def in_gemini(request: UpstreamRequest) -> UpstreamPlan:
    return UpstreamPlan(request, GEMINI)


ENDED = message_of("", finishReason="STOP")


async def test_upstream_that_leaves_a_whole_answer_open_is_not_waited_for_long() -> None:
    usage = {"promptTokenCount": 9, "candidatesTokenCount": 4}
    late = sse.event({"usageMetadata": usage})
    async with world(a=[response_of(message_of("Hello"), ENDED, late, FOR_EVER)]) as w:
        call, writer = w.start(stream=True, plan=in_gemini)
        await eventually(lambda: [r.pieces_taken for r in w.http.responses] == [3])
        assert writer.sent == message_of("Hello")  # settled first, then the end
        jump(ENDING_SECONDS)
        result = await w.end(call, writer)
        assert result.writer.sent == message_of("Hello") + ENDED + late
        assert (result.status, result.tokens) == (("success", None), (9, 4, 0))


async def test_candidate_that_goes_on_has_all_the_time_of_the_call() -> None:
    goes_on = asyncio.Event()
    steps = (message_of("One"), ENDED, message_of("Two", index=1), goes_on)
    last = message_of("", index=1, finishReason="STOP")
    async with world(a=[response_of(*steps, last)]) as w:
        call, writer = w.start(stream=True, plan=in_gemini)
        await eventually(lambda: b"Two" in writer.sent)
        jump(ENDING_SECONDS)
        goes_on.set()
        result = await w.end(call, writer)
        assert result.writer.sent.endswith(message_of("Two", index=1) + last)
        assert result.status == ("success", None)


STOP, OOPS = sse.delta(finish="stop"), b'event: error\ndata: {"error":  {"message": "lost"}}\n\n'
BEGUN: dict[str, Any] = {
    "status": CUT,
    "tokens": (MESSAGES_TOKENS, 2, 0),
    "tried": "a",
    "verdicts": ["failure"],
}
# Of chat: cut in the middle, never begun again, and the rest behind the terminator.
CUTS: list[Script] = [
    (HELLO, UpstreamCut()),
    (HELLO, b'data: {"choices": [{"del', UpstreamCut()),
    (HELLO,),
    (HELLO, b'data: {"choices": [{"delta": {"content": "x"}}]}'),
    (HELLO, sse.usage_event(MESSAGES_TOKENS, 2)),
    (HELLO, b"data: " + b"x" * (33 * 1024 * 1024)),
    (HELLO, UpstreamMalformed()),
]
LEAK, SHOWN = b": api-key-of-a at http://a.example\n\n", b": [redacted] at http://[host]\n\n"
LEAKS = (HELLO, sse.DONE + LEAK, LEAK[:9], 3, LEAK[9:], b": x")
HI = sse.event({"candidates": [{"content": {"parts": [{"text": "Hi"}]}, "finishReason": "STOP"}]})
ONE, TWO, THREE = (
    message_of("One"),
    message_of("Two", index=1),
    message_of("3", index=1, finishReason="STOP"),
)
CASES = [
    *(
        streamed(
            response_of(*steps), GOOD, sent=HELLO, has_ended=True, error=None, attempts=[], **BEGUN
        )
        for steps in CUTS
    ),
    streamed(response_of(HELLO, STOP), sent=HELLO + STOP, status=SUCCESS),
    streamed(response_of(HELLO, OOPS, sse.DONE), GOOD, sent=HELLO + OOPS + sse.DONE, **BEGUN),
    streamed(response_of(HELLO, OOPS, UpstreamCut()), GOOD, sent=HELLO + OOPS, **BEGUN),
    streamed(
        response_of(HELLO, sse.DONE, COMMENT, UpstreamCut()),
        sent=HELLO + sse.DONE + COMMENT,
        has_ended=True,
        status=SUCCESS,
    ),
    *(
        streamed(response_of(*LEAKS, *end), sent=HELLO + sse.DONE + SHOWN + SHOWN + b": x")
        for end in ((), (UpstreamCut(),))
    ),
    # Of native-content, which has no terminator.
    streamed(response_of(HI, b": bye"), plan=in_gemini, sent=HI + b": bye", status=SUCCESS),
    streamed(
        response_of(ONE, ENDED, TWO, THREE),
        plan=in_gemini,
        sent=ONE + ENDED + TWO + THREE,
        status=SUCCESS,
    ),
    streamed(response_of(ONE, TWO, ENDED), plan=in_gemini, sent=ONE + TWO + ENDED, status=CUT),
]
DELTA = sse.event({"type": "content_block_delta", "delta": {"text": "Hello"}})
# The last event of a dialect, without its blank line: passed on as it is.
CASES += [
    streamed(
        response_of(begun, last + end),
        plan=untranslated(protocol),
        sent=begun + last + end,
        status=SUCCESS,
    )
    for protocol, begun, last in (
        ("chat", HELLO, b"data: [DONE]"),
        ("messages", DELTA, b'event: message_stop\ndata: {"type": "message_stop"}'),
        ("native", message_of("Hello"), ENDED.rstrip(b"\n")),
    )
    for end in (b"", b"\n", b"\r\n")
]


@each("case", CASES)
async def test_stream_ends_as_its_upstreams(case: Case) -> None:
    await case.check()
