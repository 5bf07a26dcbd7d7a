"""Windows by turns: which of them count."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from loadtests.bench import bench as module
from loadtests.bench.bench import FULL, Bench
from loadtests.bench.crew import Crew
from loadtests.bench.figures import Section, Window
from loadtests.bench.load import Plan
from loadtests.bench.placement import place
from loadtests.bench.rig import Target
from loadtests.bench.window import Rig, Subject, VoidWindow

UPSTREAM = Target("rig alone", "127.0.0.1", 1, 1, ["key"])
SUBJECT = Subject("gateway", UPSTREAM, Plan("127.0.0.1", 1, (b"",), connections=1))


def compared(monkeypatch: pytest.MonkeyPatch, *shares: float | None) -> Section:
    """Two turns of a server; what others take in each opening, None where one is void."""
    left: Iterator[float | None] = iter(shares)

    def measure(*_: object, **__: object) -> list[Window]:
        share = next(left)
        if share is None:
            raise VoidWindow("refused")
        return [{"stolen": share}]

    monkeypatch.setattr(module, "measure", measure)
    monkeypatch.setattr(module, "PAUSE_SECONDS", 0)
    placement = place([0])
    bench = Bench(placement, replace(FULL, windows=2), Rig(Crew([]), UPSTREAM, 1))
    section = bench.compare("plain", "Plain", (), [SUBJECT])
    assert next(left, "all used") == "all used"
    return section


@pytest.mark.parametrize(
    ("shares", "kept"),
    [
        ((0.0, 0.02), [0.0, 0.02]),
        ((0.3, 0.01, 0.0), [0.01, 0.0]),
        ((0.3, 0.1, 0.2, 0.0), [0.1, 0.0]),
    ],
    ids=["undisturbed", "once more", "never undisturbed"],
)
def test_window_that_other_guests_disturb_is_measured_again(
    monkeypatch: pytest.MonkeyPatch, shares: tuple[float, ...], kept: list[float]
) -> None:
    (row,) = compared(monkeypatch, *shares).rows
    assert [window["stolen"] for window in row.valid] == kept


def test_failed_request_voids_a_window_for_good(monkeypatch: pytest.MonkeyPatch) -> None:
    (row,) = compared(monkeypatch, None, 0.0).rows
    assert row.windows == [None, {"stolen": 0.0}]
    assert row.voids == ["refused"]
