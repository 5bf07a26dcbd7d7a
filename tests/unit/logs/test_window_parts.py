"""Windows in pieces: exactly covered, and with little to read at their ends."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from gw.api.logs.window import Window
from gw.api.logs.window_parts import cover

DAY = datetime(2026, 11, 10, tzinfo=UTC)
PARTS_NOW = DAY + timedelta(days=3, hours=9, minutes=50)
MINUTE = timedelta(minutes=1)


def at(days: int, hours: int = 0, minutes: int = 0) -> datetime:
    return DAY + timedelta(days=days, hours=hours, minutes=minutes)


minutes = st.integers(min_value=-3000, max_value=6000)


@given(start=minutes, length=st.integers(0, 6000), rows=st.lists(minutes, max_size=60))
def test_pieces_add_up_to_the_window(start: int, length: int, rows: list[int]) -> None:
    window = Window(DAY + start * MINUTE, DAY + (start + length) * MINUTE)
    instants = [DAY + row * MINUTE for row in rows if DAY + row * MINUTE <= PARTS_NOW]
    counted = sum(
        piece.sign * sum(piece.start <= instant < piece.end for instant in instants)
        for piece in cover(window, PARTS_NOW)
    )
    assert counted == sum(window.start <= instant < window.end for instant in instants)


@given(start=minutes, length=st.integers(0, 6000))
def test_little_is_read_at_the_ends(start: int, length: int) -> None:
    window = Window(DAY + start * MINUTE, DAY + (start + length) * MINUTE)
    for piece in cover(window, PARTS_NOW):
        seen = min(piece.end, PARTS_NOW) - min(piece.start, PARTS_NOW)
        if piece.hours == 0:
            assert seen <= timedelta(minutes=30)
        elif piece.hours == 1:
            assert seen <= timedelta(hours=12, minutes=30)
            assert (piece.start - DAY) % timedelta(hours=1) == timedelta(0)
        else:
            assert (piece.start - DAY) % timedelta(days=1) == timedelta(0)
            assert (piece.end - DAY) % timedelta(days=1) == timedelta(0)
