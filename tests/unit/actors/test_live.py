"""The calls of this process, and which of them have something new to say."""

from __future__ import annotations

from uuid import UUID

from actors.wallet.wallets import Delivered, LiveCalls

ONE, TWO = UUID(int=1), UUID(int=2)


def delivered(cost: int) -> Delivered:
    return Delivered(cost_nano_usd=cost, input_tokens=1, output_tokens=cost)


def changed(live: LiveCalls) -> dict[UUID, Delivered]:
    """Everything that is listed now."""
    return {call_id: found for moved in live.changed(at_once=10) for call_id, found in moved}


def test_call_lives_between_entering_and_leaving() -> None:
    live = LiveCalls()
    live.enter(ONE, lambda: None)
    live.enter(TWO, lambda: None)
    assert (len(live), ONE in live, live.ids()) == (2, True, {ONE, TWO})
    live.leave(ONE)
    live.leave(ONE)
    assert (len(live), ONE in live, live.ids()) == (1, False, {TWO})


def test_only_calls_that_delivered_more_are_listed() -> None:
    live, so_far = LiveCalls(), {ONE: delivered(1), TWO: delivered(5)}
    live.enter(ONE, lambda: so_far[ONE])
    live.enter(TWO, lambda: so_far[TWO])
    assert changed(live) == {ONE: delivered(1), TWO: delivered(5)}
    so_far[ONE] = delivered(2)
    assert changed(live) == {ONE: delivered(2)}
    assert changed(live) == {}


def test_call_that_has_delivered_nothing_is_not_listed() -> None:
    live = LiveCalls()
    live.enter(ONE, lambda: None)
    assert changed(live) == {}


def test_report_that_did_not_arrive_is_made_again() -> None:
    live = LiveCalls()
    live.enter(ONE, lambda: delivered(1))
    assert changed(live) == dict.fromkeys([ONE], delivered(1))
    live.report_again()
    assert changed(live) == dict.fromkeys([ONE], delivered(1))


def test_no_list_takes_longer_than_so_many_calls() -> None:
    live = LiveCalls()
    calls = [UUID(int=number) for number in range(5)]
    live.enter(calls[0], lambda: None)
    for call_id in calls[1:]:
        live.enter(call_id, lambda: delivered(1))
    lists = [[call_id for call_id, _ in moved] for moved in live.changed(at_once=2)]
    assert lists == [calls[1:2], calls[2:4], calls[4:]]
    assert list(live.changed(at_once=2)) == [[], [], []]


def test_call_may_end_while_the_lists_are_read() -> None:
    live = LiveCalls()
    live.enter(ONE, lambda: delivered(1))
    live.enter(TWO, lambda: delivered(2))
    for moved in live.changed(at_once=1):
        live.leave(ONE)
        live.leave(TWO)
        assert [call_id for call_id, _ in moved] in ([ONE], [])
    assert len(live) == 0
    live.enter(TWO, lambda: delivered(2))
    assert changed(live) == {TWO: delivered(2)}, "nothing is remembered of a call that has left"
