"""The network of a load: load, gateway and upstream on hosts of their own, with a delay between.

Over loopback a packet is at its receiver at once, on the same host: who spares that host a wake-up
is the quicker for it, which clients elsewhere do not notice. Here each host is a network namespace.
The gateway's lies between the others, and forwards: whatever the load asks the upstream passes the
same two cables, with a server between or without.

The delay is that of `tc netem` on veth pairs where the kernel has it, else of `relay.py` between
TUN devices. All names are fixed: what a run that was killed has left is removed by the next one.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from loadtests.rig.machine import Cores
from loadtests.rig.process import started
from loadtests.rig.site import NAMESPACES, Host, Site
from loadtests.rig.targets import Network

DELAY_SECONDS = 0.000_25  # each way of each cable
TOOLS = {"ip": "iproute2", "tc": "iproute2", "nsenter": "util-linux"}  # and their packages
LOCK = Path("/run/gw-bench.lock")
FORWARDS = Path("/proc/sys/net/ipv4/ip_forward")  # of the host of the thread that opens it
QUEUE_PACKETS = 100_000  # that wait for a cable, or are on it
CLONE_NEWNET = 0x40000000
_LIBC = ctypes.CDLL(None, use_errno=True)

# Addresses are of the range for benchmarks (RFC 2544).
LOAD = Host("198.18.1.1", "gw-bench-load")
GATEWAY = Host("198.18.1.2", "gw-bench-gateway")
UPSTREAM = Host("198.18.2.1", "gw-bench-upstream")
HOSTS = (LOAD, GATEWAY, UPSTREAM)


class End(NamedTuple):
    """One end of a cable: a device of a host, with its address."""

    device: str
    host: Host
    address: str


CABLES = (
    (End("gwb-load", LOAD, LOAD.address), End("gwb-front", GATEWAY, GATEWAY.address)),
    (End("gwb-back", GATEWAY, "198.18.2.2"), End("gwb-upstream", UPSTREAM, UPSTREAM.address)),
)
ENDS = [end for cable in CABLES for end in cable]
ROUTES = ((LOAD, GATEWAY.address), (UPSTREAM, "198.18.2.2"))


@contextmanager
def network(cores: Cores) -> Iterator[Network]:
    """Make the hosts, with this thread, and those it starts, on that of the load meanwhile.

    What the delay costs is spent on these cores. Leaves in words where it may not be made.
    """
    if missing := [f"{one} (of {package})" for one, package in TOOLS.items() if not _has(one)]:
        raise SystemExit(f"--network needs {', '.join(missing)}")
    if os.geteuid() != 0:
        raise SystemExit("--network makes network namespaces, which root alone may")
    with ExitStack() as stack:
        stack.enter_context(_alone())
        _remove()
        stack.callback(_remove)
        for host in HOSTS:
            _run("ip", "netns", "add", host.namespace)
            _run("ip", "-n", host.namespace, "link", "set", "lo", "up")
        pid, how = None, "netem between veth pairs"
        if _has_netem():
            for cable in CABLES:
                _lay(*cable)
        else:
            pid, how = stack.enter_context(_relay(cores)), "a relay between TUN devices"
        for end in ENDS:
            _set_up(end)
        with _inside(GATEWAY):
            FORWARDS.write_text("1")
        for host, router in ROUTES:
            _run("ip", "-n", host.namespace, "route", "add", "default", "via", router)
        stack.enter_context(_inside(LOAD))
        between = f"{DELAY_SECONDS * 1000:g} ms each way, by {how}"
        yield Network(GATEWAY, UPSTREAM, between, pid)


@contextmanager
def _alone() -> Iterator[None]:
    """One run at a time, because the names of what it makes are fixed."""
    with LOCK.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SystemExit("--network: another run has the network") from None
        yield


def _remove() -> None:
    """Remove the hosts, if there are any, with what runs there: it is of a run that was killed."""
    for host in HOSTS:
        if not (NAMESPACES / host.namespace).exists():
            continue
        for pid in _run("ip", "netns", "pids", host.namespace).split():
            if int(pid) != os.getpid():
                with suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
        _run("ip", "netns", "delete", host.namespace)


def _has_netem() -> bool:
    tried = ["tc", "-n", LOAD.namespace, "qdisc", "replace", "dev", "lo", "root"]
    done = subprocess.run([*tried, "netem", "delay", "0"], capture_output=True, check=False)
    return done.returncode == 0


def _lay(one: End, other: End) -> None:
    """A veth pair, each end of which delays what it sends."""
    made = ["ip", "-n", one.host.namespace, "link", "add", one.device, "type", "veth"]
    _run(*made, "peer", "name", other.device, "netns", other.host.namespace)
    for end in (one, other):
        netem = ["netem", "delay", f"{DELAY_SECONDS * 1e6:g}us", "limit", str(QUEUE_PACKETS)]
        _run("tc", "-n", end.host.namespace, "qdisc", "add", "dev", end.device, "root", *netem)


@contextmanager
def _relay(cores: Cores) -> Iterator[int]:
    """The relay, with the ends that it has made moved to their hosts; yields its pid."""
    devices = [end.device for end in ENDS]
    command = ["loadtests.rig.relay", str(DELAY_SECONDS), *devices]
    with started(command, Site(host=LOAD, cores=cores)) as relay:
        for end in ENDS:
            if end.host != LOAD:
                target = ["netns", end.host.namespace]
                _run("ip", "-n", LOAD.namespace, "link", "set", end.device, *target)
            queue = ["txqueuelen", str(QUEUE_PACKETS)]
            _run("ip", "-n", end.host.namespace, "link", "set", end.device, *queue)
        yield relay.pid


def _set_up(end: End) -> None:
    add = ["address", "add", end.address, "peer", _other(end).address, "dev", end.device]
    _run("ip", "-n", end.host.namespace, *add)
    _run("ip", "-n", end.host.namespace, "link", "set", end.device, "up")


def _other(end: End) -> End:
    return next(cable[not cable.index(end)] for cable in CABLES if end in cable)


@contextmanager
def _inside(host: Host) -> Iterator[None]:
    """This thread, and those it starts, on another host."""
    with (
        Path("/proc/thread-self/ns/net").open("rb") as own,
        (NAMESPACES / host.namespace).open("rb") as other,
    ):
        _enter(other.fileno())
        try:
            yield
        finally:
            _enter(own.fileno())


def _enter(namespace: int) -> None:
    if _LIBC.setns(namespace, CLONE_NEWNET):  # `os.setns` is of Python 3.12
        raise OSError(ctypes.get_errno(), "setns")


def _has(tool: str) -> bool:
    return shutil.which(tool) is not None


def _run(*command: str) -> str:
    """What a command prints; leaves with what it complains of."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"--network: {' '.join(command)}: {done.stderr.strip()}")
    return done.stdout
