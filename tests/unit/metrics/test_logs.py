"""The log as its reader sees it: one JSON line for each event, from us and from libraries."""

from __future__ import annotations

import io
import logging
import re
from collections.abc import Callable

import pytest
import ujson

from metrics.logs import EventLog, JsonFormatter, configure, flush
from tests.unit.metrics.worlds import Lines

KEY = "sk-platform-" + "0123456789abcdef" * 4


ExpectLog = Callable[..., None]


def test_event_is_one_line_with_its_fields(lines: Lines, expect_log: ExpectLog) -> None:
    expect_log("channel_opened")
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


def test_timestamp_is_utc_with_milliseconds() -> None:
    record = logging.LogRecord("a", logging.INFO, "", 0, "m", None, None)
    record.created = 1_790_000_000.0
    assert ujson.loads(JsonFormatter().format(record))["ts"] == "2026-09-21T14:13:20.000Z"
    record.created = 1_790_000_000.9996
    assert ujson.loads(JsonFormatter().format(record))["ts"] == "2026-09-21T14:13:20.999Z"


def test_levels_below_the_configured_one_are_left_out(
    restored_logging: None, expect_log: ExpectLog
) -> None:
    expect_log("c", "d")
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
    assert lines.all() == []
    assert other.one()["action"] == "moved"


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


def test_exception_is_in_two_fields_of_one_line(lines: Lines, expect_log: ExpectLog) -> None:
    expect_log("child_died")
    try:
        raise ValueError(f"refused {KEY}")
    except ValueError:
        EventLog("x").error("child_died", exc_info=True, child="a")
    line = lines.one()
    assert line["error"] == "ValueError: refused sk-platform-0123***"
    assert line["stack"].startswith("Traceback (most recent call last)")
    assert line["stack"].endswith("ValueError: refused sk-platform-0123***\n")
    assert KEY not in lines.stream.getvalue()


def test_error_named_by_the_event_is_kept(lines: Lines, expect_log: ExpectLog) -> None:
    expect_log("failed")
    try:
        raise ValueError("inner")
    except ValueError:
        EventLog("x").error("failed", exc_info=True, error="in our words")
    assert lines.one()["error"] == "in our words"
    assert "ValueError: inner" in lines.one()["stack"]


def test_exc_info_without_an_exception_adds_nothing(lines: Lines, expect_log: ExpectLog) -> None:
    expect_log("failed")
    EventLog("x").warning("failed", exc_info=True)
    assert "stack" not in lines.one()
    assert "error" not in lines.one()


def test_deep_stack_keeps_its_end(lines: Lines, expect_log: ExpectLog) -> None:
    expect_log("failed")

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
        "asked",
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


def test_action_with_percent_signs_is_not_formatted(lines: Lines) -> None:
    EventLog("x").info("at_100%_now")
    assert lines.one()["message"] == "at 100% now"


def test_event_log_says_whose_it_is() -> None:
    assert repr(EventLog("actors.channel")) == "<EventLog actors.channel>"
