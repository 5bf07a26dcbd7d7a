"""Windows become medians with their spread, and figures are judged by their targets."""

import pytest

from loadtests.bench.bench import Spent, between, from_tally, parse_metrics
from loadtests.bench.figures import (
    TARGETS,
    Row,
    Section,
    Target,
    added,
    furthest,
    of_peer,
    own,
    percentile,
    ratio,
    slowness,
    to_reference,
)
from loadtests.bench.load import Ask, Subject, Tally
from loadtests.bench.table import Table
from loadtests.rig.targets import REFERENCE, Rig
from loadtests.rig.targets import Target as Server

SERVER = Server("gateway", "127.0.0.1", 0, 1, ["key"])
PAGE = """\
gw_loop_lag_seconds_bucket{le="0.001"} 10.0
gw_loop_lag_seconds_bucket{le="0.005"} 12.0
gw_loop_lag_seconds_bucket{le="0.05"} 12.0
gw_loop_lag_seconds_bucket{le="+Inf"} 12.0
gw_loop_lag_seconds_count 12.0
gw_hold_latency_seconds_sum 0.5
gw_hold_latency_seconds_count 100.0
"""


def row(name: str, **values: float) -> Row:
    return Row(name, [values])


def section(*rows: Row, columns: tuple[str, ...] = ("cpu_ms",)) -> Section:
    return Section("Plain", columns, list(rows), verified=1)


def test_a_figure_is_the_median_with_its_spread() -> None:
    some = Row("one", [{"a": 3.0, "b": 1.0}, None, {"a": 9.0}, {"a": 4.0}], ["1 failed: cut"])
    assert (some.get("a"), some.values("a")) == (4.0, [3.0, 9.0, 4.0])
    assert some.get("b") is Row("none").get("a") is None


def test_servers_are_compared_turn_by_turn() -> None:
    mine = Row("gateway", [{"ms": 2.0}, None, {"ms": 8.0}, {"ms": 30.0}])
    base = Row(REFERENCE, [{"ms": 1.0}, {"ms": 9.0}, {"ms": 2.0}, {"ms": 10.0}])
    assert ratio(mine, base, "ms") == 3.0
    assert added(mine, base, "ms") == 6.0
    assert ratio(mine, Row(REFERENCE, [None, {"ms": 1.0}]), "ms") is None
    assert ratio(mine, None, "ms") is ratio(mine, base, "pg_ms") is None
    assert ratio(mine, row("idle", ms=0.0), "ms") is None


def test_percentiles_are_values_that_were_seen() -> None:
    shares = {0.5: 50, 0.99: 99, 1.0: 100, 0.001: 1}
    assert {share: percentile(range(1, 101), share) for share in shares} == shares


def test_what_the_gateway_says_is_of_what_came_between() -> None:
    later = PAGE.replace("sum 0.5", "sum 0.9").replace("count 100.0", "count 300.0")
    before, after = parse_metrics(PAGE), parse_metrics(later)
    assert between(before, after) == {"lag_ms": 0.0, "hold_ms": pytest.approx(2)}
    slow = parse_metrics(later.replace("} 12.0", "} 13.0"))
    assert between(before, slow)["lag_ms"] == 5.0
    assert between({}, {}) == {}
    two = parse_metrics(PAGE.replace("{le", '{process="1",le') + PAGE)
    assert two[0.005] == 24.0


def test_targets_are_judged_where_they_were_measured() -> None:
    plain = section(row("gateway", cpu_ms=0.3, pg_ms=0.01), row(REFERENCE, cpu_ms=0.1))
    twice = Target("plain", "", 2, "{:.1f}", to_reference("cpu_ms"))
    most = Target("plain", "", 0.04, "{}", own("pg_ms"))
    least = most._replace(least=True)
    assert twice.judge({"plain": plain}) == (0.3 / 0.1, False)
    assert most.judge({"plain": plain}) == (0.01, True)
    assert least.judge({"plain": plain}) == (0.01, False)
    assert twice.judge({}) is None
    assert twice.judge({"plain": section(row("gateway", cpu_ms=0.3))}) is None


def test_peer_is_compared_with_what_we_and_our_database_take() -> None:
    spent: Spent = {"server": 3.0, "database": 1.0, "rig": 0.0, "stolen": 0.0, "at": 0.0}
    subject = Subject("gateway", SERVER, (), Ask(1, events=4))
    mine = from_tally(subject, Tally(responses=1000, events=4000), 1.0, spent, Rig([], 1))
    assert (mine["cpu_ms"], mine["pg_ms"], mine["whole_ms"]) == (3.0, 1.0, 4.0)
    assert mine["whole_event_us"] == 1000.0
    both = section(Row("gateway", [mine]), row("peer", whole_ms=6.0))
    assert of_peer("peer", "gateway", "whole_ms")(both) == 1.5
    assert of_peer("absent", "gateway", "whole_ms")(both) is None


def test_rows_apart_are_every_number_of_accounts_of_our_tree() -> None:
    one, many = row("1 account", rate=100), row("9 accounts", rate=80)
    others = row("9 accounts of another", rate=1), row("9 accounts, the first call of each", rate=2)
    assert furthest("rate")(section(one, many, *others)) == pytest.approx(0.25)
    assert furthest("rate")(section(one, Row("9 accounts", [None]))) is None


def rendered(plain: Section) -> str:
    return Table(["a machine"], {"plain": plain}).render()


def test_the_table_shows_spread_ratio_voids_and_targets() -> None:
    windows = [{"cpu_ms": one} for one in (0.25, 0.3, 0.4)]
    mine = Row("gateway", [*windows, None], ["1 failed: cut"])
    base = Row(REFERENCE, [{"cpu_ms": 0.1} for _ in range(4)])
    lost = Row("other", [None, None], ["no answer", "no answer"])
    measured = section(mine, base, lost, columns=("cpu_ms", "ratio"))
    text = rendered(measured)
    assert "| gateway | 0.300 (0.250–0.400) | 3.00 |" in text
    assert "| other | – | – |" in text
    assert "- gateway: 1 windows are void (1 failed: cut)" in text
    assert "- other: every window is void (no answer)" in text
    assert "- **plain: every window of other is void**" in text
    assert f"| {TARGETS[0].work} | loopback | ≤ 2.00 × | 3.00 × |  | **no** |" in text
    assert text.count("not measured") == len(TARGETS) - 1


def test_work_that_is_measured_again_says_over_which_network() -> None:
    table, base = Table(["a machine"]), row(REFERENCE, cpu_ms=0.1)
    for network, cpu_ms in (("loopback", 0.3), ("0.25 ms", 0.4)):
        measured = section(row("gateway", cpu_ms=cpu_ms), base)
        measured.network = network
        table.put("plain", measured, ["body", "plain"])
    text = table.render()
    assert [one.network for one in table.work.values()] == ["0.25 ms"]
    assert f"| {TARGETS[0].work} | network | ≤ 2.00 × | 4.00 × |" in text
    assert "; over 0.25 ms; w" in text
    assert "times as slow" not in text
    assert text.count("not measured") == len(TARGETS) - 1


def test_times_of_cpu_stand_beside_what_they_were_where_the_targets_were_set() -> None:
    plain = section(row("gateway", cpu_ms=0.3, pg_ms=0.05), row(REFERENCE, cpu_ms=0.14))
    assert slowness({"plain": plain}) == pytest.approx(2)
    text = rendered(plain)
    assert "| ≤ 0.040 ms | 0.050 ms | 0.025 ms | **no** |" in text
    assert "this machine is 2.00 times as slow" in text
    assert slowness({}) is None


def test_a_busy_rig_is_named_and_so_is_work_that_could_not_be_measured() -> None:
    busy = section(row("gateway", cpu_ms=0.3, rig_busy=0.95))
    assert "The rig is at its limit in: gateway." in rendered(busy)
    assert "- **plain: VerifyFailed: an odd entry**" in rendered(
        Section(fault="VerifyFailed: an odd entry")
    )
