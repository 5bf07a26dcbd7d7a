"""As whom the embedded PostgreSQL runs: processes of other users too, when root runs the test."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from actors.store.embedded.access import PRIVATE_UIDS

pytestmark = pytest.mark.long

NOBODY = 65534
NAMELESS = 54321
IS_ROOT = os.geteuid() == 0


def use_as(uid: int, folder: Path) -> str:
    """Start, use and stop the server of `folder` as user `uid`; return what it said."""
    command = [sys.executable, "-m", "tests.support.as_user", str(uid), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "") or "postgres_st" in done.stderr, done.stderr
    return done.stdout.strip()


def make_folder(folder: Path, *, owner: int, mode: int) -> Path:
    folder.mkdir()
    if IS_ROOT:
        os.chown(folder, owner, owner)
    folder.chmod(mode)
    return folder


def owner_of_data(folder: Path) -> int:
    return (folder / "postgres" / "data").stat().st_uid


def modes(*folders: Path) -> list[int]:
    return [stat.S_IMODE(folder.stat().st_mode) for folder in folders]


def test_open_folder_is_used_by_root_through_a_user_id_that_nothing_else_has(
    data_dir: Path,
) -> None:
    folder = make_folder(data_dir / "var", owner=os.geteuid(), mode=0o755)
    assert [use_as(os.geteuid(), folder) for _ in range(2)] == ["1", "2"]
    owner = owner_of_data(folder)
    assert owner in PRIVATE_UIDS if IS_ROOT else owner == os.geteuid()
    assert modes(data_dir, folder) == [0o711, 0o755]


def test_folder_under_a_closed_one_is_used_without_opening_it(data_dir: Path) -> None:
    closed = make_folder(data_dir / "home", owner=os.geteuid(), mode=0o700)
    said = use_as(os.geteuid(), closed / "var")
    assert modes(closed) == [0o700]
    if said.startswith("fault:"):  # a container that allows no user namespaces
        assert f"{closed} is closed to other users" in said
        return
    assert said == "1"
    assert owner_of_data(closed / "var") == os.geteuid()
    # Opened up later, the data stays its owner's.
    closed.chmod(0o755)
    assert use_as(os.geteuid(), closed / "var") == "2"
    assert owner_of_data(closed / "var") == os.geteuid()


def test_data_in_a_folder_closed_later_is_a_clear_fault(data_dir: Path) -> None:
    folder = make_folder(data_dir / "var", owner=os.geteuid(), mode=0o755)
    assert use_as(os.geteuid(), folder) == "1"
    folder.chmod(0o700)
    said = use_as(os.geteuid(), folder)
    if IS_ROOT:
        assert f"{folder} is closed to that user" in said
    else:
        assert said == "2"


def test_ordinary_user_uses_a_folder_of_their_own(data_dir: Path) -> None:
    user = NOBODY if IS_ROOT else os.geteuid()
    folder = make_folder(data_dir / "home", owner=user, mode=0o700)
    assert [use_as(user, folder / "var") for _ in range(2)] == ["1", "2"]
    assert owner_of_data(folder / "var") == user


def test_user_without_a_name_is_served_or_told_why_not(data_dir: Path) -> None:
    user = NAMELESS if IS_ROOT else os.geteuid()
    folder = make_folder(data_dir / "home", owner=user, mode=0o700)
    said = use_as(user, folder)
    assert said == "1" or "this user id has no name on this machine" in said


@pytest.mark.parametrize("first", ["root", "user"])
def test_root_and_the_owner_share_a_folder(data_dir: Path, first: str) -> None:
    user = NOBODY if IS_ROOT else os.geteuid()
    folder = make_folder(data_dir / "home", owner=user, mode=0o755)
    order = [user, os.geteuid(), user] if first == "user" else [os.geteuid()] * 3
    assert [use_as(uid, folder) for uid in order] == ["1", "2", "3"]
    assert owner_of_data(folder) == user


def test_folder_of_another_user_is_a_clear_fault(data_dir: Path) -> None:
    folder = make_folder(data_dir / "home", owner=0, mode=0o500 if not IS_ROOT else 0o755)
    said = use_as(NOBODY if IS_ROOT else os.geteuid(), folder)
    assert said.startswith("fault:")
    assert "cannot be made: Permission denied" in said
