"""What a running demo prints: a line to copy for every endpoint."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from gw.app import description
from gw.demo.account import DemoKey
from gw.demo.agent import DemoAgent

# Labels of the reference's examples: of first calls; of tasks of seconds, whose response is an id
# and whose files are in the lists below; of assistants in the Model Context Protocol.
CALLS = (
    "chat-completions",
    "chat-completions, streamed",
    "chat-completions, with a web search",
    "messages",
    "responses",
    "native-content, streamed",
    "images",
)
MEDIA_CALLS = (
    "a film",
    "a film of a digital human",
    "a film cut by a template",
    "an avatar of one's own",
    "two songs",
    "speech, as a task",
    "a voice of one's own",
    "the script of a short video",
    "speech, at once",
)
MCP_CALLS = ("the tools there are", "a search")
SAVED_AS = {"speech, at once": "speech.mp3"}
SEARCH = "/api/v1/ext/wiki/search?q=balance&limit=3"
CHAT = "/v1/chat/completions"
ASK: dict[str, Any] = {
    "messages": [{"role": "user", "content": "All channels are open: what do I do?"}]
}
LISTS = (
    "/v1/videos/generations",
    "/v1/music/generations",
    "/v1/audio/speech",
    "/v1/videos/avatars",
    "/v1/videos/avatars/presets",
    "/v1/videos/clip-templates",
    "/v1/audio/voices",
)


@dataclass(frozen=True, slots=True)
class Demo:
    """The addresses and credentials of a running demo."""

    url: str
    admin_url: str
    sign_in: str  # a link to the console that works once
    config: Path
    key: DemoKey
    agent: DemoAgent | None


def summary_of(demo: Demo) -> str:
    url, key = demo.url, demo.key.text
    bearer = f"-H 'Authorization: Bearer {key}'"
    examples = calls_of_reference()

    def of(labels: Iterable[str]) -> str:
        return "\n".join(
            _post(demo, label, *examples[label], saved_as=SAVED_AS.get(label)) for label in labels
        )

    calls, media, mcp = of(CALLS), of(MEDIA_CALLS), of(MCP_CALLS)
    lists = "\n".join(f"curl '{url}{path}' {bearer}" for path in LISTS)
    return f"""
The gateway is running at {url} (metrics: {demo.admin_url}/metrics). Ctrl-C stops everything.

Console  {demo.sign_in} (signs you in once; `gw console link` makes another)
Key      {key}
Account  {demo.key.account_id}, balance {demo.key.balance_usd} USD

A first call in each protocol:

{calls}
Films, songs and speech, of which each takes some seconds:

{media}
Those are listed, with the links to their files as soon as they are made:

{lists}

{_knowledge(demo)}Knowledge bases are tools of assistants at {url}/mcp (`gw kb import` fills one):

claude mcp add --transport http gateway {url}/mcp --header "Authorization: Bearer {key}"

{mcp}
What is left of the balance, and the models there are:

curl {url}/v1/key/balance {bearer}
curl {url}/v1/models {bearer}

The command line beside it:

{command()} account list --config {shown(demo.config)}
{command()} ledger verify --config {shown(demo.config)}
{command()} admin token create --name me --scope write --config {shown(demo.config)}
"""


def _knowledge(demo: Demo) -> str:
    """Return the lines on the knowledge base and the agent; empty without an agent."""
    agent, url = demo.agent, demo.url
    if agent is None:
        return ""
    name = "an agent that has read them, with a key of its own"
    ask = _post(demo, name, CHAT, ASK, key=agent.key)
    return f"""\
{agent.pages} pages tell how to operate the gateway. A search of them:

curl '{url}{SEARCH}' -H 'Authorization: Bearer {demo.key.text}'

{ask}
"""


def calls_of_reference() -> dict[str, tuple[str, Any]]:
    """Return target and body of each call with an example, by the example's label."""
    found: dict[str, tuple[str, Any]] = {}
    for path, methods in json.loads(description().body)["paths"].items():
        called = methods.get("post", {})
        content = called.get("requestBody", {}).get("content", {}).get("application/json", {})
        for label, example in content.get("examples", {}).items():
            # The main path of a call comes first.
            found.setdefault(label, (_target(path, called["parameters"]), example["value"]))
    return found


def _target(path: str, parameters: Iterable[Mapping[str, Any]]) -> str:
    """Return a path with the examples of its parameters."""
    given = [one for one in parameters if "example" in one]
    for one in given:
        path = path.replace(f"{{{one['name']}}}", str(one["example"]))
    query = {one["name"]: one["example"] for one in given if one["in"] == "query"}
    return path + (f"?{urlencode(query)}" if query else "")


def _post(
    demo: Demo, name: str, path: str, body: Any, *, saved_as: str | None = None, key: str = ""
) -> str:
    bearer = f"-H 'Authorization: Bearer {key or demo.key.text}'"
    more = f" -o {saved_as}" if saved_as else ""
    return (
        f"# {name}\ncurl -N '{demo.url}{path}' {bearer} \\\n"
        f"  -H 'Content-Type: application/json' -d {shlex.quote(json.dumps(body))}{more}\n"
    )


def command() -> str:
    """Return the command that runs this program; its environment may not be on the path."""
    called = Path(sys.argv[0])
    return shown(called) if called.name == "gw" else f"{shown(Path(sys.executable))} -m gw"


def shown(path: Path) -> str:
    """Return the path relative to the working folder if it is below it."""
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)
