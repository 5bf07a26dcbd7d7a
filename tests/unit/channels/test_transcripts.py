"""Whole streams, written for this test, replayed with every cut.

Beside them, as an extra, recordings of real providers where their folder is next to the project.
"""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from msgspec import to_builtins

from channels.dialects.chat import TERMINATOR, ChatMeter
from tests.support.rows import each
from tests.unit.channels.replay import Replay, cuts, replay

FOLDER = Path(__file__).parent / "transcripts"
# Absent in most places; then only our own are replayed.
RECORDINGS = Path(__file__).parents[4] / "shared" / "recordings" / "chat"

TRANSCRIPTS = sorted((FOLDER / "chat").glob("*.sse"))
STREAMS = [*TRANSCRIPTS, *sorted(RECORDINGS.glob("*.chunks.txt"))]
WHOLE = [*sorted((FOLDER / "chat_whole").glob("*.json")), *sorted(RECORDINGS.glob("*.json"))]


def stream_of(path: Path) -> bytes:
    """A transcript's bytes, or a recording's events as a stream with its terminator."""
    if path.suffix == ".sse":
        return path.read_bytes()
    events = [line for line in path.read_bytes().splitlines() if line.strip()]
    return b"".join(b"data: " + event + b"\n\n" for event in (*events, TERMINATOR))


def summary(done: Replay) -> dict[str, Any]:
    meter = done.meter
    return {
        "usage": meter.usage and to_builtins(meter.usage),
        "characters": meter.characters,
        "finish_reason": meter.finish_reason,
        "finished": meter.finished,
        "withheld": done.withheld,
        "malformed_events": meter.malformed_events,
        "error": meter.error_seen and asdict(meter.error_seen),
        "pending": done.pending.decode(),
    }


@each("path", TRANSCRIPTS)
def test_transcript_is_metered_as_expected(path: Path) -> None:
    assert summary(replay([path.read_bytes()])) == json.loads(path.with_suffix(".json").read_text())


@each("path", STREAMS)
@each("line_end", [b"\n", b"\r\n"])
def test_cut_stream_reads_the_same(path: Path, line_end: bytes) -> None:
    stream = stream_of(path)
    if line_end != b"\n":
        stream = stream.replace(b"\r\n", b"\n").replace(b"\n", line_end)
    whole = replay([stream])
    assert whole.raw == stream
    for pieces in cuts(stream):
        again = replay(pieces)
        assert again.raw == b"".join(pieces)
        if again.raw == stream:
            assert (again.datas, again.reading) == (whole.datas, whole.reading)
            assert again.pending == whole.pending


@each("path", STREAMS)
def test_stream_has_the_usage_it_states_last(path: Path) -> None:
    done = replay([stream_of(path)])
    stated = None
    for data in done.datas:
        with suppress(ValueError, AttributeError):
            usage = json.loads(data).get("usage") or {}
            counts = (usage.get("prompt_tokens"), usage.get("completion_tokens"))
            if all(type(count) is int and count >= 0 for count in counts):
                stated = usage
    if stated is None:
        assert done.meter.usage is None
    else:
        assert done.meter.usage is not None
        assert done.meter.usage.input_tokens == stated["prompt_tokens"]
        beside = stated["total_tokens"] - stated["prompt_tokens"] - stated["completion_tokens"]
        assert done.meter.usage.output_tokens == stated["completion_tokens"] + beside


@pytest.mark.parametrize("path", WHOLE, ids=lambda path: path.stem)
def test_whole_answer_has_the_usage_it_states(path: Path) -> None:
    body = path.read_bytes()
    stated = json.loads(body)
    meter = ChatMeter()
    meter.body(body)
    assert meter.usage is not None
    assert meter.usage.input_tokens == stated["usage"]["prompt_tokens"]
    assert meter.usage.output_tokens == stated["usage"]["completion_tokens"]
    texts = [choice["message"]["content"] for choice in stated["choices"]]
    assert meter.characters == len("".join(texts))
    assert (meter.response_id, meter.response_model) == (stated["id"], stated["model"])
    assert meter.finished
    assert meter.finish_reason == "stop"
