"""python -m loadtests.locust: put load on a gateway and judge it; the exit code is the verdict.

    python -m loadtests.locust [--shape ramp|spike|soak] [--users 100] [--seconds 60]
                               [--families NAME…] [--even]
                               [--p95-first-event-ms 500] [--failure-ratio 0.001]
                               [--web] [--host URL --keys FILE --config FILE]
                               [options of locust]

Without --host a gateway and the simulator are started for the run, on disjoint cores where there
are some. Exit code 0: every threshold was kept and `gw ledger verify` found nothing; 1: not so; 2:
it was called wrongly.
"""

from __future__ import annotations

import argparse
import importlib.util
import ipaddress
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from loadtests.locust.mix import FAMILIES, RUN_FILE, SHAPES, chosen
from loadtests.locust.verdict import conclusion, report, watched
from loadtests.rig.machine import available_cores, place
from loadtests.rig.process import until_end
from loadtests.rig.processes import CommandFailed, SimulatorProcess, gw
from loadtests.rig.site import Site
from loadtests.rig.targets import Target, gateway, verify

PAGES = 40
BASE = "handbook"  # of agents; users read a base of their own
AGENT_ACCOUNTS = 3  # as many accounts have an agent
PERSONA = "You count tokens for those who ask, and say where they stand in the ledger."
# So long the simulator makes a film or a song.
TASK_SECONDS = 3
_CHANNELS = dict.fromkeys(
    ("first", "second", "third"),
    "chat messages responses native images videos avatars clips music speech voices transcripts",
)
_FILM = {"endpoint_type": "videos_generations", "price": {"per_second": "0.01"}}
_SOLD: dict[str, dict[str, Any]] = {
    "sim-model": {},
    "load-picture": {"endpoint_type": "images_generations", "price": {"per_image": "0.04"}},
    "load-film": _FILM,
    "dh-avatar": _FILM,
    "clip-realman": _FILM,
    "load-avatar": {"endpoint_type": "videos_avatars", "price": {"per_call": "0.5"}},
    "load-song": {"endpoint_type": "music_generations", "price": {"per_generation": "0.12"}},
    "load-speech": {"endpoint_type": "audio_speech", "price": {"per_character": "0.00003"}},
    "load-voice": {"endpoint_type": "audio_voices", "price": {"per_call": "0.3"}},
    "load-script": {"endpoint_type": "transcripts_extract", "price": {"per_call": "0.02"}},
}


@contextmanager
def own_gateway(
    upstream_url: str, accounts: int, families: Sequence[str], *, shed_delay_ms: int | None
) -> Iterator[tuple[Target, Sequence[str]]]:
    """A gateway with funded accounts, and the keys of its agents. Raises CommandFailed at its end.

    There is what users of these families read.
    """
    models = [{"id": name, "channels": [*_CHANNELS], **sold} for name, sold in _SOLD.items()]
    settings: dict[str, Any] = {"tasks": {"poll_first": 1, "poll_max": 2}}
    if shed_delay_ms is not None:
        settings["shed_delay_ms"] = shed_delay_ms
    with gateway(
        upstream_url, channels=_CHANNELS, models=models, accounts=accounts, settings=settings
    ) as target:
        assert target.config is not None
        listed = gw(target.config, "account", "list")["accounts"]
        ids = [account["id"] for account in listed]
        if {"knowledge", "mcp"} & {*families}:
            _import_pages(target.config, ids)
        yield target, _agents(target.config, ids[:AGENT_ACCOUNTS]) if "agents" in families else []


def _agents(config: Path, accounts: Sequence[str]) -> list[str]:
    """An agent for each account; returns their keys."""
    _import_pages(config, accounts, "--kb", BASE)
    keys = []
    with tempfile.NamedTemporaryFile("w", prefix="gw-persona-") as persona:
        persona.write(PERSONA)
        persona.flush()
        for account in accounts:
            of = ["--account", account, "--name", "load"]
            message = ["--system-prompt", persona.name, "--model", "sim-model", "--kb", BASE]
            gw(config, "account", "set", account, "--allow", "sim-model")
            agent = gw(config, "agent", "create", *of, *message)["id"]
            made = gw(config, "key", "create", *of, "--kind", "agent", "--agent", agent)
            keys.append(made["key"])
    return keys


def _import_pages(config: Path, accounts: Sequence[str], *base: str) -> None:
    """Give every account the same pages."""
    with tempfile.TemporaryDirectory(prefix="gw-pages-") as folder:
        for number in range(PAGES):
            after = (number + 1) % PAGES
            Path(folder, f"Counting-{number}.md").write_text(
                f"---\ntags: [ledger, part-{number % 5}]\n---\n# Counting {number}\n"
                f"Every token stands in the ledger once. See [[Counting-{after}]].\n",
                encoding="utf-8",
            )
        for account in accounts:
            gw(config, "kb", "import", "--account", account, *base, folder)


# What is handed over to the users, beside their keys.
REPORTED = ("shape", "seconds", "model", "families", "even", "p95_first_event_ms", "failure_ratio")
USERS = "loadtests.locust.users"  # a locustfile, found by its name and never imported here
# Calls under way when the users are taken away may end by themselves.
STOP_SECONDS = 30
# Locust's own page: the run begins and ends by itself, and the page ends with it.
PAGE = "http://127.0.0.1:8089"
WITH_PAGE = ("--autostart", "--autoquit", "0", "--web-host", "127.0.0.1", "--web-port", "8089")


def main(arguments: Sequence[str]) -> int:
    """Run and return the exit code."""
    options, for_locust = parse(arguments)
    own_cores = place(available_cores()).rig if options.host is None else os.sched_getaffinity(0)
    os.sched_setaffinity(0, own_cores)
    try:
        with _target(options) as target:
            return _run_locust(target, options, for_locust)
    except CommandFailed as failed:
        print(f"gw ledger verify failed:\n{failed}", file=sys.stderr)
        return 1


def parse(arguments: Sequence[str]) -> tuple[argparse.Namespace, Sequence[str]]:
    """The options, and those that are locust's own; leaves with status 2 when they are wrong."""
    parser = argparse.ArgumentParser(prog="python -m loadtests.locust", allow_abbrev=False)
    add = parser.add_argument
    add("--shape", choices=sorted(SHAPES), default="ramp")
    add("--users", type=int, default=100, help="at the peak")
    add("--seconds", type=float, default=60.0)
    add("--families", nargs="+", choices=list(FAMILIES), default=[], metavar="NAME",
        help=f"of {', '.join(FAMILIES)} (all)")  # fmt: skip
    add("--even", action="store_true", help="as many users for each family")
    add("--p95-first-event-ms", type=float, default=500.0)
    add("--failure-ratio", type=float, default=0.001)
    add("--accounts", type=int, default=10, help="of a gateway started here")
    add("--shed-delay-ms", type=int, metavar="MS", help="of a gateway started here (its default)")
    add("--host", help="a gateway that runs already")
    add("--keys", type=Path, help="its keys, one a line")
    add("--agent-keys", type=Path, help="keys of its agents, one a line")
    add("--config", type=Path, help="its configuration, to verify its ledger")
    add("--pid", type=int, help="its process, whose CPU and memory are told")
    add("--web", action="store_true", help=f"locust's page meanwhile, at {PAGE}")
    add("--model", default="sim-model", help="its chat model")
    add("--simulator", action="store_true", help="its upstream is the simulator")
    add("--remote", action="store_true", help="allow a host elsewhere, with no ledger verified")
    options, for_locust = parser.parse_known_args(arguments)
    _check_files(parser, options)
    if options.host is not None:
        if not _read_keys(options.keys):
            parser.error("--host needs keys: --keys FILE, one a line")
        if not options.remote and not _is_loopback(options.host):
            parser.error(f"{options.host} is not this machine; --remote if you mean it")
        if not options.remote and options.config is None:
            parser.error("--host needs --config FILE: its ledger is verified when the load is over")
    has_simulator = options.host is None or options.simulator
    has_agents = options.host is None or options.agent_keys is not None
    families = chosen(options.families, has_simulator=has_simulator, has_agents=has_agents)
    options.families = options.families or list(families)
    if options.families != list(families):
        parser.error("--families: some need the simulator behind the gateway, or --agent-keys")
    return options, for_locust


def _read_keys(path: Path | None) -> Sequence[str]:
    return path.read_text(encoding="utf-8").split() if path is not None else []


def _check_files(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    files = {"--keys": options.keys, "--config": options.config}
    for name, path in {**files, "--agent-keys": options.agent_keys}.items():
        if path is not None and options.host is None:
            parser.error(f"{name} is for a gateway given by --host")
        if path is not None and not path.is_file():
            parser.error(f"{name}: there is no file {path}")


class _Target(NamedTuple):
    host: str
    keys: Sequence[str]
    agent_keys: Sequence[str]
    has_simulator: bool
    pids: Mapping[str, int]  # whose CPU and memory are told


@contextmanager
def _target(options: argparse.Namespace) -> Iterator[_Target]:
    """What the load is for; its ledger is verified afterwards. Raises CommandFailed."""
    if options.host is not None:
        pids = {"gateway": options.pid} if options.pid else {}
        keys, agent_keys = _read_keys(options.keys), _read_keys(options.agent_keys)
        yield _Target(options.host, keys, agent_keys, options.simulator, pids)
        if options.config is not None:
            verify(options.config)
        return
    site = Site(cores=place(available_cores()).rig)
    lasting = ["--task-seconds", str(TASK_SECONDS)]
    with (
        until_end(SimulatorProcess(*lasting, site=site, is_heard=True)) as simulator,
        own_gateway(
            simulator.url,
            options.accounts,
            options.families,
            shed_delay_ms=options.shed_delay_ms,
        ) as (own, agent_keys),
    ):
        assert own.database_pid is not None
        pids = {"gateway": own.pid, "PostgreSQL": own.database_pid, "simulator": simulator.pid}
        yield _Target(own.url, own.keys, agent_keys, True, pids)


def _run_locust(target: _Target, options: argparse.Namespace, for_locust: Sequence[str]) -> int:
    """A process of its own: importing locust replaces half of the standard library."""
    found = importlib.util.find_spec(USERS)
    assert found is not None
    assert found.origin is not None
    # Set by the environment for other importers of locust; here its sockets have to be replaced.
    environ = {name: v for name, v in os.environ.items() if not name.startswith("LOCUST_SKIP_")}
    with (
        tempfile.NamedTemporaryFile("r", prefix="gw-load-") as summary,
        tempfile.NamedTemporaryFile("w", prefix="gw-load-") as run,
    ):
        environ[RUN_FILE] = run.name
        result = {name: getattr(options, name) for name in REPORTED}
        result |= {name: getattr(target, name) for name in ("keys", "agent_keys", "has_simulator")}
        json.dump({**result, "summary": summary.name}, run)
        run.flush()
        command = [
            *(sys.executable, "-m", "locust", "--locustfile", found.origin),
            *(WITH_PAGE if options.web else ("--headless", "--only-summary")),
            *("--loglevel", "WARNING", "--stop-timeout", str(STOP_SECONDS)),
            *("--host", target.host, "--users", str(options.users)),
            *for_locust,
        ]
        if options.web:
            print(f"the page of locust is at {PAGE} until the run is over", flush=True)
        locust = subprocess.Popen(command, env=environ)
        with watched({**target.pids, "locust": locust.pid}) as taken:
            code = locust.wait()
        counted = json.loads(summary.read() or "{}")
    print("\n".join(report(taken, counted.get("requests", 0))), flush=True)
    if counted:
        gateway = taken.get("gateway") if options.host is None else None
        sentences = conclusion(
            rate=counted["rate"],
            p95_ms=counted["p95_ms"],
            broken=counted["broken"],
            gateway=gateway if gateway is not None and len(gateway.at) > 1 else None,
            requests=counted["requests"],
            users=options.users,
            busy_cores=sum(one.busiest for one in taken.values() if len(one.at) > 1),
            cores=len(available_cores()),
        )
        print("\n".join(sentences), flush=True)
    return code


def _is_loopback(host: str) -> bool:
    name = urlsplit(host).hostname or ""
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
