"""Which delivery of a webhook is begun next: first attempts in order, others without holding up."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from actors.webhooks.lanes import AT_ONCE, LATERS_MAX, Lanes


@dataclass(frozen=True)
class One:
    sequence: int
    is_first: bool


def lanes_of(firsts: int, laters: int) -> Lanes[One]:
    lanes: Lanes[One] = Lanes()
    for number in range(firsts):
        lanes.add(One(1000 + number, is_first=True))
    for number in range(laters):
        lanes.add(One(number, is_first=False))
    return lanes


def begun(lanes: Lanes[One]) -> list[One]:
    found = []
    while (one := lanes.begin()) is not None:
        found.append(one)
    return found


@given(
    firsts=st.integers(0, 40),
    laters=st.integers(0, 10),
    ends=st.lists(st.integers(0, AT_ONCE - 1), max_size=60),
)
def test_eight_at_once_in_order_and_retries_leave_places(
    firsts: int, laters: int, ends: list[int]
) -> None:
    lanes = lanes_of(firsts, laters)
    under_way: list[One] = []
    order: list[int] = []
    for end in [None, *ends]:
        if end is not None and under_way:
            lanes.end(under_way.pop(end % len(under_way)).sequence)
        new = begun(lanes)
        under_way += new
        order += [one.sequence for one in new if one.is_first]
        assert len(under_way) <= AT_ONCE
        assert sum(not one.is_first for one in under_way) <= LATERS_MAX
        # A place is free only where nothing may take it.
        waiting_firsts = firsts - len(order)
        assert len(under_way) == AT_ONCE or waiting_firsts == 0
    assert order == sorted(order)


def test_retries_that_hang_leave_half_of_the_places_to_first_attempts() -> None:
    lanes = lanes_of(0, 10)
    assert len(begun(lanes)) == LATERS_MAX
    for number in range(10):
        lanes.add(One(1000 + number, is_first=True))
    assert [one.is_first for one in begun(lanes)] == [True] * (AT_ONCE - LATERS_MAX)


def test_retries_are_tried_beside_first_attempts_without_end() -> None:
    assert [one.is_first for one in begun(lanes_of(20, 10))].count(False) == 2


def test_what_is_loaded_under_way_or_unbooked_is_not_loaded_again() -> None:
    lanes = lanes_of(2, 1)
    assert sorted(lanes.wish().known) == [0, 1000, 1001]
    (one, *_) = begun(lanes)
    lanes.end(one.sequence)
    assert sorted(lanes.wish().known) == [0, 1000, 1001]
    lanes.booked(one.sequence)
    assert one.sequence not in lanes.wish().known
    assert not lanes.is_empty
