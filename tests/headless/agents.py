"""The agents: how each is installed, set up for the gateway, asked, and judged by its calls."""

import os
import shutil
import subprocess
import venv
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from loadtests.rig.deployment import Deployment, channel, model
from loadtests.rig.scrape import Admin
from loadtests.rig.upstream import key_of

SECONDS = 180.0
NODE = "node@24"  # agents find it before any other
DIRECT = "without the gateway"
# Nano-USD for a token in, one of the prompt's cache, one out.
INPUT, CACHED, OUTPUT = 1000, 100, 10_000
NANO_PER_THOUSANDTH = 10**6  # `cost` of a log is in thousandths of a USD
# The models by the way that a call goes; without the gateway it is that of `native`.
MODELS = {
    "native": "native-model",
    "translated": "translated-model",
    "translated to messages": "marked-model",
}
SETTINGS: dict[str, Any] = {
    "translations": [
        *("messages_to_chat", "native_to_chat", "responses_to_chat"),
        *("chat_to_messages", "native_to_messages", "responses_to_messages"),
    ],
    "channels": [
        channel("all", protocols=["chat", "messages", "responses", "native"]),
        channel("chat-only"),
        channel("messages-only", protocols=["messages"]),
    ],
    "models": [
        model("native-model", "all", max_output_tokens=64_000),
        model("translated-model", "chat-only", max_output_tokens=64_000),
        model("marked-model", "messages-only", max_output_tokens=64_000),
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
    again: Sequence[str] = ()  # goes on with the last conversation; empty: it cannot by a command
    compaction: str = ""  # the prompt by which it replaces its conversation by a summary of it

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
        return _call(self.write, **{self.path: str(path), self.content: text})

    def writes_much(self, path: Path, characters: int) -> dict[str, Any]:
        """The model's call with arguments of so many characters, which writes a file of them."""
        if self.client == "codex":  # no command is so long: it is answered with a failure
            given, name = {"cmd": ": "}, "cmd"
        else:
            given, name = {self.path: str(path), self.content: ""}, self.content
        return {"name": self.write, "arguments": given, "chars": {name: characters}}

    @property
    def content(self) -> str:
        """The argument with a file's content."""
        return "new_text" if self.client == "cline" else "content"


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
        again=(
            *("claude", "--continue", "--allowedTools", "Read,Write"),
            *("--permission-mode", "acceptEdits", "-p"),
        ),
        compaction="/compact Say what was read.",
    ),
    Agent(
        "codex",
        "@openai/codex",
        ("codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"),
        "exec_command",
        "exec_command",
        "cmd",
        {},
        again=(
            *("codex", "exec", "resume", "--last", "--skip-git-repo-check"),
            "--dangerously-bypass-approvals-and-sandbox",
        ),
    ),
    Agent(
        "gemini",
        "@google/gemini-cli",
        ("gemini", "--yolo", "--skip-trust", "-p"),
        "read_file",
        "write_file",
        "file_path",
        {"GEMINI_CLI_TRUST_WORKSPACE": "true"},
        again=("gemini", "--resume", "latest", "--yolo", "--skip-trust", "-p"),
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
        again=("opencode", "run", "--continue"),
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
        again=("qwen", "--continue", "--auth-type", "openai", "--yolo"),
    ),
)


def install(folder: Path, agents: Sequence[Agent]) -> None:
    """Install what is missing. npm passes over releases that its own Node is too old for."""
    folder.mkdir(parents=True, exist_ok=True)
    missing = [one.package for one in agents if not one.is_of_pip]
    missing = [one for one in missing if not (folder / "node_modules" / one).exists()]
    for wanted in ([NODE], missing) if missing else ():
        npm = shutil.which("npm")
        assert npm is not None, "npm is not installed"
        path = f"{folder.resolve() / 'node_modules/node/bin'}:{os.environ['PATH']}"
        command = [npm, "install", "--no-audit", "--no-fund", *wanted]
        subprocess.run(command, cwd=folder, env={**os.environ, "PATH": path}, check=True)
    for one in agents:
        place = folder / one.client
        if one.is_of_pip and not place.exists():
            venv.create(place, with_pip=True)
            subprocess.run([place / "bin/pip", "install", "--quiet", one.package], check=True)


def set_up(
    h: Deployment, agent: Agent, way: str, place: Path, packages: Path
) -> tuple[dict[str, str], tuple[str, str]]:
    """The environment of one run, with an account of its own; and its account and key."""
    home, work = place / "home", place / "work"
    home.mkdir()
    work.mkdir()
    account = h.gw("account", "create", f"{agent.client} {way}", "--credit-usd", "10")["id"]
    key = h.gw("key", "create", "--account", account, "--name", "agent")["key"]
    model_id = MODELS.get(way, MODELS["native"])
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


def _lines(dotenv: Path) -> list[tuple[str, str]]:
    pairs = [line.partition("=") for line in dotenv.read_text(encoding="utf-8").splitlines()]
    return [(name, value.strip('"')) for name, sign, value in pairs if sign]


def _lead_past(home: Path, replaced: Mapping[str, str]) -> None:
    """Put other texts into the files that `gw setup` wrote."""
    for path in (path for path in home.rglob("*") if path.is_file()):
        text = path.read_text(encoding="utf-8")
        for before, after in replaced.items():
            text = text.replace(before, after)
        path.write_text(text, encoding="utf-8")


def cost_of(rows: list[dict[str, Any]]) -> int:
    """In nano-USD."""
    return sum(int(Decimal(row["cost"]) * NANO_PER_THOUSANDTH) for row in rows)


def refusals_of(h: Deployment) -> Counter[str]:
    """How often the gateway has answered with 4xx or 5xx, by route and status."""
    series = Admin(h.gateway.admin_url).page().series("gw_http_responses_total")
    return Counter({" ".join(key): int(count) for key, count in series.items() if key[1] >= "400"})


def faults_of(
    rows: list[dict[str, Any]],
    account: dict[str, Any],
    refusals: Counter[str],
    ended: Sequence[str] = ("success",),
) -> list[str]:
    """What is wrong with what it was answered and charged; `ended`: how calls may have."""
    found = [f"the gateway refused: {dict(refusals)}"] if refusals else []
    if refused := [row["error_code"] for row in rows if row["status"] not in ended]:
        found.append(f"calls that failed: {refused}")
    priced = sum(
        (row["input_tokens"] - row["cached_tokens"]) * INPUT
        + row["cached_tokens"] * CACHED
        + row["output_tokens"] * OUTPUT
        for row in rows
    )
    cost = cost_of(rows)
    spent = 10 * 10**9 - int(Decimal(account["balance_usd"]) * 10**9)
    if not priced == cost == spent or not rows:
        found.append(f"tokens come to {priced}, rows to {cost}, the balance to {spent}")
    return found
