"""The log: its lines, its writer, what is hidden, and the libraries' loggers."""

import io
import logging
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import ujson

from loadtests.rig.waiting import PATIENCE_SECONDS, until
from metrics.line_writer import ATOMIC_BYTES, QUEUE_BYTES_MAX, LineWriter, descriptor_sink
from metrics.log_redaction import redact
from metrics.logs import EventLog, configure, flush, lines_lost, write_line
from tests.support.logs import logs
from tests.support.rows import cases
from tests.unit.metrics.worlds import Lines

KEY = "sk-platform-" + "0123456789abcdef" * 4


@logs("channel_opened")
def test_event_is_one_line_with_its_fields(lines: Lines) -> None:
    EventLog("actors.channel").warning("channel_opened", channel="openai-a", failures=5)
    line = lines.one()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line.pop("ts"))
    assert line == {
        "level": "warning",
        "logger": "actors.channel",
        "action": "channel_opened",
        "message": "channel opened",
        "channel": "openai-a",
        "failures": 5,
    }


@logs("c", "d")
def test_levels_below_the_configured_one_are_left_out(restored_logging: None) -> None:
    lines, log = Lines(), EventLog("x")
    configure(lines.stream, level="warning")
    log.debug("a")
    log.info("b")
    log.warning("c")
    log.error("d")
    assert [line["level"] for line in lines.all()] == ["warning", "error"]


def test_unknown_level_is_refused(restored_logging: None) -> None:
    with pytest.raises(ValueError, match=r"unknown log level 'loud', allowed are debug, info"):
        configure(io.StringIO(), level="loud")


def test_configuring_again_replaces_the_stream(lines: Lines) -> None:
    other = Lines()
    configure(other.stream)
    EventLog("x").info("moved")
    assert (lines.all(), other.one()["action"]) == ([], "moved")
    assert repr(EventLog("x")) == "<EventLog x>"


def test_handler_that_writes_to_no_stream_stays(restored_logging: None) -> None:
    kept = logging.Handler()
    logging.getLogger().addHandler(kept)
    configure(io.StringIO())
    assert kept in logging.getLogger().handlers


@pytest.mark.parametrize("name", ["ts", "level", "logger", "action", "message", "stack"])
def test_field_with_a_reserved_name_is_renamed(lines: Lines, name: str) -> None:
    EventLog("x").info("happened", **{name: "mine"})
    line = lines.one()
    assert line[f"{name}_"] == "mine"
    assert line["action"] == "happened"
    assert line["logger"] == "x"


@logs("child_died")
def test_exception_is_in_two_fields_of_one_line(lines: Lines) -> None:
    try:
        raise ValueError(f"refused {KEY}")
    except ValueError:
        EventLog("x").error("child_died", exc_info=True, child="a")
    line = lines.one()
    assert line["error"] == "ValueError: refused sk-platform-0123***"
    assert line["stack"].startswith("Traceback (most recent call last)")
    assert line["stack"].endswith("ValueError: refused sk-platform-0123***\n")
    assert KEY not in lines.stream.getvalue()


@logs("failed")
def test_error_named_by_the_event_is_kept(lines: Lines) -> None:
    try:
        raise ValueError("inner")
    except ValueError:
        EventLog("x").error("failed", exc_info=True, error="in our words")
    assert lines.one()["error"] == "in our words"
    assert "ValueError: inner" in lines.one()["stack"]


@logs("failed")
def test_deep_stack_keeps_its_end(lines: Lines) -> None:
    def dive(depth: int) -> None:
        if depth == 0:
            raise KeyError("the bottom")
        (dive if depth % 2 else other)(depth - 1)

    def other(depth: int) -> None:
        dive(depth)

    try:
        dive(300)
    except KeyError:
        EventLog("x").error("failed", exc_info=True)
    assert len(lines.one()["stack"]) < 10_000
    assert lines.one()["stack"].endswith("KeyError: 'the bottom'\n")


def test_secrets_in_fields_are_masked(lines: Lines) -> None:
    EventLog("x").info(
        "requested",
        url=f"/v1beta/models?key={KEY}",
        headers={"Authorization": f"Bearer {KEY}", "accept": "*/*"},
        note=f"Bearer {KEY}",
    )
    line = lines.one()
    assert line["url"] == "/v1beta/models?key=sk-platform-0123***"
    assert line["headers"] == {"Authorization": "***", "accept": "*/*"}
    assert line["note"] == "Bearer sk-platform-0123***"


def test_field_that_cannot_be_written_does_not_raise(lines: Lines) -> None:
    class Grumpy:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    EventLog("x").info("happened", a=Grumpy(), b=object, c=float("nan"), d={1: {2}}, e="\ud800")
    line = lines.one()
    assert line["a"] == "<unprintable Grumpy: RuntimeError>"
    assert line["c"] == "nan"
    assert line["d"] == {"1": [2]}


def test_line_is_ascii_whatever_the_stream_can_encode(restored_logging: None) -> None:
    raw = io.BytesIO()
    configure(io.TextIOWrapper(raw, encoding="ascii", write_through=True))
    EventLog("x").info("happened", a="né😀\u2028\n")
    flush()
    assert raw.getvalue().count(b"\n") == 1
    assert ujson.loads(raw.getvalue())["a"] == "né😀\u2028\n"


LINE = b"x" * 999 + b"\n"


class Reader:
    """Takes what is written, when it likes to; refuses it when it is full."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.reads = threading.Event()
        self.reads.set()
        self.written_to = threading.Event()  # somebody writes, or waits to
        self.is_full = False

    def __call__(self, data: bytes) -> None:
        self.written_to.set()
        assert self.reads.wait(PATIENCE_SECONDS)
        if self.is_full:
            raise OSError(28, "No space left on device")
        self.pieces.append(data)

    @property
    def lines(self) -> list[bytes]:
        return b"".join(self.pieces).splitlines(keepends=True)


@contextmanager
def writing(reader: Reader) -> Iterator[LineWriter]:
    writer = LineWriter(reader, lambda count: b"%d lost\n" % count)
    try:
        yield writer
    finally:
        reader.reads.set()
        writer.close()


def test_lines_arrive_in_order_and_as_many_at_once_as_stay_whole() -> None:
    reader = Reader()
    with writing(reader) as writer:
        reader.reads.clear()
        writer.write(b"first\n")
        assert reader.written_to.wait(PATIENCE_SECONDS)
        numbered = [b"%d %b" % (number, LINE) for number in range(20)]
        huge = b"h" * (2 * ATOMIC_BYTES) + b"\n"
        for line in [*numbered, huge, b"last\n"]:
            writer.write(line)
        reader.reads.set()
        assert writer.flush(PATIENCE_SECONDS)
        assert reader.lines == [b"first\n", *numbered, huge, b"last\n"]
        assert {len(piece) for piece in reader.pieces if len(piece) > ATOMIC_BYTES} == {len(huge)}
        assert len(reader.pieces) < 10
        assert (writer.lost, writer.waiting_bytes) == (0, 0)


def test_reader_that_does_not_read_holds_up_nobody_and_reads_what_it_missed() -> None:
    reader = Reader()
    with writing(reader) as writer:
        reader.reads.clear()
        count = 2 * QUEUE_BYTES_MAX // len(LINE)
        for _ in range(count):
            writer.write(LINE)
        assert writer.waiting_bytes <= QUEUE_BYTES_MAX
        assert not writer.flush(0.0)
        lost = writer.lost
        assert 0 < lost < count
        reader.reads.set()
        assert writer.flush(PATIENCE_SECONDS)
        assert reader.lines.count(LINE) == count - lost
        assert [line for line in reader.lines if line != LINE] == [b"%d lost\n" % lost]
        writer.write(b"goes on\n")
        assert writer.flush(PATIENCE_SECONDS)
        assert reader.lines[-1] == b"goes on\n"


def test_full_disk_loses_lines_and_says_so_when_it_has_room_again() -> None:
    reader = Reader()
    reader.is_full = True
    with writing(reader) as writer:
        for _ in range(3):
            writer.write(LINE)
            assert writer.flush(PATIENCE_SECONDS)
        assert (writer.lost, writer.waiting_bytes) == (3, 0)
        reader.is_full = False
        writer.write(LINE)
        assert writer.flush(PATIENCE_SECONDS)
        assert reader.lines == [LINE, b"3 lost\n"]


def test_pipe_that_does_not_block_is_waited_for() -> None:
    reading, end = os.pipe()
    os.set_blocking(end, False)
    data = bytes(range(256)) * 2000
    with open(reading, "rb") as pipe:
        sending = threading.Thread(target=descriptor_sink(end), args=(data,))
        sending.start()
        assert pipe.read(len(data)) == data
        sending.join(PATIENCE_SECONDS)
    os.close(end)


@logs("happened")
@pytest.mark.usefixtures("restored_logging")
def test_log_on_a_full_device_is_counted_and_stops_nobody() -> None:
    with Path("/dev/full").open("w") as full:
        configure(full)
        EventLog("x").warning("happened")
        write_line("ready")
        flush()
        until(lambda: lines_lost() == 2, what="both counted")


@pytest.mark.usefixtures("restored_logging")
def test_log_says_how_many_lines_it_lost(tmp_path: Path) -> None:
    with (tmp_path / "log").open("w") as log:
        configure(log)
        (handler,) = (one for one in logging.getLogger().handlers if hasattr(one, "writer"))
        handler.writer._unwritten = 7
        write_line("ready")
        flush()
        ready, result = (tmp_path / "log").read_text().splitlines()
    assert ready == "ready"
    line = ujson.loads(result)
    assert (line["level"], line["action"], line["count"]) == ("warning", "log_lines_lost", 7)


@cases(
    "text, shown",
    (f"refused {KEY}.", "refused sk-platform-0123***."),
    (f"refused {KEY.upper()}", "refused SK-PLATFORM-0123***"),
    (f"Authorization: Bearer {KEY}", "Authorization: Bearer sk-platform-0123***"),
    (f"x-api-key: {KEY}", "x-api-key: sk-platform-0123***"),
    (f"GET /v1/models?key={KEY}&a=b", "GET /v1/models?key=sk-platform-0123***&a=b"),
    ("Authorization: Bearer abc.def-1~/+=", "Authorization: Bearer ***"),
    ("authorization: bearer\tabc", "authorization: bearer\t***"),
    ("Authorization: Basic dXNlcjpwYXNz", "Authorization: Basic ***"),
    ("sent Bearer tok, then left", "sent Bearer ***, then left"),
    ("{'x-api-key': 'abc', 'a': 1}", "{'x-api-key': '***', 'a': 1}"),
    ("[('x-goog-api-key', 'abc')]", "[('x-goog-api-key', '***')]"),
    ("(b'x-alt-api-key', b'abc')", "(b'x-alt-api-key', b'***')"),
    (r'"{\"api_key\": \"abc\"}"', r'"{\"api_key\": \"***\"}"'),
    ("OPENAI_API_KEY=abc", "OPENAI_API_KEY=***"),
    ("access_token=abc&b=c", "access_token=***&b=c"),
    ("?alt=sse&key=abc", "?alt=sse&key=***"),
    ("https://host/v1?key=abc#top", "https://host/v1?key=***"),
    ("Incorrect API key provided: sk-proj-abc_DEF1*23.", "Incorrect API key provided: sk-***"),
    ("AIzaSyA-0123456789_xyz is not valid", "AIza*** is not valid"),
    ("postgresql://gw:p%40ss@db:5432/gw", "postgresql://gw:***@db:5432/gw"),
    ("redis://:pass@host/0", "redis://:***@host/0"),
    ("host=db password=abc dbname=gw", "host=db password=*** dbname=gw"),
    ("Cookie: a=b; c=d", "Cookie: ***"),
)
def test_secret_in_text_is_masked(text: str, shown: str) -> None:
    assert redact(text) == shown
    assert redact(shown) == shown  # twice changes nothing


@cases(
    "text",
    "",
    "key_0123456789abcdef0123 of acct_0123456789abcdef0123 was refused",
    "the client's task-12345678 sk-1 risk-assessment disk-usage-report",
    "sk-platform-0123",
    "missing x-api-key, please send one",
    "password authentication failed for user gw",
    "max_tokens=100 input_tokens: 5",
    "https://upstream.example:8443/v1/chat/completions",
    "0190b0a0c0d0e0f00102030405060708",
    "ready listen=http://127.0.0.1:8080",
)
def test_ordinary_text_stays(text: str) -> None:
    assert redact(text) == text


@cases(
    "piece",
    "a-",
    "sk-",
    "Bearer ",
    "api_key",
    "api_key:",
    "://a:",
    "?key=",
    "sk-platform-",
    "\\",
    "AIza",
)
def test_long_text_of_repetitions_is_masked_in_one_pass(piece: str) -> None:
    text = piece * (200_000 // len(piece))
    # A pattern that looks at the rest of the text from each place would not come back.
    masked = redact(text)
    assert redact(masked) == masked
