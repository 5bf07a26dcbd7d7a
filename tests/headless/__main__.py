"""Coding agents as packages have them, without a screen: `python -m tests.headless`.

Each reads a file, writes what the file asks for into another one, and answers: natively, by a
translation, and without the gateway. The model is the simulator: the prompt has the call that
reads, the file the one that writes. Afterwards the calls' rows, their cost and the ledger have to
be exact, and the gateway has refused nothing. Packages come from the registry (`npm`) into
`--folder`, once. Prints a table; seconds are from the start of the agent to its end.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.support.client import Client
from tests.support.house import House, channel, house, model
from tests.support.scrape import Admin
from tests.support.upstream import key_of

SECONDS = 180.0
DIRECT = "without the gateway"
WAYS = ("native", "translated", DIRECT)
TEXT = "written by the agent"
NOT_WRITTEN = "the file was not written"
# Nano-USD for a token in, one of the prompt's cache, one out.
INPUT, CACHED, OUTPUT = 1000, 100, 10_000
NANO_PER_THOUSANDTH = 10**6  # `cost` of a log is in thousandths of a USD
SETTINGS: dict[str, Any] = {
    "translations": ["messages_to_chat", "native_to_chat", "responses_to_chat"],
    "channels": [
        channel("all", protocols=["chat", "messages", "responses", "native"]),
        channel("chat-only"),
    ],
    "models": [
        model("native-model", "all", max_output_tokens=64_000),
        model("translated-model", "chat-only", max_output_tokens=64_000),
    ],
}


@dataclass(frozen=True)
class Agent:
    """One package, and how it is asked: its tools by name, with what each is given."""

    client: str  # of `gw setup`
    package: str
    command: Sequence[str]  # the prompt comes last
    read: str
    write: str
    path: str  # the argument with the file's name
    environ: Mapping[str, str]
    is_piped: bool = False  # the prompt is its input
    # Requests that no provider knows either: `HEAD /`, which opens a connection ahead of need.
    unknown_paths: int = 0

    def reads(self, path: Path) -> dict[str, Any]:
        """The call that reads a file."""
        if self.client == "codex":
            return {"name": self.read, "arguments": {"cmd": f"cat {path}"}}
        return {"name": self.read, "arguments": {self.path: str(path)}}

    def writes(self, path: Path, text: str) -> dict[str, Any]:
        """The call that writes a file."""
        if self.client == "codex":
            return {"name": self.write, "arguments": {"cmd": f"printf %s '{text}' > {path}"}}
        return {"name": self.write, "arguments": {self.path: str(path), "content": text}}


AGENTS = (
    Agent(
        "claude-code",
        "@anthropic-ai/claude-code",
        ("claude", "--allowedTools", "Read,Write", "--permission-mode", "acceptEdits", "-p"),
        "Read",
        "Write",
        "file_path",
        {"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"},
        unknown_paths=1,
    ),
    Agent(
        "codex",
        "@openai/codex",
        ("codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"),
        "exec_command",
        "exec_command",
        "cmd",
        {},
    ),
    Agent(
        "gemini",
        "@google/gemini-cli",
        ("gemini", "--yolo", "--skip-trust", "-p"),
        "read_file",
        "write_file",
        "file_path",
        {"GEMINI_CLI_TRUST_WORKSPACE": "true"},
    ),
    Agent(
        "opencode",
        "opencode-ai",
        ("opencode", "run"),
        "read",
        "write",
        "filePath",
        {},
        is_piped=True,
    ),
)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="where the packages are")
    parser.add_argument("--only", action="append", help="a client of `gw setup`")
    parser.add_argument("--show", action="store_true", help="print what each agent prints")
    options = parser.parse_args()
    agents = [one for one in AGENTS if options.only is None or one.client in options.only]
    _install(options.folder, [one.package for one in agents])
    failed = 0
    print("| Agent | Way | Seconds | Calls | nano-USD | Result |\n|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder, house("", Path(folder), **SETTINGS) as h:
        for agent in agents:
            for way in WAYS:
                place = Path(tempfile.mkdtemp(dir=folder))
                result = _run(h, agent, way, place, options.folder, is_shown=options.show)
                failed += not result.endswith("| ok |")
                print(result, flush=True)
    return 1 if failed else 0


def _install(folder: Path, packages: list[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    missing = [one for one in packages if not (folder / "node_modules" / one).exists()]
    if missing:
        npm = shutil.which("npm")
        assert npm is not None, "npm is not installed"
        subprocess.run(
            [npm, "install", "--no-audit", "--no-fund", *missing], cwd=folder, check=True
        )


def _run(h: House, agent: Agent, way: str, place: Path, packages: Path, *, is_shown: bool) -> str:
    """One task; returns its line of the table."""
    home, work = place / "home", place / "work"
    home.mkdir()
    work.mkdir()
    source, target = work / "task.txt", work / "made.txt"
    asked = {"tool_calls": [agent.writes(target, TEXT)]}
    source.write_text(f"[[sim {json.dumps(asked)}]]\n", encoding="utf-8")
    account = h.gw("account", "create", f"{agent.client} {way}", "--credit-usd", "10")["id"]
    key = h.gw("key", "create", "--account", account, "--name", "agent")["key"]
    setup = ("setup", agent.client, "--key", key, "--url", h.gateway.url, "--no-mcp")
    asked_model = "translated-model" if way == "translated" else "native-model"
    h.gw(*setup, "--model", asked_model, "--write", "--home", str(home))
    if way == DIRECT:
        # The simulator knows the messages protocol's own header alone.
        own = {"ANTHROPIC_AUTH_TOKEN": "ANTHROPIC_API_KEY", key: key_of("all")}
        _lead_past(home, {h.gateway.url: h.simulator.url, **own})
    dotenv = home / ".gemini/.env"
    prompt = f"Read the file. [[sim {json.dumps({'tool_calls': [agent.reads(source)]})}]]"
    environ = {
        "PATH": f"{packages.resolve()}/node_modules/.bin:{os.environ['PATH']}",
        "HOME": str(home),
        "CODEX_HOME": str(home / ".codex"),
        "NO_PROXY": "127.0.0.1,localhost",
        **agent.environ,
        **(dict(_lines(dotenv)) if dotenv.exists() else {}),
    }
    before = _refusals(h) + Counter({"not_found 404": agent.unknown_paths})
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
    faults += _faults(rows, h.gw("account", "show", account), _refusals(h) - before)
    cost = _cost(rows)
    result = "; ".join(faults) or "ok"
    return f"| {agent.client} | {way} | {seconds:.1f} | {len(rows)} | {cost:,} | {result} |"


def _lines(dotenv: Path) -> list[tuple[str, str]]:
    pairs = [line.partition("=") for line in dotenv.read_text(encoding="utf-8").splitlines()]
    return [(name, value.strip('"')) for name, sign, value in pairs if sign]


def _cost(rows: list[dict[str, Any]]) -> int:
    """In nano-USD."""
    return sum(int(Decimal(row["cost"]) * NANO_PER_THOUSANDTH) for row in rows)


def _lead_past(home: Path, replaced: Mapping[str, str]) -> None:
    """Put other texts into the files that `gw setup` wrote."""
    for path in (path for path in home.rglob("*") if path.is_file()):
        text = path.read_text(encoding="utf-8")
        for before, after in replaced.items():
            text = text.replace(before, after)
        path.write_text(text, encoding="utf-8")


def _refusals(h: House) -> Counter[str]:
    """How often the gateway has answered with 4xx or 5xx, by route and status."""
    series = Admin(h.gateway.admin_url).page().series("gw_http_responses_total")
    return Counter({" ".join(key): int(count) for key, count in series.items() if key[1] >= "400"})


def _faults(
    rows: list[dict[str, Any]], account: dict[str, Any], refusals: Counter[str]
) -> list[str]:
    """What is wrong with what it was answered and charged."""
    found = [f"the gateway refused: {dict(refusals)}"] if refusals else []
    if refused := [row["error_code"] for row in rows if row["status"] != "success"]:
        found.append(f"calls that failed: {refused}")
    priced = sum(
        (row["input_tokens"] - row["cached_tokens"]) * INPUT
        + row["cached_tokens"] * CACHED
        + row["output_tokens"] * OUTPUT
        for row in rows
    )
    cost = _cost(rows)
    spent = 10 * 10**9 - int(Decimal(account["balance_usd"]) * 10**9)
    if not priced == cost == spent or not rows:
        found.append(f"tokens come to {priced}, rows to {cost}, the balance to {spent}")
    return found


if __name__ == "__main__":
    sys.exit(main())
