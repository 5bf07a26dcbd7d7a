"""The calls of this process, and which of them have something new to say."""

from __future__ import annotations

from uuid import UUID

from actors.live import Delivered, LiveCalls

ONE, TWO = UUID(int=1), UUID(int=2)


def delivered(cost: int) -> Delivered:
    return Delivered(cost_nano_usd=cost, input_tokens=1, output_tokens=cost)


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
    assert dict(live.changed()) == {ONE: delivered(1), TWO: delivered(5)}
    so_far[ONE] = delivered(2)
    assert dict(live.changed()) == {ONE: delivered(2)}
    assert dict(live.changed()) == {}


def test_call_that_has_delivered_nothing_is_not_listed() -> None:
    live = LiveCalls()
    live.enter(ONE, lambda: None)
    assert dict(live.changed()) == {}


def test_report_that_did_not_arrive_is_made_again() -> None:
    live = LiveCalls()
    live.enter(ONE, lambda: delivered(1))
    assert dict(live.changed()) == dict.fromkeys([ONE], delivered(1))
    live.report_again()
    assert dict(live.changed()) == dict.fromkeys([ONE], delivered(1))


def test_call_may_end_while_the_list_is_read() -> None:
    live = LiveCalls()
    live.enter(ONE, lambda: delivered(1))
    live.enter(TWO, lambda: delivered(2))
    for call_id, _ in live.changed():
        live.leave(ONE)
        live.leave(call_id)
    assert len(live) == 0
    live.enter(ONE, lambda: delivered(1))
    assert dict(live.changed()) == dict.fromkeys([ONE], delivered(1))
