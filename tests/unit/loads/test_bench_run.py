"""A run of the benchmark: what it is told, where it runs, which windows count, what it keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from loadtests.bench import bench as module
from loadtests.bench.__main__ import TABLE, parse
from loadtests.bench.bench import FULL, Bench
from loadtests.bench.figures import Row, Section, Window
from loadtests.bench.load import Ask, Subject
from loadtests.bench.placement import place
from loadtests.bench.record import Measured, Record, begin, keep
from loadtests.bench.rig import Rig, Target
from loadtests.bench.scenarios import WORKLOADS
from loadtests.bench.window import VoidWindow

ORDER = ("plain", "stream", "body")
UPSTREAM = Target("rig alone", "127.0.0.1", 1, 1, ["key"])
SUBJECT = Subject("gateway", UPSTREAM, (b"",), Ask(connections=1))
SERVERS = ("--against", "serve {port}", "http://127.0.0.1:81", "--against", "b", "http://[::1]:82")


def test_a_command_line_says_what_is_done_and_where_it_is_written() -> None:
    assert parse([]).only == [name for name in WORKLOADS if name != "soak"]
    assert parse(["--soak", "20"]).only == list(WORKLOADS)
    assert parse(["--only", "stream", "plain"]).only == ["plain", "stream"]
    quick = ["--quick"]
    assert (parse([]).write, parse(quick).write) == (TABLE, None)
    assert parse([*quick, "--write", "mine.md"]).write.name == "mine.md"
    one, two = parse([*SERVERS]).against
    assert (one.name, one.command, two.name) == ("127.0.0.1:81", "serve {port}", "[::1]:82")


@pytest.mark.parametrize(
    "wrong",
    [
        "--only soak",
        "--only nothing",
        "--windows 0",
        "--against x http://127.0.0.1",
    ],
)
def test_what_makes_no_sense_is_refused(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        parse(wrong.split())
    assert left.value.code == 2
    assert "ops/bench: error" in capsys.readouterr().err


def test_streams_are_as_many_as_files_may_be_open() -> None:
    assert FULL.within(65_536) == FULL
    assert FULL.within(20_000).streams == (500, 2_000, 9_900)


@pytest.mark.parametrize(
    ("cores", "expected"),
    [
        ([3], ({3}, {3}, {3}, {3})),
        ([0, 1], ({0}, {1}, {1}, {1})),
        ([0, 1, 2], ({0}, {1}, {1}, {2})),
        ([4, 5, 6, 7], ({4}, {5}, {6}, {7})),
    ],
)
def test_who_gets_which_core(cores: list[int], expected: tuple[set[int], ...]) -> None:
    one = place(cores)
    assert [one.server, one.database, one.upstream, one.load] == [*map(frozenset, expected)]
    assert one.is_disjoint == (len(cores) > 1)


def test_two_servers_on_two_cores_compete_with_the_rig_and_the_table_says_so() -> None:
    placement = place([0, 1], server=2)
    assert placement.server == placement.rig == {0, 1}
    assert "compete" in placement.describe()
    assert "compete" not in place(range(5), server=2).describe()


@pytest.mark.parametrize(
    ("shares", "kept"),
    [
        ((0.0, 0.02), [0.0, 0.02]),
        ((0.3, 0.01, 0.0), [0.01, 0.0]),
        ((0.3, 0.1, 0.2, 0.0), [0.1, 0.0]),
        ((None, 0.0), [None, 0.0]),
    ],
    ids=["undisturbed", "once more", "never undisturbed", "void for good"],
)
def test_window_that_other_guests_disturb_is_measured_again(
    monkeypatch: pytest.MonkeyPatch, shares: Sequence[float | None], kept: list[float | None]
) -> None:
    left = iter(shares)

    def measure(*_: object, **__: object) -> list[Window]:
        share = next(left)
        if share is None:
            raise VoidWindow("refused")
        return [{"stolen": share}]

    monkeypatch.setattr(module, "measure", measure)
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0)
    bench = Bench(place([0]), replace(FULL, windows=2), Rig(UPSTREAM, 1))
    (row,) = bench.compare([SUBJECT])
    assert [one and one["stolen"] for one in row.windows] == kept
    assert row.voids == ["refused"] * kept.count(None)
    assert next(left, "all used") == "all used"


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
    assert again.work["plain"] == first.work["plain"]
    assert again.work["stream"] == measured("stream", 3.0)
    assert table.read_text(encoding="utf-8") == "text"


def test_figures_of_another_machine_or_of_a_quick_run_do_not_stand_beside(tmp_path: Path) -> None:
    table = tmp_path / "table.md"
    keep(Record(["a machine"], True, {"plain": measured("plain", 1.0)}), table, "")
    assert begin(table, ("a machine",), is_full=True).work
    assert not begin(table, ("another",), is_full=True).work
    assert not begin(table, ("a machine",), is_full=False).work
    assert not begin(None, ("a machine",), is_full=True).work
