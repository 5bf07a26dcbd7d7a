"""Whatever stands in an upstream's answer, reading it is no fault of the gateway's, and linear.

Every place of every transcript holds something else in turn that readers of JSON trip over. What
comes of it is an answer, or an error of the upstream's; the guard that would tell of a fault of
ours is never asked. A fixed seed draws some of the cases. What a body or an answer costs grows with
its size and not faster: counted are steps, of a body and of one of twice its size.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from random import Random
from typing import Any

import pytest

from channels.dialects.table import CHAT_DIALECTS
from channels.errors import InvalidRequest, UpstreamError
from channels.exact_redaction import ExactRedaction
from channels.http.interfaces import UpstreamRequest
from channels.json.weight import READ_VALUES_MAX
from channels.offload import jobs
from channels.offload.pool import Helpers
from channels.offload.process import JobTooLong
from channels.translation import kept_tools, paths, session
from gw.calls import chat_upstream, stream
from gw.calls.chat_request import UpstreamPlan
from gw.calls.stream import StreamPipeline
from gw.calls.stream_events import Framing, SseFraming, TranslatedEvents
from loadtests.attacks.body_shapes import HOSTILE_ANSWERS, REPLIES, SHAPES, body_of
from loadtests.attacks.body_shapes import WAYS as SHAPE_WAYS
from tests.support.logs import logs
from tests.support.rows import cases, each
from tests.support.steps import steps_of
from tests.unit.calls.relaying import translated, untranslated
from tests.unit.calls.test_failure_classes import WAYS
from tests.unit.calls.world import ACCOUNT, RecordingWriter, response_of, world
from tests.unit.translation.odd_values import places, replaced

Events = list[bytes]


def sse_event(value: Any) -> bytes:
    """One event with this data."""
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def chat_events(*deltas: Any) -> Events:
    """A chunk for each delta."""
    return [sse_event({"id": "a", "choices": [{"index": 0, "delta": delta}]}) for delta in deltas]


def piece(index: int | None, arguments: str, **more: Any) -> dict[str, Any]:
    """A delta with a piece of a call."""
    function = {"arguments": arguments, **more}
    call: dict[str, Any] = {"function": function} if index is None else {"index": index}
    return {"tool_calls": [{**call, "function": function}]}


def block(index: int, start: dict[str, Any], *deltas: dict[str, Any]) -> Events:
    """A block of the messages protocol that is never stopped."""
    begun = {"type": "content_block_start", "index": index, "content_block": start}
    stated = [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
    return [sse_event(one) for one in (begun, *stated)]


def arguments(text: str) -> dict[str, Any]:
    return {"type": "input_json_delta", "partial_json": text}


def gemini(*parts: Any) -> Events:
    """A chunk for each part."""
    return [sse_event({"candidates": [{"content": {"parts": [part]}}]}) for part in parts]


def response(kind: str, **members: Any) -> bytes:
    return sse_event({"type": f"response.{kind}", **members})


TOOL = {"type": "tool_use", "id": "t", "name": "f", "input": {}}
PARTIAL = {"jsonPath": "$.a", "stringValue": "x", "willContinue": True}

STREAMS: Mapping[str, Mapping[str, Callable[[int], Events]]] = {
    "chat": {
        "text": lambda n: chat_events(*({"content": "x"} for _ in range(n))),
        "comments first": lambda n: [b": x\n\n"] * n + chat_events({"content": "x"}),
        "usage alone": lambda n: (
            chat_events({"content": "x"})
            + [sse_event({"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}})]
            * n
        ),
        "pieces of one call": lambda n: chat_events(
            piece(0, "", name="f"), *(piece(0, "{}") for _ in range(n))
        ),
        "closing pieces": lambda n: chat_events(
            piece(0, '{"a":', name="f"),
            piece(1, "{}", name="g"),
            *(piece(0, '{"b":1},"c":{}') for _ in range(n)),
        ),
        "calls without a name": lambda n: chat_events(*(piece(0, "xxxx") for _ in range(n))),
        "calls": lambda n: chat_events(*(piece(k, "{", name="f") for k in range(n))),
        "calls by id": lambda n: chat_events(
            *({"tool_calls": [{"id": f"c{k}", "function": {"name": "f"}}]} for k in range(n))
        ),
        "calls among text": lambda n: chat_events(
            *(piece(k, "{", name="f") for k in range(n)), *({"content": "x"} for _ in range(n))
        ),
        "thoughts": lambda n: chat_events(*({"reasoning_content": "x"} for _ in range(n))),
    },
    "messages": {
        "text": lambda n: block(0, {"type": "text"}, *([{"type": "text_delta", "text": "x"}] * n)),
        "pieces": lambda n: block(0, TOOL, *([arguments("{}")] * n)),
        "calls": lambda n: [one for k in range(n) for one in block(k, TOOL, arguments("{"))],
        "thoughts": lambda n: block(
            0, {"type": "thinking"}, *([{"type": "thinking_delta", "thinking": "x"}] * n)
        ),
    },
    "native": {
        "text": lambda n: gemini(*([{"text": "x"}] * n)),
        "calls": lambda n: gemini(*([{"functionCall": {"name": "f", "args": {}}}] * n)),
        "partial arguments": lambda n: gemini(
            {"functionCall": {"name": "f", "willContinue": True}},
            *([{"functionCall": {"partialArgs": [PARTIAL], "willContinue": True}}] * n),
        ),
        "thoughts": lambda n: gemini(*([{"text": "x", "thought": True}] * n)),
        "candidates": lambda n: [
            sse_event({"candidates": [{"index": k, "finishReason": "STOP"}]}) for k in range(n)
        ],
    },
    "responses": {
        "text": lambda n: [response("output_text.delta", delta="x", output_index=0)] * n,
        "arguments before the name": lambda n: (
            [response("function_call_arguments.delta", delta="xxxx", output_index=0)] * n
        ),
        "items": lambda n: [
            response(
                "output_item.done", output_index=k, item={"type": "function_call", "name": "f"}
            )
            for k in range(n)
        ],
        "images and citations": lambda n: [
            one
            for k in range(n)
            for one in (
                response(
                    "output_item.done",
                    output_index=k,
                    item={"type": "image_generation_call", "result": "aaaa"},
                ),
                response(
                    "output_text.annotation.added",
                    output_index=0,
                    annotation={
                        "type": "url_citation",
                        "url": "u",
                        "start_index": k,
                        "end_index": k,
                    },
                ),
            )
        ],
    },
}


NO_SECRETS = ExactRedaction(())
TRANSCRIPTS = Path(__file__).parents[1] / "channels" / "transcripts"
REQUEST = UpstreamRequest("POST", "http://a.example/", (), b"{}")
STAND_IN = "here it stands"
HOSTILE = {
    "arrays, 500 deep": "[" * 500 + '"x"' + "]" * 500,
    "objects, 500 deep": '{"content":' * 500 + '"x"' + "}" * 500,
    "arrays, 990 deep": "[" * 990 + "]" * 990,
    "arrays, 20,000 deep": "[" * 20_000 + "]" * 20_000,
    "arrays that end nowhere": "[" * 5_000,
    "a huge integer": "9" * 400,
    "an integer of 5,000 digits": "9" * 5_000,
    "the largest integer there is": str(2**63 - 1),
    "minus the largest": str(-(2**63)),
    "infinity": "1e999",
    "not a number": "NaN",
    "half a character": '"\\ud800"',
    "halves in names": '{"\\udfff": "\\ud83d", "type": "\\ud83d"}',
    "no character": '"\\u0000"',
    "a long text of escapes": '"' + "\\\\" * 5_000 + '"',
    "a list of everything": '[null, true, {}, [], "", 1.5, {"text": {"text": []}}]',
}


def fail(error: Exception) -> UpstreamError:
    raise error


@pytest.fixture(autouse=True)
def _no_guard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_upstream, "unreadable", fail)
    monkeypatch.setattr(stream, "unreadable", fail)


def hostile(value: Any, text: str, rng: Random, share: float) -> Iterator[bytes]:
    """JSON texts with `text` in one place after the other."""
    for place in places(value):
        if rng.random() < share:
            written = json.dumps(replaced(value, place, STAND_IN))
            yield written.replace(f'"{STAND_IN}"', text).encode()


def events_of(path: Path) -> list[bytes]:
    return [event for event in path.read_bytes().replace(b"\r\n", b"\n").split(b"\n\n") if event]


def is_object(event: bytes) -> bool:
    try:
        return isinstance(json.loads(event.rpartition(b"data: ")[2]), dict)
    except ValueError:
        return False


def plan_of(way: str) -> UpstreamPlan:
    return WAYS[way](REQUEST)


def new_blocks(plan: UpstreamPlan) -> StreamPipeline:
    meter = plan.dialect.new_meter()
    framing: Framing = SseFraming()
    if plan.translated is not None:
        stream = plan.translated.stream(
            meter, id="a", created=1, model="m", include_usage=True, redact=str
        )
        framing = TranslatedEvents(stream, framing, meter, has_terminator=True)
    return StreamPipeline(
        meter,
        plan.dialect,
        framing,
        forwards_usage=False,
        has_next=lambda: False,
        redaction=NO_SECRETS,
    )


@each("text", HOSTILE.values())
@each("way", WAYS)
def test_hostile_whole_answer_is_read_or_refused(way: str, text: str) -> None:
    rng = Random(f"{way} {text[:9]}")
    protocol = plan_of(way).dialect.protocol
    names: Any = {"id": "a", "created": 1, "model": "m"}
    count = 0
    for path in sorted((TRANSCRIPTS / f"{protocol}_whole").glob("*.json")):
        for body in hostile(json.loads(path.read_bytes()), text, rng, 0.3):
            plan, meter = plan_of(way), CHAT_DIALECTS[protocol].new_meter()
            count += 1
            try:
                read = meter.take_body(body)
                chat_upstream._refuse_unusable(body, meter, plan)
                if plan.translated is not None:
                    plan.translated.translate_response(read, meter, **names)
            except UpstreamError:
                continue
            assert meter.usage is None or meter.usage.output_tokens < 2**40
    assert count > 3


@each("text", HOSTILE.values())
@each("way", WAYS)
def test_hostile_event_is_passed_over_or_ends_the_stream(way: str, text: str) -> None:
    rng = Random(f"{way} {text[:9]}")
    count = 0
    for path in sorted((TRANSCRIPTS / plan_of(way).dialect.protocol).glob("*.sse")):
        events = events_of(path)[:30]
        objects = [place for place, event in enumerate(events) if is_object(event)]
        if not objects:
            continue
        index = rng.choice(objects)
        head, found, data = events[index].rpartition(b"data: ")
        for odd in hostile(json.loads(data), text, rng, 0.2):
            stream = [*events[:index], head + found + odd, *events[index + 1 :]]
            taken = new_blocks(plan_of(way))
            count += 1
            try:
                for event in stream:
                    taken.take_piece(event + b"\n\n")
                taken.last(has_proven_end=True)
            except UpstreamError:
                continue
    assert count > 3


@cases("way", "chat", "messages over chat")
@cases("depth", 300, 500, 990, 5000)
async def test_answer_with_deeply_nested_content_is_tried_elsewhere(way: str, depth: int) -> None:
    content = "[" * depth + '"x"' + "]" * depth
    message = f'{{"content":{content}}}'
    body = f'{{"id":"x","choices":[{{"message":{message},"finish_reason":"stop"}}]}}'
    script = response_of(body.encode())

    async with world(a=[script]) as w:
        result = await w.call(stream=False, plan=WAYS[way])
        assert (result.refusal.http_status, result.refusal.kind.code) == (502, "upstream_error")
        assert result.cost == 0
    async with world(a=[script], b=[response_of(b'{"error":{"message":"no"}}', status=400)]) as w:
        await w.call(stream=False, plan=WAYS[way])
        assert w.http.tried == ["a", "b"]


@logs("answer_unreadable")
async def test_fault_in_reading_is_logged_and_tried_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.undo()

    def broken(*_: object) -> None:
        raise KeyError("a slip of ours")

    monkeypatch.setattr(chat_upstream, "_refuse_unusable", broken)

    async with world(a=[response_of(b"{}")], b=[response_of(b'{"error":{}}', status=400)]) as w:
        result = await w.call(stream=False)
        assert w.http.tried == ["a", "b"]
        assert result.attempts == ["upstream_malformed"]


def in_reads(taken: StreamPipeline, event: bytes) -> bytes:
    """What comes of an event that comes in several reads."""
    starts = range(0, len(event), 100_000)
    return b"".join([taken.take_piece(event[start : start + 100_000]) for start in starts])


def test_event_of_too_many_values_is_not_read_and_an_image_is() -> None:
    lists = b'data: {"choices":[{"index":0,"delta":{"content":"x"}}],"x":[%b[]]}\n\n'
    heavy = lists % (b"[]," * 200_000)
    for way in ("messages over chat", "chat"):
        with pytest.raises(UpstreamError, match=r"not what its protocol promises"):
            in_reads(new_blocks(plan_of(way)), heavy)
    picture = b"abcd" * 500_000
    gemini = b'data: {"candidates":[{"content":{"parts":[{"inlineData":{"mimeType":"image/png",'
    event = gemini + b'"data":"' + picture + b'"}}]}}]}\n\n'
    taken = new_blocks(plan_of("chat over native"))
    assert picture in in_reads(taken, event)


HEAVY_OUTPUT = b'{"type":"response.completed","response":{%b"output":[' + (
    b"{}," * 400_000 + b'{}],"usage":{"input_tokens":7,"output_tokens":5}}}'
)


@cases("odd, is_read", (b"", True), (b'"id":1,', False))
def test_last_event_that_repeats_a_response_of_many_values_is_charged_by_what_it_states(
    odd: bytes, is_read: bool
) -> None:
    meter = CHAT_DIALECTS["responses"].new_meter()
    built = steps_of(lambda: meter.take_event(meter.read_event(HEAVY_OUTPUT % odd)))
    assert built < 250, "nothing is done for each item"
    assert meter.finished
    assert (meter.usage is not None) is is_read
    assert meter.malformed_events == (not is_read)


@pytest.mark.parametrize("is_response", [False, True])
async def test_what_takes_a_helper_too_long_is_nobody_elses_hold(
    is_response: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request is the client's error at once; an answer is none, and the next channel's turn."""

    async def too_long(helpers: Helpers, *_: Any) -> Any:
        runs.append(repr(helpers))
        raise JobTooLong

    runs: list[str] = []
    monkeypatch.setattr(Helpers, "run", too_long)
    long = json.dumps({"choices": [[]] * (READ_VALUES_MAX + 1)}).encode()
    async with world(a=[response_of(long)] * 2, b=[response_of(long)] * 2) as w:
        call, writer = w.prepare(), RecordingWriter()
        if not is_response:
            monkeypatch.setattr(call.request, "weight", READ_VALUES_MAX + 1)
        w.begin(call, writer)
        result = await w.end(call, writer)
        assert result.cost == 0
        assert w.ledger.held.get(ACCOUNT, 0) == 0
        if is_response:
            assert (result.refusal.http_status, result.refusal.kind.code) == (502, "upstream_error")
            assert w.http.tried == ["a", "b"]
        else:
            assert (result.refusal.http_status, result.refusal.kind.code) == (
                400,
                "invalid_request",
            )
            assert w.http.tried == []
    assert len(runs) == (2 if is_response else 1)
    assert all(f"<Helpers for {ACCOUNT} " in run for run in runs)


BODY_BYTES = 6_000
EVENTS = 100
# Of twice as much; what is done once makes it less.
GROWTH_MAX = 2.2

CLIENTS = {
    "/v1/chat/completions": "chat",
    "/v1/messages": "messages",
    "/v1beta/models/{}:generateContent": "native",
    "/v1/responses": "responses",
}
OPTIONS: dict[str, dict[str, Any]] = {
    "chat": {"upstream_model": "u", "max_tokens_param": None, "default_max_tokens": 9},
    "messages": {"upstream_model": "u"},
    "native": {"upstream_model": "u", "default_max_tokens": 9},
    "responses": {"upstream_model": "u", "default_max_tokens": 9},
}
REQUESTS = [(shape, way) for shape, (path, *_) in SHAPES.items() for way in SHAPE_WAYS[path]]


def grows(work: Callable[[int], object], size: int) -> float:
    """How much more steps the double takes."""
    work(size)  # what is made once is made
    return steps_of(lambda: work(2 * size)) / steps_of(lambda: work(size))


def ask(shape: str, upstream: str, size: int) -> None:
    """Do all that is done with a request."""
    _, body = body_of(shape, "m", size)
    client = CLIENTS[SHAPES[shape][0]]
    named = {"model": "m", "stream": False} if client == "native" else {}
    try:
        jobs.read_request(body, client, named)
        if upstream == client:
            jobs.passthrough_job(body, client, named, OPTIONS[client])
        else:
            stated = {"model": "u", "stream": False, "max_tokens": 9}
            session.translated_body(body, paths.translation_between(client, upstream), stated, [])
    except (InvalidRequest, RecursionError):
        pass


@each("shape, upstream", REQUESTS)
def test_request_takes_steps_by_its_size(
    shape: str, upstream: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_tools, "KEY_BYTES_MAX", 0)  # tools that came before take no steps
    assert grows(lambda size: ask(shape, upstream, size), BODY_BYTES) <= GROWTH_MAX


def clients_of(upstream: str) -> list[str | None]:
    """Who may get an answer of this protocol: a client of its own, and those of others."""
    return [None, *(client for client, other in paths.TRANSLATIONS if other == upstream)]


def wholes() -> Iterator[tuple[str, str | None]]:
    for shape, (upstream, _) in HOSTILE_ANSWERS.items():
        for client in clients_of(upstream):
            yield shape, client


@each("shape, client", wholes())
def test_whole_answer_takes_steps_by_its_size(shape: str, client: str | None) -> None:
    upstream, fill = HOSTILE_ANSWERS[shape]
    stated = {"id": "a", "created": 1, "model": "m"}

    def read(size: int) -> None:
        jobs.metered(fill(size), upstream, client, {}, stated)

    assert grows(read, BODY_BYTES) <= GROWTH_MAX


def streams() -> Iterator[tuple[str, str, str | None]]:
    for upstream, shapes in STREAMS.items():
        for shape in shapes:
            for client in clients_of(upstream):
                yield upstream, shape, client


@each("is_joined", [False, True])
@each("upstream, shape, client", streams())
def test_stream_takes_steps_by_its_events(
    upstream: str, shape: str, client: str | None, is_joined: bool
) -> None:
    way = untranslated(upstream) if client is None else translated(client, upstream)
    made = {count: STREAMS[upstream][shape](count) for count in (EVENTS, 2 * EVENTS)}
    end = b"data: [DONE]\n\n" if upstream == "chat" else b""

    def read(count: int) -> None:
        taken: StreamPipeline = new_blocks(way(REQUEST))
        events = [*made[count], *([end] if end else [])]
        try:
            for piece in [b"".join(events)] if is_joined else events:
                taken.take_piece(piece)
            taken.last(has_proven_end=True)
        except UpstreamError:
            pass

    assert grows(read, EVENTS) <= GROWTH_MAX


def test_every_protocol_of_a_channel_has_a_stream_and_an_answer() -> None:
    assert STREAMS.keys() == REPLIES.keys()


def test_steps_of_a_search_within_a_search_are_seen() -> None:
    def square(size: int) -> None:
        found: list[int] = []
        for number in range(size):
            for other in found:
                assert other != number
            found.append(number)

    assert grows(square, 100) > 3
