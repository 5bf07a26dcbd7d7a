"""A gateway that serves every family of the API, and rounds of calls of each, with faults."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from gw.runtime.database_pools import LOG_CONNECTIONS
from loadtests.rig.client import HELLO, Client
from loadtests.rig.deployment import Deployment, channel, model
from loadtests.rig.refusals import without_function
from loadtests.rig.response import Response
from loadtests.rig.tenants import Tenant
from loadtests.rig.transactions import transaction
from loadtests.rig.waiting import until
from tests.acceptance import agents, bases, films, pictures, sounds

WIKI = "/api/v1/ext/wiki"
READERS = 8
CHAT = ["chat", "messages", "responses", "native"]
MEDIA = [
    "images",
    "videos",
    "music",
    "speech",
    "voices",
    "transcripts",
    "avatars",
    "clips",
    "rerank",
    "moderations",
    "embeddings",
    "decisions",
]
SETTINGS: dict[str, Any] = {
    "channels": [
        channel("one", protocols=[*CHAT, *MEDIA]),
        # Once it has failed it stays open for a moment, and its model finds no other.
        channel("flaky", health={"failures": 1, "cooldown": 1}),
        channel("locked"),
        channel("busy", on_429="next"),
        channel("lost", protocols=["videos"]),
        channel("listed", kind="openai", protocols=["chat"]),
    ],
    "models": [
        model("sim-model", "one", aliases=["sim-latest"]),
        model("renamed", {"id": "one", "as": "vendor-large"}),
        model("unsteady", "flaky"),
        model("closed", "locked"),
        model("wanted", "busy"),
        model("below", {"id": "listed", "as": "gpt-5.5"}),
        pictures.picture("picture", "one"),
        model("vectors", "one", endpoint_type="embeddings", price={"input": "0.02"}),
        model("judge", "one", endpoint_type="decisions", price={"input": "0.1"}),
        model("film-lost", "lost", **sounds.FILMED),
        *sounds.ON_ONE,
    ],
    "tasks": {"poll_first": 0.1, "poll_max": 0.3},
    "media_store": {"kind": "local"},
    "redis_url": "",
}
USD_EACH = 10**12  # nano-USD of an account; nobody runs dry


@dataclass(frozen=True)
class Callers:
    """Who calls: an account with bases, its agent, and one whose limit is a call a minute."""

    rich: Tenant
    agent: Tenant
    hurried: Tenant


def callers(h: Deployment, folder: Path) -> Callers:
    """Make them."""
    rich = h.tenant(nano_usd=USD_EACH)
    bases.imported(h, rich, folder / "otters", "--kb", "otters")
    return Callers(rich, h.agent(rich, kbs=["otters"]), h.tenant(rpm=1))


def call_everything(h: Deployment, who: Callers, *, number: int) -> None:
    """One round, of which `number` tells it from the others."""
    client = who.rich.client
    _talk(client)
    _make(client, number)
    _read(client)
    _queue(h, who.rich)
    served(who.agent.client.chat(messages=[agents.message_of("What hold otters?")]))
    _fail(h, client)
    for _ in range(2):
        who.hurried.client.chat()


def served(reply: Response) -> Response:
    """It is an answer."""
    assert reply.status in (200, 201, 202), reply
    return reply


def _talk(client: Client) -> None:
    served(client.chat(model="renamed"))
    served(client.chat(model="below"))
    served(client.send("POST", "/v1/embeddings", {"model": "vectors", "input": ["Hello"]}))
    tier = {"input": 1, "output": 1, "beside": {"service_tier": "priority"}}
    served(client.chat(sim={"usage": tier}))  # which was not asked, and has no price
    for stream in (False, True):
        served(client.chat(model="sim-latest", stream=stream, sim={"chars": 200}))
        messages = {"model": "sim-model", "messages": [HELLO], "max_tokens": 50, "stream": stream}
        served(client.send("POST", "/v1/messages", messages))
        stated = {"model": "sim-model", "input": "Hello", "stream": stream}
        served(client.send("POST", "/v1/responses", stated))
        verb = "streamGenerateContent?alt=sse" if stream else "generateContent"
        contents = {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]}
        served(client.send("POST", f"/v1beta/models/sim-model:{verb}", contents))


def _make(client: Client, number: int) -> None:
    # The second one is a replay.
    for _ in range(2):
        served(pictures.generate(client, headers={"Idempotency-Key": f"picture-{number}"}))
    tasks = [served(films.submit(client)).json["id"]]
    sounds.ended(client, sounds.MUSIC, served(sounds.compose(client)).json["id"])
    served(sounds.speak(client))
    served(sounds.clone(client))
    served(sounds.extract(client))
    served(sounds.register(client))
    films.ended(client, tasks[0])


def _read(client: Client) -> None:
    for path in ("/v1/models", "/v1/key/balance", "/v1/budgets", "/v1/logs", "/v1/logs/summary"):
        served(client.get(path))
    served(client.get(f"{WIKI}/search?q=otters&kb_id=otters"))
    link = urlsplit(served(client.get(f"{WIKI}/pages/Otters/source?kb_id=otters")).json["url"])
    served(Client(client.url, None).get(f"{link.path}?{link.query}"))
    params = {"name": "search_pages", "arguments": {"query": "otters"}}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    accept = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    served(client.send("POST", "/mcp", json.dumps(message).encode(), headers=accept))


def _queue(h: Deployment, tenant: Tenant) -> None:
    """Readers of the call log that find every connection of their pool in use, in some process."""
    client = h.another(tenant).client  # a key reads the log so often in a minute, and not more
    with transaction(h.settings["database_url"]) as cursor:
        cursor.execute("LOCK TABLE call_logs IN ACCESS EXCLUSIVE MODE")
        calls = [client.begin("GET", "/v1/logs") for _ in range(READERS)]
        until(lambda: _locked_out(h) >= LOG_CONNECTIONS, what="readers that wait")
    for call in calls:
        served(call.response())


def _locked_out(h: Deployment) -> int:
    """How many statements wait for a lock."""
    (row,) = h.query("SELECT count(*) AS waiting FROM pg_locks WHERE NOT granted")
    return int(row["waiting"])


def _fail(h: Deployment, client: Client) -> None:
    """Refusals of ours, failures of upstreams, a submission that nobody knows anything of."""
    assert client.chat(max_tokens=10**9).status == 402
    h.upstream.fault("flaky", status=503)
    # Refused by its upstream, or as no channel is left: it takes both to have seen both.
    assert {client.chat(model="unsteady").status for _ in range(2)} <= {502, 503}
    h.upstream.heal("flaky")
    h.upstream.fault("busy", status=429)
    assert client.chat(model="wanted").status == 429
    h.upstream.fault("locked", status=401)
    assert client.chat(model="closed").status == 401
    h.upstream.fault("lost", refuse=True)
    assert films.submit(client, model="film-lost").status == 502
    with without_function(h.settings["database_url"], "kb_rank"):
        assert client.get(f"{WIKI}/search?q=otters&kb_id=otters").status == 503
