"""Where Prometheus and promtool come from, and what is said where they come from nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.prometheus_programs import PROGRAMS, NoPrograms, programs


def executable(folder: Path, name: str) -> str:
    """A program of this name."""
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


def test_those_on_the_path_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = {name: executable(tmp_path, name) for name in PROGRAMS}
    monkeypatch.setenv("PATH", str(tmp_path))
    assert programs(tmp_path / "cache") == here
    assert not (tmp_path / "cache").exists()


def test_nothing_is_passed_over_where_there_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoPrograms, match="put `prometheus` and `promtool` on the path"):
        programs(tmp_path / "cache")
    for name in ("apt-get", "dpkg-deb"):
        path = Path(executable(tmp_path, name))
        path.write_text("#!/bin/sh\necho no network here; exit 100\n")
    with pytest.raises(NoPrograms, match="no network here\n"):
        programs(tmp_path / "cache")


def test_those_that_were_unpacked_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cache").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path))
    found = programs(tmp_path / "cache")
    assert found == {name: str(tmp_path / "cache" / "usr" / "bin" / name) for name in PROGRAMS}
