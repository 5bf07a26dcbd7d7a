"""A stream's way through the gateway does not depend on how its bytes were cut.

The transcripts are those of each dialect (`tests/unit/channels/transcripts`), replayed natively, as
an array and over each translation. What comes of a translation is also kept as text (`golden.py`).
"""

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from channels.dialects.table import CHAT_DIALECTS
from channels.http.sse import SseSplitter
from tests.support.rows import each
from tests.unit.calls.golden import WAYS, kept, report_of, transcripts
from tests.unit.calls.relaying import PASSTHROUGH, TRANSLATED, Relayed, Way, relayed

# Up to this length a transcript is cut in two at every byte; longer ones come in small pieces.
SHORT_BYTES = 800
# Events are cut out of the bytes before they are translated: of the clients of one upstream one is
# shown every third cut, the others fewer.
CUTS_APART, FEW_CUTS_APART = 3, 11
SIZES = (1, 2, 3, 7, 64)
MEGABYTES = 3
STATED = "Grüße 🌊"


def names(way: Way, path: Path) -> str:
    return f"{way}-{path.stem}"


CASES = [
    pytest.param(way, path, id=names(way, path))
    for way in [*PASSTHROUGH, *TRANSLATED]
    for path in transcripts(way.upstream)
]


ONE_OF_AN_UPSTREAM = {way.upstream: way for way in TRANSLATED[: len(WAYS)]}.values()


def bytes_apart(way: Way) -> int:
    """How far the cuts of this way are apart."""
    if way in PASSTHROUGH:
        return 1
    return CUTS_APART if way in ONE_OF_AN_UPSTREAM else FEW_CUTS_APART


def in_pieces(way: Way, stream: bytes, size: int) -> Relayed:
    return relayed(way, [stream[at : at + size] for at in range(0, len(stream), size)])


@each("way, path", CASES)
def test_stream_cut_at_any_byte_is_relayed_alike(way: Way, path: Path) -> None:
    stream = path.read_bytes()
    whole = relayed(way, [stream])
    for size in SIZES:
        assert in_pieces(way, stream, size) == whole
    if len(stream) <= SHORT_BYTES and way not in TRANSLATED[len(WAYS) :]:
        for at in range(1, len(stream), bytes_apart(way)):
            assert relayed(way, [stream[:at], stream[at:]]) == whole


@each("way, path", CASES)
def test_line_ends_change_nothing_but_themselves(way: Way, path: Path) -> None:
    stream = path.read_bytes()
    usual = relayed(way, [stream])
    for line_end in (b"\r\n", b"\r"):
        other = stream.replace(b"\r\n", b"\n").replace(b"\r", b"\n").replace(b"\n", line_end)
        whole = relayed(way, [other])
        assert in_pieces(way, other, 1) == in_pieces(way, other, 7) == whole
        assert (whole.reading, whole.is_complete) == (usual.reading, usual.is_complete)
        if way.client != way.upstream:
            assert whole == usual


@each("way", PASSTHROUGH[:4])
def test_passthrough_stream_keeps_its_bytes(way: Way) -> None:
    dialect = CHAT_DIALECTS[way.upstream]
    for path in transcripts(way.upstream):
        stream = path.read_bytes()
        got = relayed(way, [stream])
        assert stream.startswith(got.body)
        rest = [event.data for event in SseSplitter().feed(stream[len(got.body) :])]
        assert not any(rest) or not got.body, "every whole event went out, or none before an answer"
        if got.is_complete and dialect.has_terminator:
            assert got.body == stream, "and whatever follows the end"


@each("way", WAYS)
def test_translation_reports_what_it_reported_before(way: Way) -> None:
    found = {path.stem: report_of(way, path) for path in transcripts(way.upstream)}
    assert found == kept(way), "read the difference; then `python -m tests.unit.calls.golden`"


def text_stream(upstream: str, text: str) -> bytes:
    """A stream of one event with this text, and its end."""
    quoted = json.dumps(text, ensure_ascii=False)
    parts: dict[str, list[str]] = {
        "chat": [
            f'{{"choices":[{{"index":0,"delta":{{"role":"assistant","content":{quoted}}}}}]}}',
            '{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}',
            "[DONE]",
        ],
        "messages": [
            '{"type":"message_start","message":{"usage":{"input_tokens":1,"output_tokens":1}}}',
            '{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}',
            '{"type":"content_block_delta","index":0,"delta":'
            f'{{"type":"text_delta","text":{quoted}}}}}',
            '{"type":"content_block_stop","index":0}',
            '{"type":"message_delta","delta":{"stop_reason":"end_turn"},'
            '"usage":{"output_tokens":9}}',
            '{"type":"message_stop"}',
        ],
        "responses": [
            '{"type":"response.created","response":{"id":"resp_1"}}',
            f'{{"type":"response.output_text.delta","output_index":0,"delta":{quoted}}}',
            '{"type":"response.completed","response":{"id":"resp_1","status":"completed"}}',
        ],
        "native": [
            f'{{"candidates":[{{"content":{{"parts":[{{"text":{quoted}}}]}},"index":0}}]}}',
            '{"candidates":[{"content":{"parts":[]},"finishReason":"STOP","index":0}]}',
        ],
    }
    return "".join(f"data: {part}\n\n" for part in parts[upstream]).encode()


@each("way", [*PASSTHROUGH, *TRANSLATED])
def test_line_of_many_megabytes_is_relayed_whole(way: Way) -> None:
    text = STATED * (MEGABYTES * 1_000_000 // len(STATED.encode()))
    stream = text_stream(way.upstream, text)
    whole = relayed(way, [stream])
    assert whole.is_complete
    assert text.encode() in whole.body
    assert in_pieces(way, stream, 65_537) == whole  # mid-character, as often as not


@each("way", [*PASSTHROUGH, *TRANSLATED])
def test_several_events_in_one_read_are_several(way: Way) -> None:
    stream = text_stream(way.upstream, STATED)
    ends = [at + 2 for at in range(len(stream)) if stream[at : at + 2] == b"\n\n"]
    by_event = relayed(way, [stream[a:b] for a, b in pairwise([0, *ends])])
    by_two = relayed(way, [stream[a:b] for a, b in pairwise([0, *ends[1::2], len(stream)])])
    assert by_event == by_two == relayed(way, [stream])
    assert STATED.encode() in by_event.body


# What no documented event looks like, for a protocol's stream at any place of it.
UNKNOWN: dict[str, list[bytes]] = {
    "chat": [
        b'data: {"object":"chat.completion.mood","mood":{"level":3}}\n\n',
        b'data: {"choices":[{"index":0,"delta":{"hologram":"~~"}}]}\n\n',
        b'data: {"choices":[]}\n\n',
    ],
    "messages": [
        b'event: mood\ndata: {"type":"mood","mood":{"level":3}}\n\n',
        b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
        b'"delta":{"type":"hologram_delta","hologram":"~~"}}\n\n',
    ],
    "responses": [
        b'event: response.mood\ndata: {"type":"response.mood","sequence_number":7}\n\n',
        b'event: response.hologram.delta\ndata: {"type":"response.hologram.delta","x":[1]}\n\n',
    ],
    "native": [
        b'data: {"mood":{"level":3}}\n\n',
        b'data: {"candidates":[{"content":{"parts":[{"hologram":{"x":1}}]},"index":0}]}\n\n',
    ],
}
NONSENSE = [b"data: not json\n\n", b"data: [1,2]\n\n", b"data: null\n\n", b": a comment\n\n", b"\n"]


@each("way", [*PASSTHROUGH[:4], *WAYS])
def test_unknown_event_anywhere_is_passed_on_or_passed_over(way: Way) -> None:
    stream = text_stream(way.upstream, STATED)
    usual = relayed(way, [stream])
    ends = [at + 2 for at in range(len(stream)) if stream[at : at + 2] == b"\n\n"]
    for unknown in (*UNKNOWN[way.upstream], *NONSENSE):
        for at in [0, *ends[:-1]]:
            got = relayed(way, [stream[:at] + unknown + stream[at:]])
            assert got.is_complete
            assert got.failed is None
            assert got.reading == usual.reading
            if way.client == way.upstream:
                assert got.body == stream[:at] + unknown + stream[at:]
            else:
                assert got.body == usual.body


BITS = st.sampled_from(
    [b"\n", b"\r", b"\r\n", b"\n\n", b"\xff", b"{", b"}", b'"', b"null", b"data: ", b": x\n\n"]
)


@st.composite
def damaged(draw: st.DrawFn, upstream: str) -> bytes:
    """A transcript whose events are shuffled, doubled and lost, and whose bytes are too."""
    events = draw(st.sampled_from(transcripts(upstream))).read_bytes().split(b"\n\n")
    if draw(st.booleans()):
        events = draw(st.lists(st.sampled_from(events), max_size=2 * len(events)))
    stream = bytearray(b"\n\n".join(events))
    for at in draw(st.lists(st.integers(0, len(stream)), max_size=4)):
        stream[at : at + draw(st.integers(0, 20))] = draw(BITS)
    return bytes(stream)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_damaged_stream_raises_nothing_and_is_relayed_alike(data: st.DataObject) -> None:
    way = data.draw(st.sampled_from([*PASSTHROUGH, *TRANSLATED]))
    stream = data.draw(damaged(way.upstream))
    whole = relayed(way, [stream])
    at = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    pieces = [stream[start:end] for start, end in pairwise([0, *at, len(stream)])]
    for again in (relayed(way, pieces), in_pieces(way, stream, 1)):
        # Where line ends are mixed up, whose a last LF is depends on what has come.
        assert without_line_ends(again) == without_line_ends(whole)


def without_line_ends(got: Relayed) -> Relayed:
    return replace(got, body=got.body.translate(None, b"\r\n"))
