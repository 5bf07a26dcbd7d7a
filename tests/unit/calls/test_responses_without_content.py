"""A 2xx without an answer is none; a stream that says why it stopped needs no terminator."""

import json

from channels.errors import UpstreamCut
from channels.translation.paths import TRANSLATIONS, Translation
from tests.support.rows import cases, each
from tests.unit.calls import sse
from tests.unit.calls.test_translated_streams import ended_well, translated
from tests.unit.calls.world import CallResult, Script, response_of, world

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
# Bodies of each protocol without an answer, and streams; the last piece ends the response.
NOTHING: dict[str, tuple[bytes, bytes]] = {
    "chat": (EMPTY, FILTER + sse.DONE),
    "messages": (
        b'{"id": "m", "type": "message", "content": [], "stop_reason": null, "usage": {}}',
        sse.event({"type": "message_stop"}),
    ),
    "native": (
        b'{"responseId": "r", "usageMetadata": {"promptTokenCount": 5}}',
        sse.event({"responseId": "r", "usageMetadata": {"promptTokenCount": 5}}),
    ),
    "responses": (
        b'{"id": "r", "output": [], "usage": {"input_tokens": 5, "output_tokens": 1}}',
        sse.event({"type": "response.completed", "response": {"id": "r", "output": []}}),
    ),
}


@each("stream", [False, True])
@each("way", list(TRANSLATIONS.values()))
async def test_answer_without_an_answer_is_none_in_translation(
    way: Translation, stream: bool
) -> None:
    async with world(a=[response_of(NOTHING[way.upstream][stream])]) as w:
        result = await w.call(stream=stream, plan=lambda request: translated(way, request))
        assert (result.status, result.cost) == (("error", "upstream_error"), 0)
        assert result.error is not None
        assert result.error.http_status == 502
        assert result.writer.sent == b""


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
