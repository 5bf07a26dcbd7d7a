"""Whatever stands in an upstream's answer, reading it is no fault of the gateway's.

Every place of every transcript holds something else in turn that readers of JSON trip over. What
comes of it is an answer, or an error of the upstream's; the guard that would tell of a fault of
ours is never asked. A fixed seed draws some of the cases.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from channels.dialects.table import CHAT_DIALECTS
from channels.errors import UpstreamError
from channels.http.interfaces import UpstreamRequest
from channels.json import READ_VALUES_MAX
from channels.offload.pool import Helpers
from channels.offload.process import JobTooLong
from channels.redaction import ExactRedaction
from gw.calls import chat, stream
from gw.calls.request import UpstreamPlan
from gw.calls.stream import Framing, SseFraming, StreamPipeline, TranslatedFraming
from tests.support.rows import each
from tests.support.steps import steps_of
from tests.unit.calls.fake_wire import answer
from tests.unit.calls.test_failure_classes import WAYS
from tests.unit.calls.world import ACCOUNT, world
from tests.unit.calls.writer import RecordingWriter
from tests.unit.translation.test_odd_values import places, replaced

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
    monkeypatch.setattr(chat, "unreadable", fail)
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
        stream = plan.translated.stream(id="a", created=1, model="m", include_usage=True)
        framing = TranslatedFraming(stream, framing, meter, has_terminator=True)
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
                meter.body(body)
                chat._refuse_unusable(body, meter, plan)
                if plan.translated is not None:
                    plan.translated.translate_response(body, **names)
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
                    taken.take(event + b"\n\n")
                taken.last()
            except UpstreamError:
                continue
    assert count > 3


@pytest.mark.parametrize("way", ["chat", "messages over chat"])
@pytest.mark.parametrize("depth", [300, 500, 990, 5000])
async def test_answer_with_deeply_nested_content_is_tried_elsewhere(way: str, depth: int) -> None:
    content = "[" * depth + '"x"' + "]" * depth
    message = f'{{"content":{content}}}'
    body = f'{{"id":"x","choices":[{{"message":{message},"finish_reason":"stop"}}]}}'
    script = answer(body.encode())

    async with world(a=[script]) as w:
        told = await w.call(stream=False, plan=WAYS[way])
        assert told.error is not None
        assert (told.error.http_status, told.error.kind.code) == (502, "upstream_error")
        assert told.cost == 0
    async with world(a=[script], b=[answer(b'{"error":{"message":"no"}}', status=400)]) as w:
        await w.call(stream=False, plan=WAYS[way])
        assert w.wire.tried == ["a", "b"]


async def test_fault_in_reading_is_told_in_the_log_and_tried_elsewhere(
    monkeypatch: pytest.MonkeyPatch, expect_log: Callable[..., None]
) -> None:
    monkeypatch.undo()
    expect_log("answer_unreadable")

    def broken(*_: object) -> None:
        raise KeyError("a slip of ours")

    monkeypatch.setattr(chat, "_refuse_unusable", broken)

    async with world(a=[answer(b"{}")], b=[answer(b'{"error":{}}', status=400)]) as w:
        told = await w.call(stream=False)
        assert w.wire.tried == ["a", "b"]
        assert told.attempts == ["upstream_malformed"]


def in_reads(taken: StreamPipeline, event: bytes) -> bytes:
    """What comes of an event that comes in several reads."""
    starts = range(0, len(event), 100_000)
    return b"".join([taken.take(event[start : start + 100_000]) for start in starts])


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


@pytest.mark.parametrize(("odd", "is_read"), [(b"", True), (b'"id":1,', False)])
def test_last_event_that_repeats_a_response_of_many_values_is_charged_by_what_it_states(
    odd: bytes, is_read: bool
) -> None:
    meter = CHAT_DIALECTS["responses"].new_meter()
    built = steps_of(lambda: meter.event(HEAVY_OUTPUT % odd))
    assert built < 250, "nothing is done for each item"
    assert meter.finished
    assert (meter.usage is not None) is is_read
    assert meter.malformed_events == (not is_read)


@pytest.mark.parametrize("is_answer", [False, True])
async def test_what_takes_a_helper_too_long_is_nobody_elses_hold(
    is_answer: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request is the client's error at once; an answer is none, and the next channel's turn."""

    async def too_long(helpers: Helpers, *_: Any) -> Any:
        runs.append(repr(helpers))
        raise JobTooLong

    runs: list[str] = []
    monkeypatch.setattr(Helpers, "run", too_long)
    long = json.dumps({"choices": [[]] * (READ_VALUES_MAX + 1)}).encode()
    async with world(a=[answer(long)] * 2, b=[answer(long)] * 2) as w:
        call, writer = w.prepare(), RecordingWriter()
        if not is_answer:
            monkeypatch.setattr(call.request, "_weight", READ_VALUES_MAX + 1)
        w.begin(call, writer)
        told = await w.end(call, writer)
        assert told.error is not None
        assert told.cost == 0
        assert w.ledger.held.get(ACCOUNT, 0) == 0
        if is_answer:
            assert (told.error.http_status, told.error.kind.code) == (502, "upstream_error")
            assert w.wire.tried == ["a", "b"]
        else:
            assert (told.error.http_status, told.error.kind.code) == (400, "invalid_request")
            assert w.wire.tried == []
    assert len(runs) == (2 if is_answer else 1)
    assert all(f"<Helpers for {ACCOUNT} " in run for run in runs)
