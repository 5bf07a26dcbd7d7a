"""NUL, half a character and a megabyte wherever a client can put text, at every endpoint.

None of it is a 5xx; what is a name, an id, a reference or a query is refused with NUL and half a
character before anything is held, and nothing is made of it upstream (reference 1.5).
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gw.app import routes
from loadtests.rig.client import CHAT, HELLO
from loadtests.rig.connection import Connection
from loadtests.rig.deployment import Deployment, model
from loadtests.rig.response import Disconnected, Response
from loadtests.rig.tenants import Tenant
from tests.acceptance import bases, every_family, films, sounds
from tests.acceptance.submissions import PATH as IMAGES

pytestmark = pytest.mark.long

SETTINGS: dict[str, Any] = {
    **every_family.SETTINGS,
    "models": [
        *every_family.SETTINGS["models"],
        model("dh-avatar", "one", **sounds.FILMED),
        model("dh-motion", "one", **sounds.FILMED),
        model("clip-news", "one", **sounds.FILMED),
        model("rank", "one", endpoint_type="rerank", price={"per_call": "0.001"}),
        model("guard", "one", endpoint_type="moderations", price={}),
    ],
}
WIKI = every_family.WIKI
MEGABYTE = "x" * 1_000_000
NUL, HALF = "a\0b", "a\ud800b"
# In a path and in a query: the second is half a character as UTF-8 would write it.
UNFIT_BYTES = ("x%00y", "%ED%A0%80")
REFUSED = (400, 403, 404)  # 403: the signature of a link, which is judged before anything else
# Members that a person writes: they go on as they are, where they are not broken JSON.
PROSE = ("prompt", "lyrics", "input", "text")

TOOL = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {}}}
TEXTS = [{"role": "user", "content": [{"type": "text", "text": "Hello"}], "name": "me"}]


@dataclass(frozen=True)
class Ask:
    """A request that is good as it is; `{}` in its path is an id, `query` what it may be asked."""

    method: str
    path: str
    body: Any = None
    query: tuple[str, ...] = ("unknown",)
    identifier: str = "x"
    is_ours: bool = False  # the gateway reads every member, and passes none on as it came

    @property
    def target(self) -> str:
        return self.path.replace("{}", self.identifier)


def tool_call(name: str, **arguments: Any) -> Ask:
    """A call of a tool over MCP."""
    params = {"name": name, "arguments": arguments}
    body = {"jsonrpc": "2.0", "id": "1", "method": "tools/call", "params": params}
    return Ask("POST", "/mcp", body)


LIST = ("limit", "status", "before")
LOGS = ("model", "status", "unit_type", "error_code", "ref", "scope", "key_id", "order", "cursor")
WINDOW = ("period", "from", "to")
# Of these the gateway reads every member.
OURS = ("voice", "script", "avatar")
LINKS = (f"{films.VIDEOS}/{{}}/content", "/v1/media/{}", f"{WIKI}/sources/{{}}")
MEDIA = (films.VIDEOS, sounds.MUSIC, sounds.SPEECH)
ASKS = (
    *(
        Ask("POST", path, body, is_ours=kind in OURS)
        for kind, (path, body) in sounds.SUBMITS.items()
    ),
    *(Ask("GET", path, query=LIST) for path in MEDIA),
    *(Ask("GET", f"{path}/{{}}") for path in (*MEDIA, sounds.AVATARS, sounds.TEMPLATES)),
    *(
        Ask(method, path, query=("expires", "signature"))
        for path in LINKS
        for method in ("GET", "HEAD")
    ),
    Ask("POST", CHAT, {"model": "sim-model", "messages": TEXTS, "user": "u", "tools": [TOOL]}),
    Ask(
        "POST",
        "/v1/messages",
        {"model": "sim-model", "max_tokens": 9, "system": "s", "messages": [HELLO]}
        | {"metadata": {"user_id": "u"}},
    ),
    Ask("POST", "/v1/responses", {"model": "sim-model", "input": "Hi", "instructions": "i"}),
    *(
        Ask(
            "POST",
            f"/{version}/models/{{}}:{verb}",
            {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]},
            query=("alt",),
            identifier="sim-model",
        )
        for version, verb in (("v1beta", "generateContent"), ("v1", "streamGenerateContent"))
    ),
    Ask(
        "POST",
        "/v1/messages/count_tokens",
        {"model": "sim-model", "system": "s", "messages": [HELLO]},
    ),
    Ask("POST", "/v1/responses/input_tokens", {"model": "sim-model", "input": "Hi"}),
    Ask("POST", "/v1/responses/compact", {"model": "sim-model", "input": "Hi"}),
    Ask(
        "POST",
        "/v1beta/models/{}:countTokens",
        {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]},
        identifier="sim-model",
    ),
    Ask("GET", "/v1/responses"),
    Ask("POST", "/v1/audio/transcriptions"),
    Ask("POST", "/v1/images/edits"),
    Ask("POST", "/v1/rerank", {"model": "rank", "query": "q", "documents": ["d"]}),
    Ask("POST", "/v1/moderations", {"model": "guard", "input": "Hi"}),
    Ask("GET", "/v1/models", query=("limit", "after_id", "before_id")),
    Ask("GET", "/v1/models/{}", identifier="sim-model"),
    Ask("GET", "/v1beta/models", query=("pageSize", "pageToken")),
    Ask("GET", "/v1beta/models/{}", identifier="sim-model"),
    Ask("GET", "/api/v1/models/public"),
    Ask("GET", "/openapi.json"),
    Ask("GET", "/v1/key/balance"),
    Ask("GET", "/v1/budgets", query=("run", "end_user")),
    Ask("GET", "/v1/dashboard/billing/subscription"),
    Ask("GET", "/v1/dashboard/billing/usage", query=("start_date", "end_date")),
    Ask("POST", IMAGES, {"model": "picture", "prompt": "a boat", "size": "1024x1024", "user": "u"}),
    Ask(
        "POST",
        films.VIDEOS,
        {"model": "dh-avatar", "avatar": "avt_x", "voice": "voc_x", "text": "t", "title": "t"},
        is_ours=True,
    ),
    Ask(
        "POST",
        films.VIDEOS,
        {"model": "clip-news", "style_id": "tpl-1", "title": "t", "language": "zh"}
        | {"materials": [{"type": "image", "file_url": films.PORTRAIT}]}
        | {"introduce_card": {"name": "n", "description": "d"}, "bgm": {"mode": "auto"}},
        is_ours=True,
    ),
    Ask("GET", sounds.AVATARS),
    Ask("GET", f"{sounds.AVATARS}/presets"),
    Ask("DELETE", f"{sounds.AVATARS}/{{}}"),
    Ask("GET", sounds.TEMPLATES, query=("scene",)),
    Ask("GET", sounds.VOICES),
    Ask("GET", "/v1/logs", query=(*LOGS, *WINDOW, "limit", "include")),
    Ask("GET", "/v1/logs/summary", query=(*WINDOW, "scope", "group_by")),
    Ask("GET", "/v1/logs/{}"),
    Ask("GET", f"{WIKI}/search", query=("q", "kb_id", "limit", "offset")),
    Ask("GET", f"{WIKI}/kbs"),
    Ask("GET", f"{WIKI}/tags?kb_id=otters", query=("kb_id",)),
    Ask("GET", f"{WIKI}/tags/{{}}?kb_id=otters"),
    Ask("GET", f"{WIKI}/pages", query=("ids", "kb_id")),
    *(
        Ask("GET", f"{WIKI}/pages/{{}}{part}?kb_id=otters", identifier="Otters")
        for part in ("", "/backlinks", "/source")
    ),
    tool_call("search_wiki", q="otters"),
    tool_call("read_page", id="Otters"),
    tool_call("read_pages", ids=["Otters"]),
    tool_call("list_by_tag", tag="animals"),
    tool_call("backlinks", id="Otters"),
    tool_call("get_source", id="Otters"),
    Ask("POST", "/v1/embeddings", {"model": "vectors", "input": "Hello", "user": "u"}),
    Ask(
        "POST",
        "/v1/decisions",
        {
            "model": "judge",
            "input": "Hello",
            "questions": [{"type": "predicate", "instructions": "It greets.", "name": "n"}],
        },
    ),
    Ask(
        "POST",
        "/v1beta/models/{}:embedContent",
        {"content": {"parts": [{"text": "Hello"}]}, "title": "t"},
        identifier="vectors",
    ),
    Ask(
        "POST",
        "/v1beta/models/{}:batchEmbedContents",
        {"requests": [{"content": {"parts": [{"text": "Hello"}]}}]},
        identifier="vectors",
    ),
)
HEADERS = (
    *("Authorization", "X-Api-Key", "X-Goog-Api-Key", "Accept", "Accept-Encoding", "Content-Type"),
    *("Idempotency-Key", "Session_id", "Conversation_id", "Anthropic-Version", "Anthropic-Beta"),
    *("Traceparent", "Tracestate", "Range", "If-Range", "User-Agent", "X-Unknown", "Host"),
    *("Mcp-Protocol-Version", "Mcp-Method", "Mcp-Name", "Mcp-Session-Id", "X-Forwarded-For"),
)
# Refused before an endpoint is found: one of each is enough.
HALF_LINE = b"a\xed\xa0\x80b\r\n"
ODD_LINES = (b"X-Unknown: a\0b\r\n", b"X-Unknown: " + MEGABYTE.encode() + b"\r\n")


class Walk:
    """Sends what may be refused and must not fail; every answer is kept until the end."""

    def __init__(self, deployment: Deployment, tenant: Tenant) -> None:
        self._deployment = deployment
        self._keys = [tenant]
        self.failed: list[str] = []

    def send(self, ask: Ask, target: str, body: bytes, header: bytes = b"") -> Response | None:
        """Send a request; another key goes on where the log has been read too often with one."""
        while True:
            head = f"{ask.method} {target} HTTP/1.1\r\nConnection: close\r\n".encode()
            for name, value in (
                ("Host", "gateway"),
                ("Authorization", f"Bearer {self._keys[-1].key}"),
                ("Content-Type", "application/json"),
                ("Accept", "application/json, text/event-stream"),
                ("Content-Length", str(len(body))),
            ):
                if not header.startswith(f"{name}:".encode()):
                    head += f"{name}: {value}\r\n".encode()
            with Connection(self._deployment.gateway.url) as connection:
                connection.send(head + header + b"\r\n" + body)
                try:
                    response = connection.response(has_body=ask.method != "HEAD")
                except Disconnected:
                    return None
            if response.status != 429:
                return response
            self._keys.append(self._deployment.another(self._keys[0]))

    def expect(self, ask: Ask, where: str, response: Response | None, *, refused: bool) -> None:
        """Keep what is not as it must be."""
        status = None if response is None else response.status
        if status is None or status >= 500 or (refused and status not in REFUSED):
            self.failed.append(f"{ask.method} {ask.path} {where}: {status}")


def strings(value: Any, *path: str | int) -> Iterator[tuple[str | int, ...]]:
    """The path of every string within a JSON value."""
    if isinstance(value, str):
        yield path
    elif isinstance(value, dict | list):
        for name, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield from strings(one, *path, name)


def replaced(value: Any, path: tuple[str | int, ...], text: str) -> Any:
    """The same value with this text at the end of the path."""
    if not path:
        return text
    copy = value.copy()
    copy[path[0]] = replaced(value[path[0]], path[1:], text)
    return copy


def test_no_text_from_outside_is_a_fault(h: Deployment, tmp_path: Path) -> None:
    tenant = h.tenant(nano_usd=every_family.USD_EACH)
    bases.imported(h, tenant, tmp_path / "otters", "--kb", "otters")
    walk = Walk(h, tenant)
    for ask in ASKS:
        plain = b"" if ask.body is None else json.dumps(ask.body).encode()
        for part in (*UNFIT_BYTES, "..", "%2E%2E", MEGABYTE) if "{}" in ask.path else ():
            response = walk.send(ask, ask.path.replace("{}", part), plain)
            walk.expect(ask, f"path {part[:20]}", response, refused=part in UNFIT_BYTES)
        for name in ask.query:
            for value in (*UNFIT_BYTES, "%FF", MEGABYTE):
                joint = "&" if "?" in ask.path else "?"
                response = walk.send(ask, f"{ask.target}{joint}{name}={value}", plain)
                walk.expect(ask, f"query {name}={value[:20]}", response, refused=value != "%FF")
        for path in strings(ask.body):
            for text in (NUL, HALF, MEGABYTE):
                body = json.dumps(replaced(ask.body, path, text)).encode()
                response = walk.send(ask, ask.target, body)
                is_ours = (ask.is_ours and path[-1] not in PROSE) or path == ("model",)
                refused = ask.path != "/mcp" and (text == HALF or (text == NUL and is_ours))
                walk.expect(ask, f"member {path} {text[:5]!r}", response, refused=refused)
        for line in (*(f"{name}: ".encode() + HALF_LINE for name in HEADERS), *ODD_LINES):
            response = walk.send(ask, ask.target, plain, line)
            walk.expect(ask, f"header {line[:40]!r}", response, refused=line in ODD_LINES)
    assert not walk.failed, "\n".join(walk.failed)


def test_walk_leaves_out_no_endpoint() -> None:
    walked = {(ask.method, ask.target.partition("?")[0]) for ask in ASKS}
    for endpoint in routes():
        path = endpoint.path
        for method in endpoint.methods:
            assert any(m == method and re.fullmatch(path, t) for m, t in walked), (method, path)
