"""Whole streams of each chat dialect, written for this test, replayed with every cut.

Beside them, as an extra, recordings of real providers (`recordings.py`).
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from msgspec import Struct, to_builtins

from channels.dialects.dialect import ChatDialect
from channels.dialects.error_body import error_message
from channels.dialects.meter import ResponseMeter
from channels.dialects.table import CHAT_DIALECTS
from channels.http.sse import SseSplitter
from channels.json.lenient import read_loosely
from tests.support.rows import each
from tests.unit.channels import recordings
from tests.unit.channels.recordings import stated_usage, stream_of, values_of
from tests.unit.channels.replay import Replay, cuts, new_meter, replay

FOLDER = Path(__file__).parent / "transcripts"
NAMES = ("chat", "messages", "responses", "native")

TRANSCRIPTS = [path for name in NAMES for path in sorted((FOLDER / name).glob("*.sse"))]
RECORDED = [path for name in NAMES for path in recordings.streams(name)]
WHOLE = [
    path
    for name in NAMES
    for path in (*sorted((FOLDER / f"{name}_whole").glob("*.json")), *recordings.wholes(name))
]


def dialect_of(path: Path) -> ChatDialect:
    return CHAT_DIALECTS[path.parent.name.removesuffix("_whole")]


def meter_of(path: Path) -> ResponseMeter[Any]:
    return new_meter(dialect_of(path).protocol)


def replayed(path: Path, pieces: list[bytes]) -> Replay:
    return replay(pieces, new_meter=lambda: meter_of(path))


def counts_of(stated: Struct) -> dict[str, Any]:
    """The counts as a transcript states them: `parts` where there are any."""
    counts: dict[str, Any] = to_builtins(stated)
    for one in (counts, counts.get("input")):
        if isinstance(one, dict) and one.get("parts", 0) is None:
            del one["parts"]
    return counts


def summary(done: Replay) -> dict[str, Any]:
    meter = done.meter
    partial = meter.partial_usage
    return {
        "usage": meter.usage and counts_of(meter.usage),
        "partial_usage": partial and counts_of(partial),
        "characters": meter.characters,
        "finish_reason": meter.finish_reason,
        "finished": meter.finished,
        "malformed_events": meter.malformed_events,
        "error": meter.error_seen and asdict(meter.error_seen),
        "response_id": meter.response_id,
        "response_model": meter.response_model,
        "pending": done.pending.decode(),
        "withheld": done.withheld,
    }


def test_every_dialect_has_transcripts() -> None:
    assert {path.parent.name for path in TRANSCRIPTS} == set(NAMES)
    assert set(NAMES) == set(CHAT_DIALECTS)


@each("path", TRANSCRIPTS)
def test_transcript_is_metered_as_expected(path: Path) -> None:
    expected = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    found = summary(replayed(path, [path.read_bytes()]))
    assert {name: found[name] for name in expected} == expected


@each("path", TRANSCRIPTS)
def test_cut_stream_reads_the_same(path: Path) -> None:
    """With line ends of two bytes; `tests/unit/calls/test_every_cut.py` has them as they are."""
    stream = path.read_bytes().replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
    whole = replayed(path, [stream])
    assert whole.raw == stream
    for pieces in cuts(stream):
        again = replayed(path, pieces)
        assert again.raw == stream
        assert (again.datas, again.reading, again.pending) == (
            whole.datas,
            whole.reading,
            whole.pending,
        )


def test_recorded_streams_end_well_with_the_usage_they_state() -> None:
    for path in RECORDED:  # none where the recordings are not at hand
        dialect, meter, splitter = dialect_of(path), meter_of(path), SseSplitter()
        stream = stream_of(path)
        if dialect.protocol == "chat":
            stream += b"data: [DONE]\n\n"  # which is not recorded there
        for event in splitter.feed(stream):
            assert event.data is not None
            meter.take_event(meter.read_event(event.data))
        for event in splitter.feed(b"\n\n"):  # one recording lacks its last blank line
            if event.data is not None:
                assert dialect.ends(event.data)
                meter.take_event(meter.read_event(event.data))
        assert meter.finished
        assert meter.malformed_events == 0
        assert meter.finish_reason is not None
        assert meter.response_model is not None
        stated = stated_usage(dialect.protocol, list(values_of(stream)))
        usage = meter.usage
        assert stated == (usage and (usage.input_tokens, usage.output_tokens))
        assert meter.error_seen is None or (usage is None and meter.finish_reason == "failed")


@each("path", WHOLE)
def test_whole_answer_has_the_usage_it_states(path: Path) -> None:
    body = path.read_bytes()
    dialect, meter = dialect_of(path), meter_of(path)
    meter.take_body(body)
    value = json.loads(body)
    assert meter.finished
    assert meter.malformed_events == 0
    assert (meter.error_seen is not None) == bool(value.get("error"))
    if value.get("error"):
        assert error_message(body) == value["error"]["message"]
        assert (meter.usage, meter.characters) == (None, 0)
        return
    usage = meter.usage
    stated = stated_usage(dialect.protocol, [value])
    assert stated == (usage and (usage.input_tokens, usage.output_tokens))
    assert meter.finish_reason is not None
    model = value.get("modelVersion") if dialect.protocol == "native" else value["model"]
    assert meter.response_model == model


@each("path", TRANSCRIPTS)
def test_end_is_read_with_or_without_its_blank_line(path: Path) -> None:
    dialect = dialect_of(path)
    meter = meter_of(path)
    for data in replayed(path, [path.read_bytes()]).datas:
        was_finished = meter.finished
        meter.take_event(meter.read_event(data))
        has_just_finished = meter.finished and not was_finished
        if dialect.ends(data):
            assert meter.finished or not dialect.has_terminator
        elif has_just_finished:  # only what had to be mended is not trusted without its blank line
            assert read_loosely(data, mends=False) is None


@each("path", [path for path in TRANSCRIPTS if "without_a_blank_line" in path.name])
def test_last_event_without_its_blank_line_can_be_found_and_read(path: Path) -> None:
    dialect, meter, splitter = dialect_of(path), meter_of(path), SseSplitter()
    for event in (*splitter.feed(path.read_bytes()), *splitter.feed(b"\n\n")):
        if event.data is not None and (event.raw in path.read_bytes() or dialect.ends(event.data)):
            meter.take_event(meter.read_event(event.data))
    assert meter.finished
    assert meter.usage is not None or dialect.protocol == "chat"


def test_what_is_cut_ends_nothing() -> None:
    for path in TRANSCRIPTS:
        dialect = dialect_of(path)
        for data in replayed(path, [path.read_bytes()]).datas:
            for at in range(len(data.rstrip())):
                assert not dialect.ends(data[:at])
