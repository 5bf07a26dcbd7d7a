"""Coding agents as packages have them, without a screen: `python -m tests.headless`.

Each reads a file, writes what the file asks for into another one, and answers: natively, by a
translation, and without the gateway. The model is the simulator: the prompt has the call that
reads, the file the one that writes. Afterwards the calls' rows, their cost and the ledger have to
be exact, and the gateway has refused nothing. Packages come from the registries (`npm`, `pip`) into
`--folder`, once; agents reach nothing but this machine. Prints a table; seconds are from the start
of the agent to its end. `--startup RUNS` prints instead how long Codex takes for one answer.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import venv
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

    client: str  # of `gw setup`, but for one that has none there
    package: str
    command: Sequence[str]  # the prompt comes last
    read: str
    write: str
    path: str  # the argument with the file's name
    environ: Mapping[str, str]
    is_piped: bool = False  # the prompt is its input
    is_of_pip: bool = False
    # Requests that no provider knows either: `HEAD /`, which opens a connection ahead of need.
    unknown_paths: int = 0

    def reads(self, path: Path) -> dict[str, Any]:
        """What the model answers first, which reads a file; empty where the agent does that."""
        if self.client == "codex":
            return _call(self.read, cmd=f"cat {path}")
        if self.client == "cline":
            return _call(self.read, files=[{self.path: str(path)}])
        return _call(self.read, **{self.path: str(path)}) if self.read else {}

    def writes(self, path: Path, text: str) -> dict[str, Any]:
        """What the model answers then, which writes a file."""
        if self.client == "codex":
            return _call(self.write, cmd=f"printf %s '{text}' > {path}")
        if not self.write:
            return {"text": f"{path.name}\n```\n{text}\n```\n"}
        content = "new_text" if self.client == "cline" else "content"
        return _call(self.write, **{self.path: str(path), content: text})


def _call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


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
    Agent(
        "cline",
        "cline",
        ("cline", "-P", "openai"),
        "read_files",
        "editor",
        "path",
        {"CLINE_SESSION_BACKEND_MODE": "local"},  # no process that stays
    ),
    Agent(
        "aider",
        "aider-chat",
        (
            *("aider", "--no-git", "--yes-always", "--no-check-update", "--analytics-disable"),
            *("--no-show-release-notes", "--edit-format", "whole"),
            *("--read", "task.txt", "--file", "made.txt", "--message"),
        ),
        "",
        "",
        "",
        {"LITELLM_LOCAL_MODEL_COST_MAP": "True"},
        is_of_pip=True,
    ),
    Agent(
        "qwen-code",
        "@qwen-code/qwen-code",
        ("qwen", "--auth-type", "openai", "--yolo"),
        "read_file",
        "write_file",
        "file_path",
        {"HTTPS_PROXY": "", "https_proxy": ""},  # it would send everything there
    ),
)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, required=True, help="where the packages are")
    parser.add_argument("--only", action="append", help="a client of `gw setup`")
    parser.add_argument("--show", action="store_true", help="print what each agent prints")
    parser.add_argument("--startup", type=int, metavar="RUNS", help="time Codex alone")
    options = parser.parse_args()
    only = ["codex"] if options.startup else options.only
    agents = [one for one in AGENTS if only is None or one.client in only]
    _install(options.folder, agents)
    if options.startup:
        return _time_startup(agents[0], options.folder, options.startup)
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


def _install(folder: Path, agents: Sequence[Agent]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    missing = [one.package for one in agents if not one.is_of_pip]
    missing = [one for one in missing if not (folder / "node_modules" / one).exists()]
    if missing:
        npm = shutil.which("npm")
        assert npm is not None, "npm is not installed"
        subprocess.run(
            [npm, "install", "--no-audit", "--no-fund", *missing], cwd=folder, check=True
        )
    for one in agents:
        place = folder / one.client
        if one.is_of_pip and not place.exists():
            venv.create(place, with_pip=True)
            subprocess.run([place / "bin/pip", "install", "--quiet", one.package], check=True)


def _time_startup(agent: Agent, packages: Path, runs: int) -> int:
    """Print the median and the least of the seconds from Codex's start to its end, one answer."""
    answer = {"text": "Hello."}
    seconds: dict[str, list[float]] = {"native": [], DIRECT: []}
    with tempfile.TemporaryDirectory() as folder, house("", Path(folder), **SETTINGS) as h:
        for _ in range(runs):
            for way, taken in seconds.items():
                place = Path(tempfile.mkdtemp(dir=folder))
                environ, _ = _set_up(h, agent, way, place, packages)
                command = [*agent.command, f"Say hello. [[sim {json.dumps(answer)}]]"]
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


def _set_up(
    h: House, agent: Agent, way: str, place: Path, packages: Path
) -> tuple[dict[str, str], tuple[str, str]]:
    """The environment of one run, with an account of its own; and its account and key."""
    home, work = place / "home", place / "work"
    home.mkdir()
    work.mkdir()
    account = h.gw("account", "create", f"{agent.client} {way}", "--credit-usd", "10")["id"]
    key = h.gw("key", "create", "--account", account, "--name", "agent")["key"]
    model_id = "translated-model" if way == "translated" else "native-model"
    url = h.gateway.url
    bins = (packages.resolve() / "node_modules/.bin", packages.resolve() / agent.client / "bin")
    environ = {
        "PATH": ":".join([*map(str, bins), os.environ["PATH"]]),
        "HOME": str(home),
        "CODEX_HOME": str(home / ".codex"),
        "NO_PROXY": "127.0.0.1,localhost",
        **dict.fromkeys(("HTTPS_PROXY", "https_proxy"), "http://127.0.0.1:9"),  # nobody is there
        **agent.environ,
    }
    if agent.client == "qwen-code":
        access = {"OPENAI_API_KEY": key, "OPENAI_BASE_URL": f"{url}/v1", "OPENAI_MODEL": model_id}
        environ |= access
    else:
        setup = ("setup", agent.client, "--key", key, "--url", url, "--no-mcp")
        h.gw(*setup, "--model", model_id, "--write", "--home", str(home))
    if agent.client == "cline":
        auth = ["cline", "auth", "-p", "openai", "-k", key, "-b", f"{url}/v1", "-m", model_id]
        subprocess.run(auth, env=environ, cwd=work, capture_output=True, check=True)
    if way == DIRECT:
        # The simulator knows the messages protocol's own header alone, and no WebSocket.
        own = {"ANTHROPIC_AUTH_TOKEN": "ANTHROPIC_API_KEY", key: key_of("all")}
        own["supports_websockets = true"] = "supports_websockets = false"
        past = {url: h.simulator.url, **own}
        _lead_past(home, past)
        environ = {name: past.get(one, one) for name, one in environ.items()}
        if "OPENAI_BASE_URL" in environ:
            environ["OPENAI_BASE_URL"] = f"{h.simulator.url}/v1"
    dotenv = home / ".gemini/.env"
    if dotenv.exists():
        environ |= dict(_lines(dotenv))
    return environ, (account, key)


def _run(h: House, agent: Agent, way: str, place: Path, packages: Path, *, is_shown: bool) -> str:
    """One task; returns its line of the table."""
    environ, (account, key) = _set_up(h, agent, way, place, packages)
    work = place / "work"
    source, target = work / "task.txt", work / "made.txt"
    source.write_text(f"[[sim {json.dumps(agent.writes(target, TEXT))}]]\n", encoding="utf-8")
    first = agent.reads(source)
    if agent.client == "cline":  # the text of a file comes back escaped
        first["tool_calls"] += agent.writes(target, TEXT)["tool_calls"]
    first = first or agent.writes(target, TEXT)
    prompt = f"Do as the file says. [[sim {json.dumps(first)}]]"
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
