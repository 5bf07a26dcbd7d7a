"""A run that goes before other work leaves its terminal as it was."""

from pathlib import Path

import pytest

from loadtests.rig import machine


def test_session_has_its_weight_back_whatever_ended_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = tmp_path / "autogroup"
    session.write_text("/autogroup-7 nice 3\n")
    monkeypatch.setattr(machine, "OWN_SESSION", session)

    @machine.session_kept()
    def run() -> None:
        session.write_text("/autogroup-7 nice -20\n")
        raise SystemExit

    with pytest.raises(SystemExit):
        run()
    assert session.read_text() == "3"


@pytest.mark.parametrize("told", [None, ""], ids=["no such file", "no session"])
def test_process_without_a_weighed_session_runs_all_the_same(
    told: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = tmp_path / "autogroup"
    if told is not None:
        session.write_text(told)
    monkeypatch.setattr(machine, "OWN_SESSION", session)
    with machine.session_kept():
        pass
    assert (session.read_text() if session.exists() else None) == told
