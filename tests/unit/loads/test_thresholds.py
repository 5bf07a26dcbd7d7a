"""What a run is judged by."""

from loadtests.locust.verdict import Measured, Taken, Thresholds, busiest_rate, conclusion
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


def taken(*, cores: float, cpu_seconds: float) -> Taken:
    """A gateway that had so much of its core for a second, and so much in all."""
    return Taken(at=[0.0, 99.0, 100.0], cpu=[0.0, cpu_seconds - cores, cpu_seconds], mb=[1.0] * 3)


FAILED = "failures: 40 of 5000 calls (0.800%), at most 0.100%"


@cases(
    "broken, gateway, busy, sentences",
    (
        [],
        taken(cores=0.4, cpu_seconds=5),
        1.0,
        [
            "it holds at least 312 calls/s of 100 users at p95 41 ms: they asked for no more",
            "the gateway took 0.40 of its core at most, 1.00 ms of CPU a call",
            "by that, 85% of its core serve about 850 calls/s; next: --users 270",
        ],
    ),
    (
        [FAILED],
        taken(cores=0.4, cpu_seconds=5),
        1.0,
        [
            f"it does not hold 312 calls/s of 100 users at p95 41 ms: {FAILED}",
            "the gateway took 0.40 of its core at most, 1.00 ms of CPU a call",
            "its core was not full: look for what broke it; next: --users 50, then less",
        ],
    ),
    ([], taken(cores=0.97, cpu_seconds=5), 2.0, ["its core is full: try one more process"]),
    (
        [FAILED],
        taken(cores=0.97, cpu_seconds=5),
        3.9,
        ["one more process needs a core first: all took 3.9 of 4"],
    ),
    ([], None, 1.0, ["what a call costs, and how many users to try next, is seen without --host"]),
)
def test_run_ends_in_what_was_held_and_what_to_try_next(
    broken: list[str], gateway: Taken | None, busy: float, sentences: list[str]
) -> None:
    ended = conclusion(
        rate=312.2,
        p95_ms=41.0,
        broken=broken,
        gateway=gateway,
        requests=5000,
        users=100,
        busy_cores=busy,
        cores=4,
    )
    assert list(ended)[-len(sentences) :] == sentences
