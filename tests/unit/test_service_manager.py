"""What a service manager is sent: sd_notify(3) over a datagram socket."""

import socket
from pathlib import Path

import pytest

from gw.service_manager import READY, STOPPING, inherited, notify
from tests.support.logs import logs


@pytest.mark.parametrize("is_abstract", [False, True])
def test_states_arrive_at_a_path_and_at_an_abstract_name(
    tmp_path: Path, *, is_abstract: bool
) -> None:
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0{path}" if is_abstract else path)
        manager.settimeout(10)
        environ = {"NOTIFY_SOCKET": f"@{path}" if is_abstract else path}
        for state in (READY, STOPPING):
            notify(state, environ)
            assert manager.recv(100) == state.encode()


def test_nothing_is_sent_without_a_service_manager() -> None:
    notify(READY, {})
    notify(READY, {"NOTIFY_SOCKET": ""})


@logs("service_manager_not_notified")
@pytest.mark.parametrize("address", ["/nowhere/notify", "vsock:2:1234", "/" + "x" * 200])
def test_manager_that_is_not_there_is_logged(address: str) -> None:
    notify(READY, {"NOTIFY_SOCKET": address})


@logs("service_manager_not_notified")
def test_manager_that_reads_nothing_stops_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        for _ in range(10_000):  # more than a queue of the system takes
            notify(READY, {"NOTIFY_SOCKET": path})


def test_workers_inherit_everything_but_the_socket() -> None:
    assert inherited({"NOTIFY_SOCKET": "/run/notify", "PATH": "/bin"}) == {"PATH": "/bin"}
