"""How long a conversation stays with a model of its chain, in every process."""

import pytest

from gw.calls import served_models
from gw.calls.served_models import ServedModels
from tests.support.specs import make_model

A, B = make_model("a", id="A"), make_model("b", id="B")
BEST = make_model(id="best", chain=(A, B))


def order_of(served: ServedModels, now: float, pin: str = "p") -> list[str]:
    return [one.id for one in served.order(BEST, pin, now)]


def test_conversation_stays_until_an_hour_after_its_last_call() -> None:
    served = ServedModels()
    assert order_of(served, 0.0) == ["A", "B"]
    served.keep(BEST, "p", "A", 0.0)
    assert len(served) == 0
    served.keep(BEST, "p", "B", 0.0)
    assert order_of(served, 3599.0) == ["B", "A"]
    assert order_of(served, 3600.0) == ["A", "B"]
    assert order_of(served, 1.0, "another") == ["A", "B"]
    served.keep(BEST, "p", "B", 3000.0)
    assert order_of(served, 6000.0) == ["B", "A"]
    served.keep(BEST, "p", "A", 6000.0)
    assert order_of(served, 6001.0) == ["A", "B"]


def test_conversations_remembered_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served_models, "CONVERSATIONS_MAX", 2)
    served = ServedModels()
    for pin in ("p", "q", "p", "r"):
        served.keep(BEST, pin, "B", 0.0)
    assert [order_of(served, 1.0, pin)[0] for pin in "pqr"] == ["B", "A", "B"]


class Wire:
    """What processes send each other, each of which hears all of it in the same order."""

    def __init__(self, *processes: ServedModels) -> None:
        self._processes = processes
        self.sent: list[str] = []
        self.is_cut = False

    async def round(self, now: float) -> None:
        """Each process sends its news, then all hear what was sent."""
        sent: list[str] = []

        async def send(change: str) -> None:
            if self.is_cut:
                raise ConnectionError
            assert len(change) < 8000
            sent.append(change)

        for one in self._processes:
            await one.share(send)
        for change in sent:
            kind, _, told = change.partition(":")
            assert kind == served_models.KIND
            for one in self._processes:
                one.heard(told, now)
        self.sent += sent


async def test_every_process_knows_the_model_and_hears_of_changes_alone() -> None:
    one, other = ServedModels(), ServedModels()
    wire = Wire(one, other)
    one.keep(BEST, "p", "A", 0.0)
    await wire.round(1.0)
    assert wire.sent == []  # as it is everywhere
    one.keep(BEST, "p", "B", 2.0)
    await wire.round(3.0)
    assert order_of(other, 3602.0) == ["B", "A"]
    for process, now in ((one, 4.0), (other, 5.0), (one, 1800.0)):
        process.keep(BEST, "p", "B", now)
        await wire.round(now)
    assert len(wire.sent) == 1
    one.keep(BEST, "p", "B", 1900.0)  # or the others would forget it an hour after they heard
    await wire.round(1900.0)
    assert order_of(other, 5000.0) == ["B", "A"]
    other.keep(BEST, "p", "A", 5000.0)
    await wire.round(5001.0)
    assert order_of(one, 5002.0) == ["A", "B"]
    assert len(wire.sent) == 3


async def test_processes_that_differ_agree_on_what_was_sent_last() -> None:
    one, other = ServedModels(), ServedModels()
    wire = Wire(one, other)
    for now in (0.0, 10.0):
        one.keep(BEST, "p", "B", now)
        other.keep(BEST, "q", "B", now)
        other.keep(BEST, "p", "B", now)
        other.keep(BEST, "p", "A", now)
        await wire.round(now + 1)
        assert order_of(one, now + 2) == order_of(other, now + 2) == ["A", "B"]
    # What is older than the own news, which is still to be sent, changes nothing.
    sent = wire.sent[1].partition(":")[2]
    one.keep(BEST, "p", "A", 20.0)
    one.keep(BEST, "p", "B", 21.0)
    one.heard(sent, 22.0)
    assert order_of(one, 23.0) == ["B", "A"]


async def test_what_could_not_be_sent_is_sent_again_and_its_amount_is_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one, other = ServedModels(), ServedModels()
    wire = Wire(one, other)
    wire.is_cut = True
    one.keep(BEST, "p", "B", 0.0)
    with pytest.raises(ConnectionError):
        await wire.round(1.0)
    wire.is_cut = False
    await wire.round(2.0)
    assert order_of(other, 3.0) == ["B", "A"]
    monkeypatch.setattr(served_models, "NEWS_MAX", 450)
    for number in range(500):
        one.keep(BEST, f"of {number}", "B", 4.0)
    await wire.round(5.0)
    assert len(wire.sent) == 1 + 3
    assert [order_of(other, 6.0, f"of {number}")[0] for number in (0, 49, 50, 499)] == [*"AABB"]
