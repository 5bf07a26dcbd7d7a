"""Where programs like Prometheus come from, and what is reported where they come from nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.packaged import PROMETHEUS, NoPrograms, programs


def executable(folder: Path, name: str) -> str:
    """A program of this name."""
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


def test_those_on_the_path_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = {name: executable(tmp_path, name) for name in PROMETHEUS.programs}
    monkeypatch.setenv("PATH", str(tmp_path))
    assert programs(PROMETHEUS, tmp_path / "cache") == here
    assert not (tmp_path / "cache").exists()


def test_nothing_is_passed_over_where_there_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(NoPrograms, match="put `prometheus` and `promtool` on the path"):
        programs(PROMETHEUS, tmp_path / "cache")
    for name in ("apt-get", "dpkg-deb"):
        path = Path(executable(tmp_path, name))
        path.write_text("#!/bin/sh\necho no network here; exit 100\n")
    with pytest.raises(NoPrograms, match="no network here\n"):
        programs(PROMETHEUS, tmp_path / "cache")


def test_those_that_were_unpacked_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "cache" / "prometheus" / "usr" / "bin"
    folder.mkdir(parents=True)
    for name in PROMETHEUS.programs:
        executable(folder, name)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = programs(PROMETHEUS, tmp_path / "cache")
    assert found == {name: str(folder / name) for name in PROMETHEUS.programs}
