"""When a delivery is tried again: the table of pauses, give or take, and what a receiver asks."""

from hypothesis import given
from hypothesis import strategies as st

from actors.webhooks.retries import (
    JITTER,
    RETRY_AFTER_MAX,
    Outcome,
    pause_after,
    read_retry_after,
)
from tests.support.rows import each

PAUSES = (5.0, 300.0, 1800.0)
NOW = 1_800_000_000.0
chances = st.floats(0, 1)
outcomes = st.sampled_from(["500", "301", "404", "429", "503", "timeout", "unreachable"])


@given(outcome=outcomes, attempts=st.integers(1, 3), chance=chances)
def test_the_pause_is_that_of_the_table_by_a_fifth(
    outcome: str, attempts: int, chance: float
) -> None:
    pause = pause_after(Outcome(outcome), attempts=attempts, pauses=PAUSES, chance=chance)
    assert pause is not None
    expected = PAUSES[attempts - 1]
    assert expected * (1 - JITTER) - 1e-6 <= pause <= expected * (1 + JITTER) + 1e-6


@given(outcome=outcomes, chance=chances, asked=st.none() | st.floats(0, 1e6))
def test_after_the_last_pause_it_is_dead_whatever_is_asked(
    outcome: str, chance: float, asked: float | None
) -> None:
    ended = Outcome(outcome, asked)
    assert pause_after(ended, attempts=len(PAUSES) + 1, pauses=PAUSES, chance=chance) is None
    assert pause_after(ended, attempts=1, pauses=(), chance=chance) is None


@given(outcome=outcomes, attempts=st.integers(1, 3), chance=chances, asked=st.floats(0, 1e6))
def test_a_longer_retry_after_of_429_and_503_counts_up_to_a_day(
    outcome: str, attempts: int, chance: float, asked: float
) -> None:
    own = pause_after(Outcome(outcome), attempts=attempts, pauses=PAUSES, chance=chance)
    pause = pause_after(Outcome(outcome, asked), attempts=attempts, pauses=PAUSES, chance=chance)
    assert own is not None
    if outcome in ("429", "503"):
        assert pause == max(own, min(asked, RETRY_AFTER_MAX))
    else:
        assert pause == own


@each(
    "header, seconds",
    [
        (None, None),
        ("", None),
        ("17", 17.0),
        (" 17 ", 17.0),
        ("-1", None),
        ("1.5", None),
        ("9" * 400, RETRY_AFTER_MAX),
        ("Fri, 15 Jan 2027 08:00:30 GMT", 30.0),
        ("Fri, 15 Jan 2027 07:00:00 GMT", 0.0),
        ("Fri, 99 Jan 2027 07:00:00 GMT", None),
        ("soon", None),
    ],
)
def test_retry_after_is_seconds_or_an_instant(header: str | None, seconds: float | None) -> None:
    assert read_retry_after(header, NOW) == seconds


@each(
    "text, is_delivered",
    [("200", True), ("204", True), ("299", True), ("300", False), ("timeout", False), ("2", False)],
)
def test_only_a_2xx_is_delivered(text: str, is_delivered: bool) -> None:
    assert Outcome(text).is_delivered is is_delivered
