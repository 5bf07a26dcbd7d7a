"""What tests do to a PostgreSQL server process: find it, kill it, make sure that it is gone."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from actors.store.embedded.postmaster import Postmaster
from loadtests.rig.waiting import until


def server_of(data_dir: Path) -> Postmaster:
    """Return the live server of the embedded PostgreSQL in `data_dir`."""
    postmaster = Postmaster.read(data_dir / "postgres" / "data")
    assert postmaster is not None, f"no PostgreSQL runs in {data_dir}"
    return postmaster


def is_running(data_dir: Path) -> bool:
    """Whether the embedded PostgreSQL in `data_dir` has a live server."""
    return Postmaster.read(data_dir / "postgres" / "data") is not None


def kill_server(data_dir: Path) -> None:
    """Kill the server of `data_dir` as a power cut would, and wait until it is dead."""
    _end(server_of(data_dir), signal.SIGKILL)


@contextmanager
def frozen_server(data_dir: Path) -> Iterator[None]:
    """Stop every process of the server of `data_dir`: its sockets stay open and nobody answers."""
    postmaster = server_of(data_dir).pid
    os.kill(postmaster, signal.SIGSTOP)  # the first, or it would make others
    pids = [postmaster, *_children_of(postmaster)]
    try:
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        yield
    finally:
        for pid in reversed(pids):
            os.kill(pid, signal.SIGCONT)


def _children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def stop_server(data: Path) -> None:
    """Stop the server that works on the cluster folder `data`, if there is one."""
    postmaster = Postmaster.read(data)
    if postmaster is not None:
        _end(postmaster, signal.SIGQUIT)


def _end(postmaster: Postmaster, how: signal.Signals) -> None:
    postmaster.send(how)
    until(lambda: not postmaster.is_alive, what=f"the end of {postmaster.pid} by {how.name}")
