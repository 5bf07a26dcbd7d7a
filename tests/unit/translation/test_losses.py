"""The report of what a translation dropped."""

from typing import Any

from channels.dialects.chat.members import ORIGIN as CHAT
from channels.dialects.gemini.members import ORIGIN as GEMINI
from channels.dialects.messages.members import ORIGIN as MESSAGES
from channels.translation.losses import LossReport, report_members, spelled
from channels.translation.model import Request


def test_field_is_listed_once_in_order() -> None:
    report = LossReport()
    for field in ("n", "seed", "n"):
        report.drop(field)
    assert report.dropped == ["n", "seed"]
    assert report.warning() == "n; seed"


def test_hint_is_in_the_warning_and_no_loss() -> None:
    report = LossReport()
    report.drop("prompt_cache_key")
    report.drop("seed")
    assert (report.warning(), report.lost) == ("prompt_cache_key; seed", ["seed"])


def test_nothing_dropped_is_no_warning() -> None:
    assert LossReport().warning() is None


def test_name_can_not_break_the_header() -> None:
    report = LossReport()
    report.drop("a\r\nSet-Cookie: x; é")
    report.drop("x" * 500)
    first, second = report.dropped
    assert first == "a__Set-Cookie__x___"
    assert len(second) == 80


def test_very_many_names_are_counted() -> None:
    report = LossReport()
    for number in range(45):
        report.drop(f"f{number}")
    warning = report.warning()
    assert warning is not None
    assert warning.endswith("f39; 5 more")


def test_neutral_and_null_members_lose_nothing() -> None:
    report = LossReport()
    extras: dict[str, Any] = {"store": False, "logprobs": None, "top_logprobs": 2, "x": 0}
    report_members(Request(origin=CHAT, extras=extras), report, carried=["x"])
    assert report.dropped == ["top_logprobs"]


def test_canonical_fields_are_spelled_as_the_client_does() -> None:
    assert spelled(CHAT, "count") == "n"
    assert spelled(MESSAGES, "stop") == "stop_sequences"
    assert spelled(GEMINI, "temperature") == "generationConfig.temperature"
    assert spelled(CHAT, "temperature") == "temperature"
