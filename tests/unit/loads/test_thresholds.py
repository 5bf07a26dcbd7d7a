"""What a run is judged by."""

from loadtests.locust.verdict import Measured, Thresholds, busiest_rate, conclusion
from tests.support.rows import cases

THRESHOLDS = Thresholds(p95_first_event_ms=500, failure_ratio=0.001)


@cases(
    "calls, first_ms, failures, kept",
    (1000, 500.0, 1, [True, True]),
    (1000, 500.1, 1, [False, True]),
    (1000, 20.0, 2, [True, False]),
    (1000, None, 0, [False, True]),
    (0, None, 0, [False, False]),
)
def test_thresholds_are_kept_up_to_themselves(
    calls: int, first_ms: float | None, failures: int, kept: list[bool]
) -> None:
    measured = Measured(calls=calls, failures=failures, p95_first_event_ms=first_ms)
    assert [is_kept for is_kept, _ in THRESHOLDS.verdicts(measured)] == kept


def test_where_nobody_asks_for_streams_failures_alone_are_judged() -> None:
    none = Thresholds(p95_first_event_ms=None, failure_ratio=0.001)
    measured = Measured(calls=10, failures=0, p95_first_event_ms=None)
    assert [is_kept for is_kept, _ in none.verdicts(measured)] == [True]


def test_verdict_says_what_was_measured_and_what_is_allowed() -> None:
    measured = Measured(calls=4000, failures=10, p95_first_event_ms=123.4)
    assert [line for _, line in THRESHOLDS.verdicts(measured)] == [
        "p95 time to first event: 123 ms, at most 500 ms",
        "failures: 10 of 4000 calls (0.250%), at most 0.100%",
    ]


def test_rate_is_that_of_the_ten_busiest_seconds_in_a_row() -> None:
    ramp = {second: 10 * second for second in range(1, 21)}
    assert busiest_rate(ramp) == 10 * 15.5
    assert busiest_rate({100: 8, 103: 8}) == 4
    assert busiest_rate({}) == 0


@cases(
    "is_kept, gateway, busy, sentence",
    (True, 0.4, 1.0, "holds 312 calls/s at p95 41 ms; one more process is not needed"),
    (True, 0.97, 2.0, "one more process would hold up to 312 more: the gateway took 0.97"),
    (True, 0.97, 3.9, "one more process needs a core first"),
    (False, 0.4, 1.0, "does not hold 312 calls/s at p95 41 ms; one more process would not help"),
    (True, None, 1.0, "whether one more process would hold more is seen without --host"),
)
def test_run_ends_in_a_sentence(
    is_kept: bool, gateway: float | None, busy: float, sentence: str
) -> None:
    ended = conclusion(
        rate=312.2, p95_ms=41.0, is_kept=is_kept, gateway_cores=gateway, busy_cores=busy, cores=4
    )
    assert sentence in ended
