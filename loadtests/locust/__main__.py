"""python -m loadtests.locust: put load on a gateway and judge it; the exit code is the verdict.

    python -m loadtests.locust [--shape ramp|spike|soak] [--users 100] [--seconds 60]
                               [--p95-first-event-ms 500] [--failure-ratio 0.001]
                               [--host URL --keys FILE [--config FILE]] [options of locust]

Without --host a gateway and the simulator are started for the run, on disjoint cores where there
are some. Exit code 0: every threshold was kept and `gw ledger verify` found nothing; 1: not so; 2:
it was called wrongly.
"""

from __future__ import annotations

import argparse
import importlib.util
import ipaddress
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from loadtests.locust.shapes import SHAPES
from loadtests.rig.placement import available_cores, place
from loadtests.rig.processes import VerifyFailed, gateway, started, verify

USERS = "loadtests.locust.users"  # a locustfile, found by its name and never imported here
CHANNELS = dict.fromkeys(("first", "second", "third"), "chat")
# Calls under way when the users are taken away may end by themselves.
STOP_SECONDS = 30


def main(arguments: Sequence[str]) -> int:
    """Run and return the exit code."""
    parser = _parser()
    options, for_locust = parser.parse_known_args(arguments)
    if (options.host is None) != (options.keys is None):
        parser.error("--host and --keys belong together")
    if options.host is None and options.config is not None:
        parser.error("--config is for a gateway given by --host")
    for name, path in (("--keys", options.keys), ("--config", options.config)):
        if path is not None and not path.is_file():
            parser.error(f"{name}: there is no file {path}")
    if options.keys is not None and not options.keys.read_text(encoding="utf-8").split():
        parser.error(f"--keys: there is no key in {options.keys}")
    if options.host is not None and not (options.remote or _is_loopback(options.host)):
        parser.error(f"{options.host} is not this machine; --remote if you mean it")
    own_cores = place(available_cores()).rig if options.host is None else os.sched_getaffinity(0)
    os.sched_setaffinity(0, own_cores)
    try:
        with _target(options) as target:
            return _run_locust(target, options, for_locust)
    except VerifyFailed as failed:
        print(f"gw ledger verify failed:\n{failed}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m loadtests.locust", allow_abbrev=False)
    parser.add_argument("--shape", choices=sorted(SHAPES), default="ramp")
    parser.add_argument("--users", type=int, default=100, help="at the peak")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--p95-first-event-ms", type=float, default=500.0)
    parser.add_argument("--failure-ratio", type=float, default=0.001)
    parser.add_argument("--accounts", type=int, default=10, help="of a gateway started here")
    parser.add_argument("--host", help="a gateway that runs already")
    parser.add_argument("--keys", type=Path, help="its keys, one a line")
    parser.add_argument("--config", type=Path, help="its configuration, to verify its ledger")
    parser.add_argument("--model", default="sim-model")
    parser.add_argument("--simulator", action="store_true", help="its upstream is the simulator")
    parser.add_argument("--remote", action="store_true", help="allow a host elsewhere")
    return parser


@dataclass(frozen=True)
class _Target:
    host: str
    keys: Path
    has_simulator: bool


@contextmanager
def _target(options: argparse.Namespace) -> Iterator[_Target]:
    """What the load is for; its ledger is verified afterwards. Raises VerifyFailed."""
    if options.host is not None:
        yield _Target(options.host, options.keys, options.simulator)
        if options.config is not None:
            verify(options.config)
        else:
            print("gw ledger verify: not run, for want of --config")
        return
    cores = place(available_cores()).rig
    with (
        tempfile.NamedTemporaryFile("w", prefix="gw-keys-") as keys,
        started(["loadtests.simulator", "--port", "0"], cores) as (_, upstream),
        gateway(upstream["listen"], channels=CHANNELS, accounts=options.accounts) as own,
    ):
        keys.write("\n".join(own.keys))
        keys.flush()
        yield _Target(f"http://{own.host}:{own.port}", Path(keys.name), has_simulator=True)


def _run_locust(target: _Target, options: argparse.Namespace, for_locust: Sequence[str]) -> int:
    """A process of its own: importing locust replaces half of the standard library."""
    found = importlib.util.find_spec(USERS)
    assert found is not None
    assert found.origin is not None
    # Set for whoever imports locust without wanting that; here its sockets have to be replaced.
    environ = {name: v for name, v in os.environ.items() if not name.startswith("LOCUST_SKIP_")}
    command = [
        *(sys.executable, "-m", "locust", "--locustfile", found.origin),
        *("--headless", "--only-summary", "--loglevel", "WARNING"),
        *("--stop-timeout", str(STOP_SECONDS)),
        *("--host", target.host, "--keys", str(target.keys), "--model", options.model),
        *("--shape", options.shape, "--users", str(options.users)),
        *("--seconds", str(options.seconds)),
        *("--p95-first-event-ms", str(options.p95_first_event_ms)),
        *("--failure-ratio", str(options.failure_ratio)),
        *(["--has-simulator"] if target.has_simulator else []),
        *for_locust,
    ]
    return subprocess.run(command, env=environ, check=False).returncode


def _is_loopback(host: str) -> bool:
    name = urlsplit(host).hostname or ""
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
