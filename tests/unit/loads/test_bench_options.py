"""The command line of the benchmark: what is done, and what is refused."""

from __future__ import annotations

import pytest

from loadtests.bench.bench import FULL
from loadtests.bench.options import TABLE, chosen, others, parse
from loadtests.bench.workloads import WORKLOADS


def test_everything_but_the_long_run_is_done_unless_told() -> None:
    assert chosen(parse([])) == [name for name in WORKLOADS if name != "soak"]
    assert chosen(parse(["--soak", "20"])) == list(WORKLOADS)
    assert chosen(parse(["--only", "stream", "plain"])) == ["plain", "stream"]


def test_a_quick_run_leaves_the_table_alone_unless_told() -> None:
    assert parse([]).write == TABLE
    assert parse(["--quick"]).write is None
    assert parse(["--quick", "--write", "mine.md"]).write.name == "mine.md"


def test_streams_are_as_many_as_files_may_be_open() -> None:
    assert FULL.within(65_536) == FULL
    assert FULL.within(20_000).streams == (500, 2_000, 9_900)


def test_other_servers_have_a_name_or_their_address() -> None:
    first, second = (
        ("serve --port {port}", "http://127.0.0.1:81"),
        ("b", "http://127.0.0.1:82"),
    )
    options = parse(["--against", *first, "--against", *second, "--name", "first"])
    assert [(one.name, one.url) for one in others(options)] == [
        ("first", "http://127.0.0.1:81"),
        ("127.0.0.1:82", "http://127.0.0.1:82"),
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        ["--name", "nobody"],
        ["--only", "soak"],
        ["--only", "nothing"],
        ["--windows", "0"],
        ["--against", "command", "http://127.0.0.1"],
    ],
)
def test_what_makes_no_sense_is_refused(
    wrong: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:
        parse(wrong)
    assert left.value.code == 2
    assert "ops/bench: error" in capsys.readouterr().err
