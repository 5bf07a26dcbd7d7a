"""What a call with an agent's key costs beside a plain one, and what its pages add.

    python -m loadtests.agents [--windows 5] [--pages 2000] [--words 8]

One gateway, one account, three keys: a plain one, one of an agent with a persona alone, one of an
agent with a base. The same questions go round in all three, drawn as rarely as the words of the
pages are, so that most have one of the commonest. Windows take turns: connections that ask again at
once, which is saturation, then arrivals at half of what the key's calls came to there. CPU is that
of the gateway and of PostgreSQL for each call; ratios are medians of what comes out turn by turn.
Prints a table; nothing is asserted here.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from loadtests.bench.canned import FIRST_EVENTS, chat_body, model_name, requests
from loadtests.bench.figures import Window
from loadtests.bench.load import Ask, Subject
from loadtests.bench.window import VoidWindow, measure
from loadtests.knowledge.latency import Language
from loadtests.rig.machine import pin
from loadtests.rig.placement import Placement, available_cores, place
from loadtests.rig.processes import Rig, Target, gateway, light_upstream

PLAIN, PERSONA, PAGES = "plain", "agent", "agent with pages"
KINDS = [PLAIN, PERSONA, PAGES]
MODEL = model_name(FIRST_EVENTS, 0)
CONNECTIONS = 24
QUESTIONS = 300
ATTEMPTS_MAX = 10  # at a window
PERSONA_TEXT = "You answer for the harbour office, briefly and politely. " * 10
COLUMNS = {
    "cpu_ms": "gateway CPU ms/call",
    "pg_ms": "PostgreSQL CPU ms/call",
    "rate": "calls/s",
    "half_p50_ms": "p50 ms at half",
    "half_p99_ms": "p99 ms at half",
}


def main() -> None:
    parser = ArgumentParser(prog="python -m loadtests.agents", description=__doc__)
    parser.add_argument("--windows", type=int, default=5)
    parser.add_argument("--pages", type=int, default=2_000)
    parser.add_argument("--words", type=int, default=8, help="of a question")
    parser.add_argument("--seconds", type=float, default=2.0, help="of a window")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS, help="`plain` first")
    parser.add_argument("--rate", type=float, help="calls/s that arrive, in place of saturation")
    options = parser.parse_args()
    placement = place(available_cores())
    pin(os.getpid(), placement.load)
    with light_upstream(placement) as upstream, TemporaryDirectory(prefix="gw-agents-") as name:
        rig = Rig(upstream, len(placement.rig))
        with _gateway(upstream, placement) as target:
            language = Language(random.Random(7))
            keys = _keys(target, language, Path(name), options.pages)
            bodies = [_body(" ".join(language.draw(options.words))) for _ in range(QUESTIONS)]
            found = _measured(target, rig, keys, bodies, options)
    _print(found)


def _gateway(upstream: Target, placement: Placement) -> Any:
    models = [{"id": MODEL, "channels": ["a"]}]
    # A busy machine makes work wait as an overload does: nothing is shed for it here.
    return gateway(
        upstream.url,
        channels={"a": "chat"},
        models=models,
        placement=placement,
        settings={"shed_delay_ms": 0},
    )


def _keys(target: Target, language: Language, folder: Path, pages: int) -> Mapping[str, str]:
    """A key of each kind, of the account that there is."""

    def gw(*arguments: str) -> Any:
        command = [sys.executable, "-m", "gw", *arguments, "--config", str(target.config), "--json"]
        return json.loads(subprocess.check_output(command))

    (account,) = [one["id"] for one in gw("account", "list")["accounts"]]
    (folder / "pages").mkdir()
    for number in range(pages):
        text = language.page(number)
        (folder / "pages" / f"page-{number:05}.md").write_text(text, encoding="utf-8")
    (folder / "persona").write_text(PERSONA_TEXT, encoding="utf-8")
    gw("kb", "import", "--account", account, "--kb", "pages", str(folder / "pages"))
    keys = {PLAIN: target.keys[0]}
    for kind, more in ((PERSONA, ()), (PAGES, ("--kb", "pages"))):
        named = ("--account", account, "--name", "load")
        persona = ("--model", MODEL, "--system-prompt", str(folder / "persona"))
        agent = gw("agent", "create", *named, *persona, *more)["id"]
        keys[kind] = gw("key", "create", *named, "--kind", "agent", "--agent", agent)["key"]
    return keys


def _body(question: str) -> bytes:
    """The call of the benchmark, with another question."""
    body = json.loads(chat_body(MODEL))
    body["messages"][-1]["content"] = question
    return json.dumps(body, separators=(",", ":")).encode()


def _measured(
    target: Target,
    rig: Rig,
    keys: Mapping[str, str],
    bodies: Sequence[bytes],
    options: Namespace,
) -> dict[str, list[Window]]:
    """Windows of each kind, by turns."""
    found: dict[str, list[Window]] = {kind: [] for kind in options.kinds}

    def measured(kind: str, rate: float | None) -> Window:
        ask = Ask(CONNECTIONS, rate=rate, window_seconds=options.seconds)
        asked = tuple(one for body in bodies for one in requests(target.host, [keys[kind]], body))
        for _ in range(ATTEMPTS_MAX):
            try:
                (window,) = measure(Subject(kind, target, asked, ask), rig)
                if window["rate"]:
                    return window
            except VoidWindow as void:  # calls were shed: other work of the machine is in the way
                print(f"void: {void}", file=sys.stderr, flush=True)
        raise SystemExit(f"{ATTEMPTS_MAX} void windows of {kind}")

    for turn in range(options.windows + 1):
        for kind, windows in found.items():
            print(f"turn {turn} of {options.windows}, {kind}", file=sys.stderr, flush=True)
            window = measured(kind, options.rate)
            half = measured(kind, window["rate"] / 2)
            if turn:  # what is made once is made in the first
                windows.append(window | {f"half_{name}": half[name] for name in half})
    return found


def _print(found: Mapping[str, Sequence[Window]]) -> None:
    print(f"| | {' | '.join(COLUMNS.values())} | CPU beside plain | PostgreSQL beside plain |")
    print("|---" * (len(COLUMNS) + 3) + "|")
    for kind, windows in found.items():
        cells = [f"{median(window[column] for window in windows):.3f}" for column in COLUMNS]
        for column in ("cpu_ms", "pg_ms"):
            by_turns = zip(windows, found[PLAIN], strict=True)
            cells.append(f"{median(own[column] / plain[column] for own, plain in by_turns):.2f}")
        print(f"| {kind} | {' | '.join(cells)} |")


main()
