"""Windows in pieces: exactly covered, and with little to read at their ends."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from gw.api.logs.list_query import Window
from gw.api.logs.summary import WindowPart, cover

DAY = datetime(2026, 11, 10, tzinfo=UTC)
NOW = DAY + timedelta(days=3, hours=9, minutes=50)
MINUTE = timedelta(minutes=1)


def at(days: int, hours: int = 0, minutes: int = 0) -> datetime:
    return DAY + timedelta(days=days, hours=hours, minutes=minutes)


def test_thirty_days_that_end_now_take_no_rows_of_the_present_hour() -> None:
    pieces = cover(Window(at(-27, 9, 50), NOW), NOW)
    assert pieces == [
        WindowPart(24, at(-27), at(4), 1),  # the present day as a whole: the rest of it is empty
        WindowPart(1, at(-27), at(-27, 10), -1),
        WindowPart(0, at(-27, 9, 50), at(-27, 10), 1),
        WindowPart(1, at(3, 10), at(4), -1),
        WindowPart(0, at(3, 9, 50), at(3, 10), -1),
    ]


def test_whole_days_are_one_piece_and_nothing_is_none() -> None:
    assert cover(Window(at(0), at(3)), NOW) == [WindowPart(24, at(0), at(3), 1)]
    assert cover(Window(at(1), at(1)), NOW) == []
    assert cover(Window(at(0, 5), at(0, 7)), NOW) == [
        WindowPart(1, at(0), at(0, 5), -1),
        WindowPart(1, at(0), at(0, 7), 1),
    ]


minutes = st.integers(min_value=-3000, max_value=6000)


@given(start=minutes, length=st.integers(0, 6000), rows=st.lists(minutes, max_size=60))
def test_pieces_add_up_to_the_window(start: int, length: int, rows: list[int]) -> None:
    window = Window(DAY + start * MINUTE, DAY + (start + length) * MINUTE)
    instants = [DAY + row * MINUTE for row in rows if DAY + row * MINUTE <= NOW]
    counted = sum(
        piece.sign * sum(piece.start <= instant < piece.end for instant in instants)
        for piece in cover(window, NOW)
    )
    assert counted == sum(window.start <= instant < window.end for instant in instants)


@given(start=minutes, length=st.integers(0, 6000))
def test_little_is_read_at_the_ends(start: int, length: int) -> None:
    window = Window(DAY + start * MINUTE, DAY + (start + length) * MINUTE)
    for piece in cover(window, NOW):
        seen = min(piece.end, NOW) - min(piece.start, NOW)
        if piece.hours == 0:
            assert seen <= timedelta(minutes=30)
        elif piece.hours == 1:
            assert seen <= timedelta(hours=12, minutes=30)
            assert (piece.start - DAY) % timedelta(hours=1) == timedelta(0)
        else:
            assert (piece.start - DAY) % timedelta(days=1) == timedelta(0)
            assert (piece.end - DAY) % timedelta(days=1) == timedelta(0)
