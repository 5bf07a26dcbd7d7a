"""Coding agents as packages have them, without a screen: `python -m tests.headless`.

Each reads a file, writes what the file asks for into another one, and answers: natively, by a
translation, and without the gateway. The model is the simulator: the prompt has the call that
reads, the file the one that writes. Afterwards the calls' rows, their cost and the ledger have to
be exact, and the gateway has refused nothing. Packages come from the registries (`npm`, `pip`) into
`--folder`, once; agents reach nothing but this machine. Prints a table; seconds are from the start
of the agent to its end.

`--loop TURNS` prints instead how much of what each agent sends again a provider's cache can find
(`loop.py`), `--startup RUNS` how long Codex takes for one answer.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from loadtests.rig.client import Client
from loadtests.rig.deployment import Deployment, deployment
from tests.headless.agents import (
    AGENTS,
    DIRECT,
    SECONDS,
    SETTINGS,
    Agent,
    cost_of,
    faults_of,
    install,
    refusals_of,
    set_up,
)
from tests.headless.loop import HEAD, TURNS_MAX, Loop, ways_of

WAYS = ("native", "translated", DIRECT)
TEXT = "written by the agent"
NOT_WRITTEN = "the file was not written"


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="where the packages are")
    parser.add_argument("--only", action="append", help="a client of `gw setup`")
    parser.add_argument("--show", action="store_true", help="print what each agent prints")
    parser.add_argument("--startup", type=int, metavar="RUNS", help="time Codex alone")
    turns = range(2, TURNS_MAX + 1)
    parser.add_argument(
        "--loop", type=int, choices=turns, metavar="TURNS", help="of two calls each"
    )
    parser.add_argument("--asked", action="store_true", help="each turn of --loop is a question's")
    options = parser.parse_args()
    only = ["codex"] if options.startup else options.only
    agents = [one for one in AGENTS if only is None or one.client in only]
    install(options.folder, agents)
    if options.startup:
        return _time_startup(agents[0], options.folder, options.startup)
    if options.loop:
        return _loops(agents, options)
    failed = 0
    print("| Agent | Way | Seconds | Calls | nano-USD | Result |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder, deployment("", Path(folder), **SETTINGS) as h:
        for agent in agents:
            for way in WAYS:
                place = Path(tempfile.mkdtemp(dir=folder))
                result = _run(h, agent, way, place, options.folder, is_shown=options.show)
                failed += not result.endswith("| ok |")
                print(result, flush=True)
    return 1 if failed else 0


def _loops(agents: Sequence[Agent], options: argparse.Namespace) -> int:
    """Print the table of loops; aider has no tools, and so none."""
    failed = 0
    print(HEAD)
    with tempfile.TemporaryDirectory() as folder, deployment("", Path(folder), **SETTINGS) as h:
        for agent in (one for one in agents if one.read):
            for way in ways_of(agent):
                place = Path(tempfile.mkdtemp(dir=folder))
                loop = Loop(options.loop, is_requested=options.asked, is_shown=options.show)
                result = loop.line_of(h, agent, way, place, options.folder)
                failed += not result.endswith("| ok |")
                print(result, flush=True)
    return 1 if failed else 0


def _time_startup(agent: Agent, packages: Path, runs: int) -> int:
    """Print the median and the least of the seconds from Codex's start to its end, one answer."""
    response = {"text": "Hello."}
    seconds: dict[str, list[float]] = {"native": [], DIRECT: []}
    with tempfile.TemporaryDirectory() as folder, deployment("", Path(folder), **SETTINGS) as h:
        for _ in range(runs):
            for way, taken in seconds.items():
                place = Path(tempfile.mkdtemp(dir=folder))
                environ, _ = set_up(h, agent, way, place, packages)
                command = [*agent.command, f"Say hello. [[sim {json.dumps(response)}]]"]
                began = time.monotonic()
                subprocess.run(
                    command,
                    cwd=place / "work",
                    env=environ,
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=SECONDS,
                    check=True,
                )
                taken.append(time.monotonic() - began)
    for way, taken in seconds.items():
        print(f"{way}: median {statistics.median(taken):.2f} s, least {min(taken):.2f} s of {runs}")
    return 0


def _run(
    h: Deployment, agent: Agent, way: str, place: Path, packages: Path, *, is_shown: bool
) -> str:
    """One task; returns its line of the table."""
    environ, (account, key) = set_up(h, agent, way, place, packages)
    work = place / "work"
    source, target = work / "task.txt", work / "made.txt"
    source.write_text(f"[[sim {json.dumps(agent.writes(target, TEXT))}]]\n", encoding="utf-8")
    first = agent.reads(source) or agent.writes(target, TEXT)
    prompt = f"Do as the file says. [[sim {json.dumps(first)}]]"
    before = refusals_of(h) + Counter({"not_found 404": agent.unknown_paths})
    began = time.monotonic()
    try:
        ran = subprocess.run(
            [*agent.command] if agent.is_piped else [*agent.command, prompt],
            cwd=work,
            env=environ,
            input=prompt if agent.is_piped else "",
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        output, code = ran.stdout + ran.stderr, ran.returncode
    except subprocess.TimeoutExpired as error:
        output, code = repr(error.stdout) + repr(error.stderr), -1
    seconds = time.monotonic() - began
    if is_shown:
        print(output[-6000:], file=sys.stderr)
        for one in h.upstream.requests(6):
            print(json.dumps(one)[:1500], file=sys.stderr)
    faults = [] if target.exists() and target.read_text("utf-8").strip() == TEXT else [NOT_WRITTEN]
    if code != 0:
        faults.append(f"it ended with {code}")
    if way == DIRECT:
        return f"| {agent.client} | {way} | {seconds:.1f} | | | {'; '.join(faults) or 'ok'} |"
    rows = Client(h.gateway.url, key).get("/v1/logs?limit=100").json["data"]
    faults += faults_of(rows, h.gw("account", "show", account), refusals_of(h) - before)
    cost = cost_of(rows)
    result = "; ".join(faults) or "ok"
    return f"| {agent.client} | {way} | {seconds:.1f} | {len(rows)} | {cost:,} | {result} |"


if __name__ == "__main__":
    sys.exit(main())
