"""The count of the processes that share a server, with two users in one process."""

import subprocess
import sys
from pathlib import Path

import pytest

from actors.store.embedded.errors import EmbeddedFault
from actors.store.embedded.users import Users

HOLD_A_PLACE = """
import sys
from pathlib import Path
from actors.store.embedded.users import Users
users = Users(Path(sys.argv[1]))
with users.alone():
    users.join()
print("joined", flush=True)
sys.stdin.read()
"""


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
