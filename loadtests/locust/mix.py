"""The mix of a run: families of endpoints by how many of the users they have, and their kinds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from loadtests.locust.kinds import Kind, Stream

QUESTION = (
    "Describe how a careful gateway counts what passes through it, token by token, "
    "and never loses one on the way."
)
SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
TOOL = {"name": "count_tokens", "description": "Count the tokens of a text.", "parameters": SCHEMA}
TOOLS = [{"type": "function", "function": TOOL}]
SAID = [{"role": "user", "content": QUESTION}]
CHAT = {"model": "{model}", "messages": SAID, "max_tokens": 256}
RESPONSES = {"model": "{model}", "input": QUESTION, "max_output_tokens": 256}
GEMINI = {"contents": [{"role": "user", "parts": [{"text": QUESTION}]}]}
PICTURE = "https://media.example/face.png"
RECORDING = "https://media.example/talk.mp3"
TEXT = {"type": "text", "text": "A boat in the harbour"}
WIKI = "/api/v1/ext/wiki"
PAGE, PAGE_TITLE = "Counting-1", "Counting "  # of what `gateway.py` imports

DONE = Stream(last=b"[DONE]")
MESSAGE_STOP = Stream(last=b"message_stop")
COMPLETED = Stream(last=b"response.completed")
GEMINI_END = Stream(last=b"finishReason", event_end=b"\r\n\r\n")


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """Endpoints that are used together: the share of its users, how they think, what they do.

    `is_harmless` where it costs nothing, or only the chat model of the run, so that any gateway may
    be asked for it.
    """

    weight: int
    kinds: Mapping[str, Kind]
    think_seconds: tuple[float, float] = (0.1, 0.5)
    is_harmless: bool = False
    by_agents: bool = False  # asked with the keys of agents, which speak for nothing else


def conversation(weight: int, path: str, body: Mapping[str, Any], stream: Stream) -> Family:
    """A chat protocol of which plain calls and streams are asked, some left in the middle."""
    asked = {**body, "stream": True}
    kinds = {
        "plain": Kind(weight=40, path=path, body=body),
        "stream": Kind(weight=45, path=path, body=asked, stream=stream),
        "left": Kind(weight=5, path=path, body=asked, stream=stream, leaves=True),
        "refused": Kind(weight=3, path=path, body=body, sim={"status": 422},
                        statuses=frozenset({422})),
    }  # fmt: skip
    return Family(weight=weight, kinds=kinds, is_harmless=True)


def reads(weight: int, paths: Mapping[str, str]) -> Mapping[str, Kind]:
    """GETs of equal weight."""
    return {name: Kind(weight=weight, path=path) for name, path in paths.items()}


def mcp(weight: int, method: str, has: str, **params: Any) -> Kind:
    """A message of an MCP client."""
    message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return Kind(weight=weight, path="/mcp", body=message, has=has)


def task(weight: int, path: str, body: Mapping[str, Any]) -> Kind:
    """Something that is made meanwhile, and asked for until it has ended."""
    return Kind(weight=weight, path=path, body=body, is_task=True)


COMPLETIONS = "/v1/chat/completions"
TOOL_BODY = {**CHAT, "tools": TOOLS}
GEMINI_PATH = "/v1beta/models/{model}"
VIDEOS, SPEECH, VOICES = "/v1/videos/generations", "/v1/audio/speech", "/v1/audio/voices"
TALK = {"model": "load-speech", "voice": "preset-warm", "input": QUESTION}

FAMILIES: Mapping[str, Family] = {
    "chat": Family(
        weight=38,
        is_harmless=True,
        kinds={
            **conversation(0, COMPLETIONS, CHAT, DONE).kinds,
            "tools": Kind(weight=5, path=COMPLETIONS, body=TOOL_BODY),
            "stream tools": Kind(
                weight=5, path=COMPLETIONS, body={**TOOL_BODY, "stream": True}, stream=DONE
            ),
            # Each attempt fails half of the time: another channel answers, or none does.
            "failing over": Kind(
                weight=4,
                path=COMPLETIONS,
                body=CHAT,
                sim={"status": 503, "rate": 0.5},
                statuses=frozenset({200, 503}),
            ),
            "cut": Kind(
                weight=2,
                path=COMPLETIONS,
                body={**CHAT, "stream": True},
                stream=DONE,
                sim={"cut_after_events": 20},
                is_complete=False,
            ),
        },
    ),
    # A persona with a base of pages, of which some go into each call.
    "agents": Family(
        weight=4,
        is_harmless=True,
        by_agents=True,
        kinds={
            "plain": Kind(weight=1, path=COMPLETIONS, body=CHAT),
            "stream": Kind(
                weight=1, path=COMPLETIONS, body={**CHAT, "stream": True}, stream=DONE
            ),
        },
    ),
    "messages": conversation(14, "/v1/messages", CHAT, MESSAGE_STOP),
    "responses": conversation(12, "/v1/responses", RESPONSES, COMPLETED),
    "gemini": Family(
        weight=8,
        is_harmless=True,
        kinds={
            "plain": Kind(weight=4, path=f"{GEMINI_PATH}:generateContent", body=GEMINI),
            "stream": Kind(
                weight=5,
                path=f"{GEMINI_PATH}:streamGenerateContent?alt=sse",
                body=GEMINI,
                stream=GEMINI_END,
            ),
        },
    ),
    "images": Family(
        weight=4,
        think_seconds=(1.0, 3.0),
        kinds={
            "one": Kind(
                weight=1,
                path="/v1/images/generations",
                body={"model": "load-picture", "prompt": "A boat in the harbour", "n": 1},
            )
        },
    ),
    # Withdrawn: a request for it is answered so.
    "embeddings": Family(
        weight=1,
        is_harmless=True,
        kinds={
            "withdrawn": Kind(
                weight=1,
                path="/v1/embeddings",
                body={"model": "text-embedding-3-small", "input": QUESTION},
                statuses=frozenset({404}),
            )
        },
    ),
    "videos": Family(
        weight=2,
        think_seconds=(1.0, 3.0),
        kinds={
            "film": task(6, VIDEOS, {
                "model": "load-film", "duration": 5, "content": [TEXT],
            }),
            "digital human": task(2, VIDEOS, {
                "model": "dh-avatar", "duration": 5, "avatar": "preset-anna",
                "voice": "preset-warm", "text": "Good morning, and welcome to the harbour.",
            }),
            "smart edit": task(1, VIDEOS, {
                "model": "clip-realman", "style_id": "realman-bold", "title": "The harbour",
                "source_video_url": "https://media.example/talk.mp4",
            }),
            **reads(1, {"list": f"{VIDEOS}?limit=10", "templates": "/v1/videos/clip-templates"}),
        },
    ),
    "music": Family(
        weight=1,
        think_seconds=(1.0, 3.0),
        kinds={
            "song": task(4, "/v1/music/generations", {"model": "load-song", "prompt": "Slow rain"}),
            **reads(1, {"list": "/v1/music/generations?limit=10"}),
        },
    ),
    "audio": Family(
        weight=4,
        kinds={
            "speech": Kind(weight=6, path=SPEECH, body=TALK),
            "speech as a task": task(2, SPEECH, {**TALK, "async": True}),
            "voice": Kind(
                weight=1,
                path=VOICES,
                body={"model": "load-voice", "name": "Me", "audio_url": RECORDING},
            ),
            **reads(1, {"voices": VOICES}),
        },
    ),
    "avatars": Family(
        weight=1,
        think_seconds=(1.0, 3.0),
        kinds={
            "avatar": task(2, "/v1/videos/avatars", {"name": "Ann", "source_url": PICTURE}),
            **reads(1, {"presets": "/v1/videos/avatars/presets", "list": "/v1/videos/avatars"}),
        },
    ),
    "transcripts": Family(
        weight=1,
        kinds={
            "script": Kind(
                weight=1,
                path="/v1/transcripts/extract",
                body={"model": "load-script", "url": "https://media.example/short"},
            )
        },
    ),
    "knowledge": Family(
        weight=6,
        kinds={
            "search": Kind(weight=6, path=f"{WIKI}/search?q=token%20ledger"),
            **reads(1, {
                "pages": f"{WIKI}/pages?ids={PAGE},Counting-2",
                "page": f"{WIKI}/pages/{PAGE}",
                "backlinks": f"{WIKI}/pages/{PAGE}/backlinks",
                "tags": f"{WIKI}/tags",
                "tag": f"{WIKI}/tags/ledger",
                "bases": f"{WIKI}/kbs",
            }),
            "mcp": Kind(weight=3, path="/mcp", body={
                "jsonrpc": "2.0", "id": 1, "method": "tools/call",
                "params": {"name": "search_wiki", "arguments": {"q": "token ledger"}},
            }),
        },
    ),
    "mcp": Family(
        weight=3,
        kinds={
            "initialize": mcp(1, "initialize", "serverInfo", protocolVersion="2025-06-18",
                              capabilities={}, clientInfo={"name": "load", "version": "1"}),
            "tools": mcp(1, "tools/list", "search_wiki"),
            "search": mcp(5, "tools/call", PAGE_TITLE, name="search_wiki",
                          arguments={"q": "token ledger"}),
            "read": mcp(2, "tools/call", PAGE_TITLE, name="read_page", arguments={"id": PAGE}),
        },
    ),
    # The call log has a rate of its own for each key.
    "logs": Family(
        weight=3,
        is_harmless=True,
        think_seconds=(1.0, 3.0),
        kinds={
            "list": Kind(weight=3, path="/v1/logs?limit=20", statuses=frozenset({200, 429}),
                         detail_of="id"),
            "summary": Kind(weight=1, path="/v1/logs/summary", statuses=frozenset({200, 429})),
        },
    ),
    "balance": Family(
        weight=5,
        is_harmless=True,
        kinds=reads(1, {
            "balance": "/v1/key/balance",
            "models": "/v1/models",
            "subscription": "/v1/dashboard/billing/subscription",
            "usage": "/v1/dashboard/billing/usage",
        }),
    ),
}  # fmt: skip


def chosen(names: Sequence[str], *, has_simulator: bool, has_agents: bool) -> dict[str, Family]:
    """The families of a run: by default all, without the simulator only those that are harmless."""
    wanted = {name: FAMILIES[name] for name in names} if names else FAMILIES
    return {
        name: one
        for name, one in wanted.items()
        if (has_simulator or one.is_harmless) and (has_agents or not one.by_agents)
    }


def kinds_of(family: Family, *, has_simulator: bool) -> dict[str, Kind]:
    """What its users do: what only the simulator can be asked for is left out without it."""
    return {name: kind for name, kind in family.kinds.items() if has_simulator or not kind.sim}
