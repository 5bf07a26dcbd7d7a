"""Lines on their way to a reader that does not read, a disk that is full, several at once."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import ujson

from metrics.logs import (
    ATOMIC_BYTES,
    QUEUE_BYTES_MAX,
    EventLog,
    LineWriter,
    configure,
    descriptor_sink,
    flush,
    lines_lost,
    write_line,
)
from tests.support.waiting import PATIENCE_SECONDS, until

ExpectLog = Callable[..., None]
LINE = b"x" * 999 + b"\n"


class Reader:
    """Takes what is written, when it likes to; refuses it when it is full."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.reads = threading.Event()
        self.reads.set()
        self.asked = threading.Event()  # somebody writes, or waits to
        self.is_full = False

    def __call__(self, data: bytes) -> None:
        self.asked.set()
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
        assert reader.asked.wait(PATIENCE_SECONDS)
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


def test_reader_that_does_not_read_holds_up_nobody_and_is_told_what_it_missed() -> None:
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


@pytest.mark.usefixtures("restored_logging")
def test_log_on_a_full_device_is_counted_and_stops_nobody(expect_log: ExpectLog) -> None:
    expect_log("happened")
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
        ready, told = (tmp_path / "log").read_text().splitlines()
    assert ready == "ready"
    line = ujson.loads(told)
    assert (line["level"], line["action"], line["count"]) == ("warning", "log_lines_lost", 7)
