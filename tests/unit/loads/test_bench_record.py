"""Figures are kept beside the table, so that a part of it can be measured again."""

from __future__ import annotations

from pathlib import Path

from loadtests.bench.figures import Row, Section
from loadtests.bench.record import Measured, Record, begin, keep

ORDER = ("plain", "stream", "body")


def measured(name: str, value: float) -> Measured:
    row = Row("gateway", [{"cpu_ms": value}, None], ["1 failed: cut"])
    return Measured("today", "ops/bench", 1, Section(name, name, ["cpu_ms"], [row], ["a note"]))


def test_what_is_measured_again_replaces_its_part_and_leaves_the_others(tmp_path: Path) -> None:
    table = tmp_path / "made" / "table.md"
    first = begin(table, ("a machine",), is_full=True)
    first.put("stream", measured("stream", 1.0), ORDER)
    first.put("plain", measured("plain", 2.0), ORDER)
    keep(first, table, "text")
    again = begin(table, ("a machine",), is_full=True)
    again.put("stream", measured("stream", 3.0), ORDER)
    again.put("body", Measured("today", "ops/bench", fault="void"), ORDER)
    assert list(again.work) == list(ORDER)
    assert [section.rows[0].get("cpu_ms") for section in again.sections] == [2.0, 3.0]
    assert again.work["plain"] == first.work["plain"]
    assert table.read_text(encoding="utf-8") == "text"


def test_figures_of_another_machine_or_of_a_quick_run_do_not_stand_beside(tmp_path: Path) -> None:
    table = tmp_path / "table.md"
    keep(Record(("a machine",), True, {"plain": measured("plain", 1.0)}), table, "")
    assert begin(table, ("a machine",), is_full=True).work
    assert not begin(table, ("another",), is_full=True).work
    assert not begin(table, ("a machine",), is_full=False).work
    assert not begin(None, ("a machine",), is_full=True).work
