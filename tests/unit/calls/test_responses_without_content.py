"""A 2xx without an answer is none; a stream that says why it stopped needs no terminator."""

import asyncio
import json
from collections.abc import Callable
from typing import Any, NamedTuple

from channels.errors import UpstreamCut
from channels.http.interfaces import UpstreamRequest
from channels.json.lenient import BYTE_ORDER_MARK
from channels.registry import HealthSpec
from channels.translation.paths import TRANSLATIONS, Translation
from gw.calls.chat_request import UpstreamPlan
from tests.support.aio import eventually
from tests.support.rows import cases, each
from tests.support.specs import make_channel
from tests.unit.calls import relaying, sse
from tests.unit.calls.test_keep_alive import ticks
from tests.unit.calls.test_translated_streams import ended_well, translated
from tests.unit.calls.world import CallResult, Script, response_of, world
from tests.unit.translation.translated import read_body

GOOD = response_of(sse.whole(usage=sse.usage_of(10, 1)))
USAGE = {"prompt_tokens": 20, "completion_tokens": 10}
EMPTY = json.dumps({"id": "c", "model": "m", "choices": [], "usage": USAGE}).encode()
FILTER = sse.event({"id": "", "choices": [], "prompt_filter_results": []})
USED = sse.usage_event(20, 10)
FAILED = {"message": "The provider stopped.", "code": 502}


def choice(**members: object) -> bytes:
    """A whole answer with one choice."""
    return json.dumps({"id": "c", "choices": [{"index": 0, **members}], "usage": USAGE}).encode()


@cases(
    "body",
    json.dumps({"choices": [None], "usage": USAGE}).encode(),
    choice(),
    choice(message=None, finish_reason=None),
    choice(message={"content": ""}, finish_reason="error", error=FAILED),
)
async def test_choice_that_says_nothing_is_none(body: bytes) -> None:
    async with world(a=[response_of(body)], b=[GOOD]) as w:
        assert (await w.call()).status == ("success", None)
        assert w.http.tried == ["a", "b"]


@cases("members", {"message": {"content": ""}}, {"finish_reason": "content_filter"})
async def test_choice_without_words_is_one(members: dict[str, object]) -> None:
    async with world(a=[response_of(choice(**members))], b=[GOOD]) as w:
        result = await w.call()
        assert (w.http.tried, result.tokens) == (["a"], (20, 10, 0))


async def test_byte_order_mark_is_no_part_of_an_answer() -> None:
    body = choice(message={"content": "Hello"})
    async with world(a=[response_of(BYTE_ORDER_MARK + body)], b=[GOOD]) as w:
        result = await w.call()
        assert (w.http.tried, result.tokens) == (["a"], (20, 10, 0))
        assert result.writer.sent == body


@each("stream", [False, True])
@each("usage", [False, True])
@cases(
    "pieces",
    (sse.DONE,),
    (FILTER, sse.DONE),
    (FILTER + sse.DONE,),
    (USED, sse.DONE),
    (FILTER, USED + sse.DONE),
    (b": waiting\n\n", sse.DONE),
    (FILTER.replace(b"\n", b"\r\n"), sse.DONE),
    (FILTER,),
)
async def test_answer_without_a_choice_is_tried_elsewhere_and_costs_nothing(
    pieces: tuple[bytes, ...], usage: bool, stream: bool
) -> None:
    script = response_of(*pieces) if stream else response_of(EMPTY)
    good = response_of(sse.delta("Hello", finish="stop"), sse.DONE) if stream else GOOD
    async with world(a=[script], b=[good]) as w:
        result = await w.call(stream=stream, usage=stream and usage)
        assert result.status == ("success", None)
        assert w.http.tried == ["a", "b"]
        assert b"prompt_filter_results" not in result.writer.sent
    async with world(a=[script]) as w:
        result = await w.call(stream=stream, usage=stream and usage)
        assert (result.status, result.cost) == (("error", "upstream_error"), 0)
        assert result.error is not None
        assert result.error.http_status == 502
        assert result.writer.sent == b""


FROM_CHAT = [one for one in TRANSLATIONS.values() if one.upstream == "chat"]
# Of each protocol: a body without an answer, then what comes before the answer of a stream, its
# end, and an error.
_MESSAGE: dict[str, object] = {
    "id": "m",
    "type": "message",
    "content": [],
    "stop_reason": None,
    "usage": {},
}
_RESPONSE: dict[str, object] = {"id": "r", "status": "in_progress", "output": [], "tools": []}
_COMPLETED = {**_RESPONSE, "status": "completed", "usage": {"input_tokens": 5, "output_tokens": 1}}
_PROMPT = {"responseId": "r", "usageMetadata": {"promptTokenCount": 5}}
_FAILURE = {"error": FAILED}


class Nothing(NamedTuple):
    """A response without an answer: whole, and what its stream consists of."""

    whole: bytes
    begin: bytes
    end: bytes
    error: bytes


NOTHING = {
    "chat": Nothing(EMPTY, FILTER, sse.DONE, sse.event(_FAILURE)),
    "messages": Nothing(
        json.dumps(_MESSAGE).encode(),
        sse.event({"type": "message_start", "message": _MESSAGE}) + sse.event({"type": "ping"}),
        sse.event({"type": "message_stop"}),
        sse.event({"type": "error", **_FAILURE}),
    ),
    "native": Nothing(
        json.dumps(_PROMPT).encode(), sse.event(_PROMPT), sse.event(_PROMPT), sse.event(_FAILURE)
    ),
    "responses": Nothing(
        json.dumps(_COMPLETED).encode(),
        sse.event({"type": "response.created", "response": _RESPONSE})
        + sse.event({"type": "response.in_progress", "response": _RESPONSE}),
        sse.event({"type": "response.completed", "response": _COMPLETED}),
        sse.event({"type": "response.failed", "response": {**_RESPONSE, **_FAILURE}}),
    ),
}
# (client, upstream): each protocol by itself, and each translation.
WAYS = [*((one, one) for one in NOTHING), *TRANSLATIONS]
ANSWERS = {
    "chat": sse.delta("Hello"),
    "messages": sse.event({"type": "content_block_start", "index": 0, "content_block": {}}),
    "native": sse.event({"candidates": [{"content": {"parts": [{"text": "Hello"}]}}]}),
    "responses": sse.event({"type": "response.output_item.added", "item": {"type": "reasoning"}}),
}


KEEP_ALIVE_TICKS = 16  # the silence after which a stream speaks


def planned(way: tuple[str, str]) -> Callable[[UpstreamRequest], UpstreamPlan]:
    """Speak to the upstream as its client does, or over a translation."""
    client, upstream = way
    if client == upstream:
        return relaying.untranslated(upstream)
    return relaying.translated(client, upstream)


@cases("how", "whole", "in one read", "in two reads", "cut", "error", "error in one read")
@each("way", WAYS)
async def test_response_without_an_answer_is_tried_elsewhere_and_costs_nothing(
    way: tuple[str, str], how: str
) -> None:
    nothing = NOTHING[way[1]]
    steps = {
        "whole": (nothing.whole,),
        "in one read": (nothing.begin + nothing.end,),
        "in two reads": (nothing.begin, nothing.end),
        "cut": (nothing.begin,),
        "error": (nothing.begin, nothing.error),
        "error in one read": (nothing.begin + nothing.error,),
    }[how]
    script, plan, is_stream = response_of(*steps), planned(way), how != "whole"
    async with world(a=[script], b=[script]) as w:
        result = await w.call(stream=is_stream, plan=plan)
        assert w.http.tried == ["a", "b"]
        assert (result.status, result.cost) == (("error", "upstream_error"), 0)
        if how.startswith("error") and way[0] == way[1]:
            # No other channel is left: its own client receives the stream as it is.
            assert result.writer.sent == b"".join(steps)
            return
        assert result.error is not None
        assert result.error.http_status == 502
        assert result.writer.sent == b""


NOT_ANSWERS: list[tuple[str, Any]] = [
    ("native", {"candidates": []}),
    ("native", {"candidates": [{}]}),
    ("native", {"candidates": [None]}),
    ("native", {"candidates": [{"index": 0}]}),
    ("messages", {"content": ""}),
    ("messages", {"content": {}}),
    ("messages", {"content": [None]}),
    ("messages", {"content": None}),
    ("messages", {"content": [], "stop_reason": ""}),
    *(("responses", {"output": output, "status": "completed"}) for output in (None, [None])),
    *(
        ("responses", {"output": [], "status": status})
        for status in ("", "in_progress", "queued", "incomplete", "cancelled", "failed")
    ),
]
ENDED_AT_ONCE: list[tuple[str, Any]] = [
    ("native", {"candidates": [{"finishReason": "STOP"}]}),
    ("native", {"promptFeedback": {"blockReason": "SAFETY"}}),
    ("messages", {"content": [], "stop_reason": "end_turn"}),
    ("messages", {"content": [{"type": "text", "text": ""}]}),
    ("responses", {"output": [], "incomplete_details": {"reason": "max_output_tokens"}}),
    ("responses", {"output": [{"type": "message", "content": []}]}),
]


def test_answer_has_a_part_or_a_reason_to_stop() -> None:
    for expected, bodies in ((False, NOT_ANSWERS), (True, ENDED_AT_ONCE)):
        for protocol, body in bodies:
            _, meter = read_body(protocol, json.dumps(body).encode())
            assert meter.has_answer is expected, (protocol, body)


@each("protocol", NOTHING)
async def test_answer_that_is_late_does_not_hold_back_what_precedes_it_for_long(
    protocol: str,
) -> None:
    comes, begin, answer = asyncio.Event(), NOTHING[protocol].begin, ANSWERS[protocol]
    patient = make_channel("a", health=HealthSpec(first_event_seconds=KEEP_ALIVE_TICKS + 1))
    async with world(a=[response_of(begin, comes, answer)], channels=[patient]) as w:
        call, writer = w.start(stream=True, plan=relaying.untranslated(protocol))
        await eventually(lambda: [one.pieces_taken for one in w.http.responses] == [1])
        assert writer.sent == b""
        await ticks(KEEP_ALIVE_TICKS)
        assert writer.sent == begin
        await ticks(2)  # no other channel could be tried any more
        comes.set()
        result = await w.end(call, writer)
        assert result.writer.sent == begin + answer


async def test_events_before_the_first_choice_are_sent_with_it() -> None:
    pieces = (FILTER, USED, sse.delta("Hello"), sse.delta(finish="stop"), sse.DONE)
    for sent in (pieces, (b"".join(pieces),), (b"".join(pieces[:2]), b"".join(pieces[2:]))):
        async with world(a=[response_of(*sent)] * 2) as w:
            result = await w.call(stream=True, usage=True)
            assert (result.status, result.writer.sent) == (("success", None), b"".join(pieces))
            result = await w.call(stream=True)
            assert result.writer.sent == b"".join((pieces[0], *pieces[2:]))


# Streams without `[DONE]`.
STOPPED = (sse.delta("Hello"), sse.delta(finish="stop"), USED)


async def ended(script: Script, way: Translation | None) -> CallResult:
    async with world(a=[script]) as w:
        if way is None:
            return await w.call(stream=True, usage=True)
        return await w.call(stream=True, plan=lambda request: translated(way, request))


@each(
    "pieces",
    [
        STOPPED,
        STOPPED[:2],
        (b"".join(STOPPED),),
        (*STOPPED[:2], USED.rstrip(b"\n")),
        (STOPPED[0], USED, STOPPED[1].rstrip(b"\n") + b"\r\n"),
        (*STOPPED, b": bye\n"),
    ],
)
@each("way", [None, *FROM_CHAT])
async def test_stream_that_stated_why_it_stopped_needs_no_terminator(
    pieces: tuple[bytes, ...], way: Translation | None
) -> None:
    result = await ended(response_of(*pieces), way)
    assert result.status == ("success", None)
    if len(pieces) != 2:
        assert result.tokens == (20, 10, 0)
    assert not result.writer.is_cut
    if way is None:
        assert result.writer.sent == b"".join(pieces)  # nothing is added natively
    else:
        assert ended_well(way.client, result.writer.sent, is_array=False)


@cases(
    "script",
    response_of(*STOPPED, UpstreamCut()),
    response_of(*STOPPED, b"data: {"),
    response_of(*STOPPED, connection="ends the body"),
    response_of(sse.delta("Hello"), USED),
    response_of(sse.delta("Hello", finish=""), USED),
    # One of two choices has not stopped.
    response_of(
        sse.event(
            {
                "choices": [
                    {"index": 0, "delta": {"content": "a"}, "finish_reason": "stop"},
                    {"index": 1, "delta": {"content": "b"}},
                ]
            }
        )
    ),
)
@each("way", [None, *FROM_CHAT])
async def test_stream_that_may_be_cut_is_cut(script: Script, way: Translation | None) -> None:
    result = await ended(script, way)
    assert result.status == ("error", "upstream_error")
    if way is not None:
        assert not ended_well(way.client, result.writer.sent, is_array=False)


# A messages stream, whose terminator some upstreams leave out.
FROM_MESSAGES = [one for one in TRANSLATIONS.values() if one.upstream == "messages"]
STATED = sse.event(
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hello"}}
)
WHY = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}}


@each("pieces", [(sse.event(WHY),), (sse.event(WHY), sse.DONE), (sse.event(WHY).rstrip(),)])
@each("way", FROM_MESSAGES)
async def test_messages_stream_that_stated_why_it_stopped_needs_no_terminator(
    pieces: tuple[bytes, ...], way: Translation
) -> None:
    result = await ended(response_of(STATED, *pieces), way)
    assert result.status == ("success", None)
    assert result.logged["output_tokens"] == 3
    assert ended_well(way.client, result.writer.sent, is_array=False)


@cases(
    "script",
    response_of(STATED, sse.event(WHY), UpstreamCut()),
    response_of(STATED, sse.event(WHY), connection="ends the body"),
    response_of(STATED, sse.event({**WHY, "delta": {"stop_reason": None}})),
)
@each("way", FROM_MESSAGES)
async def test_messages_stream_that_may_be_cut_is_cut(script: Script, way: Translation) -> None:
    result = await ended(script, way)
    assert result.status == ("error", "upstream_error")
