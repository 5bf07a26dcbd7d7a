"""What a running demo prints: a line to copy for every endpoint."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

from gw.app import routes
from gw.demo.account import DemoKey
from gw.demo.agent import DemoAgent

# Label: path and body of a first call; a native-content stream has another path.
CALLS = {
    "chat-completions": (
        "/v1/chat/completions",
        '{"model": "demo-large", "messages": [{"role": "user", "content": "Hello"}]}',
    ),
    "chat-completions, streamed": (
        "/v1/chat/completions",
        '{"model": "demo-large", "stream": true,'
        ' "messages": [{"role": "user", "content": "Hello"}]}',
    ),
    "chat-completions, with a web search": (
        "/v1/chat/completions",
        '{"model": "demo-large", "stream": true, "tools": [{"type": "web_search"}],'
        ' "messages": [{"role": "user", "content": "What is new?"}]}',
    ),
    "messages": (
        "/v1/messages",
        '{"model": "demo-large", "max_tokens": 200,'
        ' "messages": [{"role": "user", "content": "Hello"}]}',
    ),
    "responses": (
        "/v1/responses",
        '{"model": "demo-large", "instructions": "Be brief.",'
        ' "input": [{"role": "user", "content": "Hello"}]}',
    ),
    "native-content, streamed": (
        "/v1beta/models/demo-large:streamGenerateContent?alt=sse",
        '{"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]}',
    ),
    "images": (
        "/v1/images/generations",
        '{"model": "demo-picture", "prompt": "A boat in the harbour", "n": 2}',
    ),
}

# The same for tasks of seconds: the response is an id, and the lists below contain the file.
MEDIA_CALLS = {
    "a film": (
        "/v1/videos/generations",
        '{"model": "demo-film", "duration": 5,'
        ' "content": [{"type": "text", "text": "A boat in the harbour"}]}',
    ),
    "a film of a digital human": (
        "/v1/videos/generations",
        '{"model": "dh-avatar", "duration": 10, "avatar": "preset-anna",'
        ' "voice": "preset-warm", "text": "Good morning, and welcome to the harbour."}',
    ),
    "a film cut by a template": (
        "/v1/videos/generations",
        '{"model": "clip-realman", "style_id": "realman-bold", "title": "The harbour",'
        ' "source_video_url": "https://example.com/talk.mp4"}',
    ),
    "an avatar of one's own": (
        "/v1/videos/avatars",
        '{"name": "Ann", "source_url": "https://example.com/ann.png"}',
    ),
    "two songs": (
        "/v1/music/generations",
        '{"model": "demo-song", "prompt": "Slow rain over small boats"}',
    ),
    "speech, as a task": (
        "/v1/audio/speech",
        '{"model": "demo-speech", "voice": "preset-warm", "input": "Good morning.", "async": true}',
    ),
    "a voice of one's own": (
        "/v1/audio/voices",
        '{"model": "demo-voice", "name": "Me", "audio_url": "https://example.com/me.mp3"}',
    ),
    "the script of a short video": (
        "/v1/transcripts/extract",
        '{"model": "demo-script", "url": "https://example.com/short"}',
    ),
}
# Requests of assistants to the knowledge bases, in the Model Context Protocol.
MCP_CALLS = {
    "the tools there are": ("/mcp", '{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}'),
    "a search": (
        "/mcp",
        '{"jsonrpc": "2.0", "id": 2, "method": "tools/call",'
        ' "params": {"name": "search_wiki", "arguments": {"q": "balance"}}}',
    ),
}
SPEECH = (
    "/v1/audio/speech",
    '{"model": "demo-speech", "voice": "preset-warm", "input": "Good morning."}',
)
SEARCH = "/api/v1/ext/wiki/search?q=balance&limit=3"
ASK = (
    "/v1/chat/completions",
    '{"messages": [{"role": "user", "content": "All channels are open: what do I do?"}]}',
)
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
    calls = "\n".join(_post(demo, name, *call) for name, call in CALLS.items())
    media = "\n".join(
        [
            *(
                _post(demo, name, *call)
                for name, call in MEDIA_CALLS.items()
                if _is_served("POST", call[0])
            ),
            *(
                [_post(demo, "speech, at once", *SPEECH, more=" -o speech.mp3")]
                if _is_served("POST", SPEECH[0])
                else []
            ),
        ]
    )
    mcp = "\n".join(_post(demo, name, *call) for name, call in MCP_CALLS.items())
    lists = "\n".join(f"curl '{url}{path}' {bearer}" for path in LISTS if _is_served("GET", path))
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
    ask = _post(demo, "an agent that has read them, with a key of its own", *ASK, key=agent.key)
    return f"""\
{agent.pages} pages tell how to operate the gateway. A search of them:

curl '{url}{SEARCH}' -H 'Authorization: Bearer {demo.key.text}'

{ask}
"""


def _is_served(method: str, path: str) -> bool:
    """Whether the gateway has the endpoint; lines of missing ones are not printed."""
    return any(
        re.fullmatch(endpoint.path, path) and method in endpoint.methods for endpoint in routes()
    )


def _post(
    demo: Demo, name: str, path: str, body: str, *, more: str = "", key: str | None = None
) -> str:
    bearer = f"-H 'Authorization: Bearer {key or demo.key.text}'"
    return (
        f"# {name}\ncurl -N '{demo.url}{path}' {bearer} \\\n"
        f"  -H 'Content-Type: application/json' -d '{body}'{more}\n"
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
