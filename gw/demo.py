"""`gw demo`: the complete gateway on one machine without any configuration, until Ctrl-C.

The upstream simulator runs in a process of its own; the gateway runs in this one, on an embedded
PostgreSQL below the data folder, with an account that has credit. The configuration is written to
a file that the other commands can use. A second demo finds the same account and key again.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import ujson

from actors.store.database import Database
from actors.wallet.money import NANO_PER_USD
from gw import accounts
from gw.admin import accounts as admin_accounts
from gw.admin import agents as admin_agents
from gw.admin import bases
from gw.admin import keys as admin_keys
from gw.admin.audit import Actor
from gw.agents import table
from gw.agents.table import NewAgent
from gw.api.knowledge.services import make_sources
from gw.app import routes
from gw.config.config import Config
from gw.config.load import load
from gw.console.sessions import link_url, make_link
from gw.http.tornado.handler import TornadoHandler
from gw.keys import store as keys
from gw.keys.issue import KeyWish
from gw.keys.principal import AGENT, OWNER
from gw.keys.secret import Secret
from gw.knowledge.bases import PERSONAL
from gw.knowledge.folder import read_folder
from gw.knowledge.importing import ImportTarget
from gw.run import run_gateway
from gw.serve import Gateway
from metrics.environment import inherited
from metrics.logs import write_line

# The demo's account and key, created once and found by the next demo on the same data.

NAME = "demo"
CREDIT_NANO_USD = 10 * NANO_PER_USD


@dataclass(frozen=True, slots=True)
class DemoKey:
    """The key to copy, its account, and the account's balance."""

    text: str
    key_id: str
    account_id: str
    balance_usd: str


async def open_account(database: Database, secret: Secret) -> DemoKey:
    """Find or create the account and a valid key of it; top up an empty wallet."""
    found = [a for a in await accounts.list_all(database) if a.name == NAME and a.enabled]
    actor = Actor.of_this_process()
    async with database.transaction() as session:
        account_id = (
            found[0].id if found else (await admin_accounts.create(session, actor, NAME)).id
        )
        if not found or found[0].available_nano_usd <= 0:
            await admin_accounts.top_up(session, actor, account_id, CREDIT_NANO_USD)
    wish = KeyWish(account_id=account_id, name=NAME, account_logs=True)
    key_id, text = await find_or_issue(database, secret, wish)
    balance_usd = (await admin_accounts.show(database, account_id)).balance_usd
    return DemoKey(text, key_id, account_id, balance_usd)


async def find_or_issue(database: Database, secret: Secret, wish: KeyWish) -> tuple[str, str]:
    """Return id and text of a valid key of this name and agent; create one if there is none."""
    actor = Actor.of_this_process()
    found = await keys.list_of_account(database, wish.account_id, limit=100)
    async with database.transaction() as session:
        for key in found:
            is_good = key.enabled and key.revoked_at is None and key.is_revealable
            is_it = (key.name, key.agent_id) == (wish.name, wish.agent_id)
            if is_good and is_it and key.expires_at is None:
                return key.id, (await admin_keys.reveal(session, actor, key.id, secret))[1]
        made, text = await admin_keys.create(session, actor, wish, secret)
    return made.id, text


# The demo's knowledge base, which is the project's own pages, and its agent.

# The folder of the pages that describe the gateway.
PROJECT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "ops/running.md", "ops/protocols.md", "ops/runbooks/*.md")
SYSTEM_PROMPT = (
    "You help operators of this model gateway. Answer from the pages you are given, name the page,"
    " and say so where they do not tell."
)


@dataclass(frozen=True, slots=True)
class DemoAgent:
    """The agent's id, its key, and the number of pages in its knowledge base."""

    id: str
    key: str
    pages: int


async def open_agent(gateway: Gateway, account_id: str) -> DemoAgent | None:
    """Import the project's pages into the personal base, and find or create the agent.

    None if the program was installed without its pages.
    """
    files = [file for pattern in PAGES for file in sorted(PROJECT.glob(pattern))]
    if not files:
        return None
    config, database = gateway.current.config, gateway.database
    with TemporaryDirectory(prefix="gw-demo-") as name:
        for file in files:
            shutil.copy(file, name)
        folder = read_folder(Path(name), source_mb_max=config.kb_store.max_source_mb)
    target = ImportTarget(account_id=account_id, user=OWNER)
    actor = Actor.of_this_process()
    imported = await bases.import_pages(
        database, actor, target, folder, make_sources(config), keep=False
    )
    agent_id = await _agent(gateway, account_id)
    wish = KeyWish(account_id=account_id, name=NAME, kind=AGENT, agent_id=agent_id)
    _, text = await find_or_issue(database, gateway.secret, wish)
    return DemoAgent(agent_id, text, imported.pages)


async def _agent(gateway: Gateway, account_id: str) -> str:
    for agent in await table.list_all(gateway.database, account_id):
        if agent.name == NAME and agent.enabled:
            return agent.id
    wanted = NewAgent(
        account_id=account_id,
        name=NAME,
        user_name=OWNER,
        system_prompt=SYSTEM_PROMPT,
        model="demo-large",
        temperature=None,
        web_search=False,
        image_generation=False,
        kbs=[PERSONAL],
    )
    async with gateway.database.transaction() as session:
        made = await admin_agents.create(session, Actor.of_this_process(), wanted)
    return made.id


# What a running demo prints: a line to copy for every endpoint.

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


def as_text(demo: Demo) -> str:
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
        re.fullmatch(route[0], path)
        and issubclass(route[1], TornadoHandler)
        and method in route[1].allowed_methods()
        for route in routes()
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


READY_SECONDS = 30.0
# Preferred ports, so that the printed lines are usually the same.
PORT, ADMIN_PORT, CONSOLE_PORT = 8080, 9090, 9080

MARK = "# Written by `gw demo`"
CONFIGURATION = """\
# Written by `gw demo`, anew at each start. Point other commands at it:
#   {command} account list --config {path}
listen: 127.0.0.1:{port}
admin_listen: 127.0.0.1:{admin_port}
console_listen: 127.0.0.1:{console_port}
data_dir: .
log_level: ${{GW_LOG_LEVEL:-warning}}
tasks: {{poll_first: 1, poll_max: 2}}
media_store: {{kind: local, max_gb: 1}}   # films and songs stay here when the simulator has gone
channels:
  - id: simulator-a
    base_url: {upstream}
    api_key: demo-a
    protocols: [chat, messages, responses, native, images, {media}]
    tools: [web_search, image_generation]
  - id: simulator-b
    base_url: {upstream}
    api_key: demo-b
    protocols: [chat, messages, responses, native, images, {media}]
    tools: [web_search, image_generation]
    priority: 2
models:
  - id: demo-large
    display_name: Demo Large
    owned_by: simulator
    channels: [simulator-a, simulator-b]
    context_size: 128000
    max_output_tokens: 4096
    price: {{input: "1.25", output: "10", cached_input: "0.125", per_web_search: "0.01"}}
    capabilities: [tools, json, web_search, image_gen]
    aliases: [demo]
  - id: demo-small
    display_name: Demo Small
    owned_by: simulator
    channels: [simulator-b, simulator-a]
    context_size: 32000
    max_output_tokens: 2048
    price: {{input: "0.1", output: "0.4", per_web_search: "0.01"}}
    capabilities: [tools, json]
  - id: demo-picture
    display_name: Demo Picture
    owned_by: simulator
    channels: [simulator-a, simulator-b]
    endpoint_type: images_generations
    price: {{per_image: "0.04"}}
    capabilities: [image_gen]
  - {{id: demo-film, endpoint_type: videos_generations, channels: [simulator-a, simulator-b],
     price: {{per_second: "0.1", per_second_by_resolution: {{1080p: "0.2"}}}},
     capabilities: [video_gen]}}
  - {{id: dh-avatar, endpoint_type: videos_generations, channels: [simulator-a, simulator-b],
     price: {{per_second: "0.05"}}, capabilities: [video_gen]}}
  - {{id: clip-realman, endpoint_type: videos_generations, channels: [simulator-a, simulator-b],
     price: {{per_second: "0.004"}}, capabilities: [video_gen]}}
  - {{id: demo-avatar, endpoint_type: videos_avatars, channels: [simulator-a, simulator-b],
     price: {{per_call: "0.5"}}}}
  - {{id: demo-song, endpoint_type: music_generations, channels: [simulator-a, simulator-b],
     price: {{per_generation: "0.12"}}}}
  - {{id: demo-speech, endpoint_type: audio_speech, channels: [simulator-a, simulator-b],
     price: {{per_character: "0.00003"}}}}
  - {{id: demo-voice, endpoint_type: audio_voices, channels: [simulator-a, simulator-b],
     price: {{per_call: "0.3"}}}}
  - {{id: demo-script, endpoint_type: transcripts_extract, channels: [simulator-a, simulator-b],
     price: {{per_call: "0.02"}}}}
"""
# The models that the simulator lists.
MODELS = re.findall(r"\bid: ([\w-]+)", CONFIGURATION.partition("\nmodels:")[2])
MEDIA = "videos, avatars, clips, music, speech, voices, transcripts"
# How long the simulator takes for a film or a song.
TASK_SECONDS = 3


class SimulatorMissing(Exception):
    """The upstream simulator did not start."""


def is_ours(path: Path) -> bool:
    """Whether the file is missing or a demo's, so that the configuration may replace it."""
    return not path.exists() or path.read_text("utf-8", "replace").startswith(MARK)


async def run_demo(path: Path, *, is_json: bool) -> int:
    """Run until Ctrl-C or SIGTERM, with the configuration at `path`; return the exit code."""
    async with _simulator() as upstream:
        _write_configuration(path, upstream)

        async def show(gateway: Gateway) -> None:
            key = await open_account(gateway.database, gateway.secret)
            agent = await open_agent(gateway, key.account_id)
            async with gateway.database.transaction() as transaction:
                token = await make_link(transaction, Actor.of_this_process(), account_id=None)
            sign_in = link_url(gateway.console_url, token)
            demo = Demo(gateway.listen_url, gateway.admin_url, sign_in, path, key, agent)
            print(_as_json(demo) if is_json else as_text(demo), flush=True)

        def read() -> Config:
            return load(path, os.environ)

        return await run_gateway(read(), read_again=read, on_ready=show)


def _write_configuration(path: Path, upstream: str) -> None:
    text = CONFIGURATION.format(
        command=command(),
        path=shown(path),
        upstream=upstream,
        media=MEDIA,
        port=_free_or_any(PORT),
        admin_port=_free_or_any(ADMIN_PORT),
        console_port=_free_or_any(CONSOLE_PORT) or _any_free(),
    )
    path.write_text(text, encoding="utf-8")


@asynccontextmanager
async def _simulator() -> AsyncIterator[str]:
    """Run the simulator; yield its address."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "loadtests.simulator",
        "--port",
        "0",
        "--task-seconds",
        str(TASK_SECONDS),
        "--models",
        *MODELS,
        stderr=asyncio.subprocess.PIPE,
        env=inherited(),
        # Ctrl-C reaches the terminal's whole group; the simulator must outlive draining calls.
        start_new_session=True,
    )
    assert process.stderr is not None
    drained: asyncio.Task[None] | None = None
    try:
        async with asyncio.timeout(READY_SECONDS):
            while line := (await process.stderr.readline()).decode():
                if line.startswith("ready listen="):
                    break
            else:
                raise SimulatorMissing
        drained = asyncio.create_task(_pass_on(process.stderr))
        yield line.partition("=")[2].split()[0]
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await process.wait()
        if drained is not None:
            await drained


async def _pass_on(stream: asyncio.StreamReader) -> None:
    async for line in stream:
        write_line(line.decode(errors="replace").rstrip("\n"))


def _free_or_any(port: int) -> int:
    """Return the port if it is free, else 0 for any."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return 0
    return port


def _any_free() -> int:
    """Return a free port, for a listener whose number must be known in advance."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _as_json(demo: Demo) -> str:
    return str(
        ujson.dumps(
            {
                "base_url": demo.url,
                "admin_url": demo.admin_url,
                "console": demo.sign_in,
                "key": demo.key.text,
                "key_id": demo.key.key_id,
                "account_id": demo.key.account_id,
                "agent_id": demo.agent and demo.agent.id,
                "agent_key": demo.agent and demo.agent.key,
                "config": str(demo.config),
            },
            escape_forward_slashes=False,
        )
    )
