"""A run of the benchmark: what it is told, where it runs, which windows count, what it keeps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from loadtests.bench import bench as module
from loadtests.bench.__main__ import LONG, TABLE, parse
from loadtests.bench.bench import Bench
from loadtests.bench.figures import Row, Section, Window
from loadtests.bench.load import Ask, Subject
from loadtests.bench.scenarios import WORKLOADS
from loadtests.bench.table import begin
from loadtests.bench.window import VoidWindow
from loadtests.rig.placement import place
from loadtests.rig.processes import OWN, Target

ORDER = ("plain", "stream", "body")
UPSTREAM = Target("rig alone", "127.0.0.1", 1, 1, ["key"])
SUBJECT = Subject("gateway", UPSTREAM, (b"",), Ask(connections=1))
BENCH = Bench(place([0]), 2, 20_000, UPSTREAM, [])


def test_a_command_line_says_what_is_done_and_where_it_is_written() -> None:
    assert (parse([]).only, parse([]).write) == (
        [one for one in WORKLOADS if one not in LONG],
        TABLE,
    )
    assert parse(["--only", "soak", "stream", "plain"]).only == ["plain", "stream", "soak"]
    assert parse(["--write", "mine.md"]).write.name == "mine.md"


def test_other_trees_and_other_servers_are_measured_beside(tmp_path: Path) -> None:
    python = tmp_path / "old" / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    servers = (
        "--against",
        "serve {port}",
        "http://127.0.0.1:81",
        "--against",
        "b",
        "http://[::1]:8",
    )
    options = parse([*servers, "--against", str(tmp_path / "old")])
    assert [tuple(one) for one in options.others] == [
        ("127.0.0.1:81", "serve {port}", "http://127.0.0.1:81"),
        ("[::1]:8", "b", "http://[::1]:8"),
    ]
    assert options.trees == [(tmp_path / "old", str(python), " of old")]


@pytest.mark.parametrize(
    "wrong",
    ["--only nothing", "--windows 0", "--against x http://127.0.0.1", "--against no-tree"],
)
def test_what_makes_no_sense_is_refused(wrong: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        parse(wrong.split())
    assert left.value.code == 2
    assert "ops/bench: error" in capsys.readouterr().err


def test_streams_are_as_many_as_files_may_be_open() -> None:
    assert BENCH._replace(files=65_536).streams(10_000) == 10_000
    assert BENCH.streams(10_000) == 9_900
    assert BENCH._replace(trees=[OWN]).streams(10_000) == 6_600


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
    (row,) = BENCH.compare([SUBJECT])
    assert [one and one["stolen"] for one in row.windows] == kept
    assert row.voids == ["refused"] * kept.count(None)
    assert next(left, "all used") == "all used"


def measured(value: float) -> Section:
    row = Row("gateway", [{"cpu_ms": value}, None], ["1 failed: cut"])
    return Section("a title", ["cpu_ms"], [row], ["a note"], "today", "ops/bench", 1)


def test_what_is_measured_again_replaces_its_part_and_leaves_the_others(tmp_path: Path) -> None:
    path = tmp_path / "made" / "table.md"
    first = begin(path, ["a machine"])
    first.put("stream", measured(1.0), ORDER)
    first.put("plain", measured(2.0), ORDER)
    first.keep(path)
    again = begin(path, ["a machine"])
    again.put("stream", measured(3.0), ORDER)
    again.put("body", Section(fault="void"), ORDER)
    assert list(again.work) == list(ORDER)
    assert (again.work["plain"], again.work["stream"]) == (measured(2.0), measured(3.0))
    assert path.read_text(encoding="utf-8") == first.render()
    # Figures of other machines do not stand side by side.
    assert not begin(path, ["another machine"]).work
