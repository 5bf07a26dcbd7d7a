"""Windows become medians with their spread, and figures are judged by their targets."""

from __future__ import annotations

import math

import pytest

from loadtests.bench.figures import (
    Figure,
    Row,
    Section,
    added,
    percentile,
    ratio,
    slope,
    summarise,
)
from loadtests.bench.lag import longest_seconds, parse_buckets
from loadtests.bench.rig import REFERENCE
from loadtests.bench.table import Run, render
from loadtests.bench.targets import TARGETS, Target, furthest, own, to_reference

PAGE = """\
gw_loop_lag_seconds_bucket{le="0.001"} 10.0
gw_loop_lag_seconds_bucket{le="0.005"} 12.0
gw_loop_lag_seconds_bucket{le="0.05"} 12.0
gw_loop_lag_seconds_bucket{le="+Inf"} 12.0
gw_loop_lag_seconds_count 12.0
"""


def row(name: str, **values: float) -> Row:
    return Row(name, {key: Figure(one, one, one, 1) for key, one in values.items()})


def section(*rows: Row, name: str = "plain", columns: tuple[str, ...] = ("cpu_ms",)) -> Section:
    return Section(name, name.title(), columns, list(rows))


def test_a_figure_is_the_median_with_its_spread() -> None:
    figures = summarise([{"a": 3.0, "b": 1.0}, {"a": 9.0}, {"a": 4.0}])
    assert figures == {"a": Figure(4.0, 3.0, 9.0, 3)}
    assert summarise([]) == {}


@pytest.mark.parametrize(("share", "expected"), [(0.5, 50), (0.99, 99), (1.0, 100), (0.001, 1)])
def test_percentiles_are_values_that_were_seen(share: float, expected: int) -> None:
    assert percentile(range(1, 101), share) == expected
    assert percentile([7.0], share) == 7.0


def test_slope_is_that_of_the_line() -> None:
    assert slope([(x, 3 + 2 * x) for x in (0.0, 1.0, 5.0)]) == pytest.approx(2)
    assert slope([]) == slope([(1.0, 5.0)]) == 0.0


def test_comparisons_need_both_sides() -> None:
    mine, base = row("gateway", cpu_ms=0.3), row(REFERENCE, cpu_ms=0.1)
    assert ratio(mine, base, "cpu_ms") == pytest.approx(3)
    assert added(mine, base, "cpu_ms") == pytest.approx(0.2)
    assert ratio(mine, None, "cpu_ms") is ratio(mine, base, "pg_ms") is None
    assert ratio(mine, row("idle", cpu_ms=0.0), "cpu_ms") is None


def test_the_longest_lag_is_the_highest_bucket_that_grew() -> None:
    before = {0.001: 10.0, 0.005: 10.0, 0.05: 10.0, math.inf: 10.0}
    assert longest_seconds(before, parse_buckets(PAGE)) == 0.005
    assert longest_seconds(parse_buckets(PAGE), parse_buckets(PAGE)) == 0.0
    two = parse_buckets(PAGE.replace("{le", '{process="1",le') + PAGE)
    assert two[0.005] == 24.0


def test_targets_are_judged_where_they_were_measured() -> None:
    plain = section(row("gateway", cpu_ms=0.3, pg_ms=0.01), row(REFERENCE, cpu_ms=0.1))
    twice = Target("plain", "", 2, "{:.1f}", to_reference("cpu_ms"))
    judged = twice.judge({"plain": plain})
    assert judged is not None
    assert judged[0] == pytest.approx(3)
    assert judged[1] is False
    assert Target("plain", "", 0.04, "{}", own("pg_ms")).judge({"plain": plain}) == (
        0.01,
        True,
    )
    assert Target("plain", "", 1, "{}", own("pg_ms"), least=True).judge({"plain": plain}) == (
        0.01,
        False,
    )
    assert twice.judge({}) is None
    assert twice.judge({"plain": section(row("gateway", cpu_ms=0.3))}) is None


def test_rows_apart_need_every_row() -> None:
    both = section(row("one", rate=100), row("many", rate=80))
    assert furthest("rate")(both) == pytest.approx(0.25)
    assert furthest("rate")(section(row("one", rate=100), Row("void"))) is None


def test_the_table_shows_spread_ratio_voids_and_targets() -> None:
    mine = Row("gateway", {"cpu_ms": Figure(0.3, 0.25, 0.4, 4)}, ["1 failed: cut"])
    lost = Row("other", {}, ["no answer", "no answer"])
    measured = section(mine, row(REFERENCE, cpu_ms=0.1), lost, columns=("cpu_ms", "ratio"))
    run = Run("ops/bench", "today", ["a machine"], "all over", 5, 3.0, is_full=True)
    text = render(run, [measured])
    assert "| gateway | 0.300 (0.250–0.400) | 3.00 |" in text
    assert "| other | – | – |" in text
    assert "- gateway: 1 windows are void (1 failed: cut)" in text
    assert "- other: every window is void (no answer)" in text
    assert f"| {TARGETS[0].work} | ≤ 2.00 × | 3.00 × | **no** |" in text
    assert text.count("not measured") == len(TARGETS) - 1


def test_a_quick_table_judges_nothing_and_a_busy_rig_is_named() -> None:
    busy = section(row("gateway", cpu_ms=0.3, rig_busy=0.95))
    run = Run("ops/bench --quick", "today", [], "all over", 2, 0.4, is_full=False)
    text = render(run, [busy])
    assert "Beside the targets" not in text
    assert "The rig is at its limit in: gateway." in text
