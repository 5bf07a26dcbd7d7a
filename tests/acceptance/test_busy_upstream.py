"""An upstream's 429 at every door: its own `Retry-After`, and none of the account's limits.

Whoever reads `x-ratelimit-*` takes the limit for the account's own (reference 1.4).
"""

import json
import re
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest
from websockets.sync.client import connect

from channels.families import CHAT_PROTOCOLS
from channels.translation.paths import TRANSLATIONS
from gw.app import routes
from loadtests.rig.client import HELLO
from loadtests.rig.deployment import Deployment, channel, model, shared_deployment
from loadtests.rig.postgres import PostgresForTests
from loadtests.rig.waiting import PATIENCE_SECONDS
from tests.acceptance import sounds
from tests.acceptance.pictures import picture
from tests.support.forms import TYPE, form, part
from tests.support.rows import each


class _Busy(BaseHTTPRequestHandler):
    """Answers 429 to everything."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", "0")))
        body = b'{"error": {"message": "Slow down, please."}}'
        self.send_response(429)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Retry-After", RETRY_AFTER)
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def busy() -> Iterator[str]:
    """The address of an upstream that is busy."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Busy) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.fixture(scope="module")
def shared(busy: str, postgres: PostgresForTests) -> Iterator[Deployment]:
    """A deployment on the upstream that is busy."""
    channels = [{**one, "base_url": busy} for one in SETTINGS["channels"]]
    with shared_deployment(postgres, **{**SETTINGS, "channels": channels}) as built:
        yield built


_MEDIA = ["images", "speech", "voices", "transcripts", "music", "avatars", "clips", "videos"]
_MEASURED = ["transcriptions", "rerank", "moderations", "embeddings", "decisions"]
SETTINGS: dict[str, Any] = {
    "translations": [row.setting for row in TRANSLATIONS.values()],
    "channels": [
        channel("one", protocols=[*CHAT_PROTOCOLS, *_MEDIA, *_MEASURED]),
        channel("messages", protocols=["messages"]),
    ],
    "models": [
        model("sim-model", "one"),
        model("claude", "messages"),
        picture("picture", "one"),
        model("tts", "one", **sounds.SPOKEN),
        model("clone", "one", **sounds.CLONED),
        model("script", "one", **sounds.WRITTEN),
        model("song", "one", **sounds.SUNG),
        model("avatar-create", "one", **sounds.SHOWN),
        model("film", "one", **sounds.FILMED),
        model("clip-news", "one", **sounds.FILMED),
        model("whisper", "one", endpoint_type="audio_transcriptions", price={"per_call": "0.02"}),
        model("vectors", "one", endpoint_type="embeddings", price={"input": "0.02"}),
        model("judge", "one", endpoint_type="decisions", price={"input": "0.1"}),
        model("guard", "one", endpoint_type="moderations", price={}),
        model("rank", "one", endpoint_type="rerank", price={"per_call": "0.002"}),
    ],
    "tasks": {"catalog_seconds": 0.01},
}
RETRY_AFTER = "1.5"  # no whole number, and still its own
CONTENTS = {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]}
PREDICATE = {"type": "predicate", "instructions": "It is good."}
MESSAGES = {"messages": [HELLO], "max_tokens": 100}
RESPONSES = {"input": [HELLO], "instructions": "Be brief."}
SOUND = part("file", b"RIFF" + bytes(100), "a.wav")
NATIVE = "/v1beta/models/sim-model"

# Method, path and body of each endpoint that asks an upstream.
DOORS: list[tuple[str, str, Any]] = [
    ("POST", "/v1/chat/completions", {"model": "sim-model", "messages": [HELLO]}),
    ("POST", "/v1/chat/completions", {"model": "sim-model", "messages": [HELLO], "stream": True}),
    ("POST", "/v1/chat/completions", {"model": "claude", "messages": [HELLO]}),
    ("POST", "/v1/messages", {"model": "sim-model", **MESSAGES}),
    ("POST", "/v1/messages", {"model": "sim-model", "stream": True, **MESSAGES}),
    ("POST", "/v1/messages/count_tokens", {"model": "sim-model", "messages": [HELLO]}),
    ("POST", "/v1/responses", {"model": "sim-model", **RESPONSES}),
    ("POST", "/v1/responses/compact", {"model": "sim-model", **RESPONSES}),
    ("POST", "/v1/responses/input_tokens", {"model": "sim-model", **RESPONSES}),
    ("POST", f"{NATIVE}:generateContent", CONTENTS),
    ("POST", f"{NATIVE}:streamGenerateContent?alt=sse", CONTENTS),
    ("POST", f"{NATIVE}:countTokens", CONTENTS),
    ("POST", "/v1beta/models/claude:generateContent", CONTENTS),
    ("POST", "/v1/images/generations", {"model": "picture", "prompt": "a boat"}),
    (
        "POST",
        "/v1/images/edits",
        form(part("model", b"picture"), part("prompt", b"a"), part("image", b"png", "a.png")),
    ),
    *(("POST", path, body) for path, body in sounds.SUBMITS.values()),
    ("POST", "/v1/audio/transcriptions", form(part("model", b"whisper"), SOUND)),
    ("POST", "/v1/rerank", {"model": "rank", "query": "dams", "documents": ["a"]}),
    ("POST", "/v1/moderations", {"input": "peace"}),
    ("POST", "/v1/embeddings", {"model": "vectors", "input": "peace"}),
    ("POST", "/v1/decisions", {"model": "judge", "input": "peace", "questions": [PREDICATE]}),
    ("POST", "/v1beta/models/vectors:embedContent", {"content": {"parts": [{"text": "a"}]}}),
    ("GET", "/v1/audio/voices", None),
    ("GET", "/v1/videos/avatars/presets", None),
    ("GET", "/v1/videos/clip-templates", None),
    ("GET", "/v1/videos/clip-templates/tpl-1", None),
]
# Routes that ask no upstream, or pass no answer of its on to a client.
OWN = {
    *("models", "model", "native_models", "native_model", "public_catalog"),
    *("key_balance", "billing_subscription", "billing_usage", "logs", "log_detail", "logs_summary"),
    "budgets",
    *("video", "music_task", "speech_task", "avatar", "video_content", "media_file", "mcp"),
    *("wiki_search", "wiki_kbs", "wiki_tags", "wiki_tag", "wiki_pages", "wiki_page"),
    *("wiki_backlinks", "wiki_source", "wiki_download", "openapi"),
}


@each("method, path, body", DOORS)
def test_busy_upstreams_answer_names_no_limit_of_the_account(
    h: Deployment, method: str, path: str, body: Any
) -> None:
    tenant = h.tenant(rpm=1000, concurrency=10)
    headers = {"Content-Type": TYPE} if isinstance(body, bytes) else {}
    reply = tenant.client.send(method, path, body, headers=headers)
    assert reply.status == 429, reply
    assert reply.headers.get("retry-after") == RETRY_AFTER, reply
    assert not [name for name in reply.headers if name.startswith("x-ratelimit")], reply.headers


def test_busy_upstream_of_a_socket_names_no_limit_of_the_account(h: Deployment) -> None:
    tenant = h.tenant(rpm=1000, concurrency=10)
    url = h.gateway.url.replace("http://", "ws://") + "/v1/responses"
    given = {"Authorization": f"Bearer {tenant.key}"}
    with connect(url, additional_headers=given, open_timeout=PATIENCE_SECONDS, proxy=None) as one:
        one.send(json.dumps({"type": "response.create", "model": "sim-model", **RESPONSES}))
        error = json.loads(one.recv(timeout=PATIENCE_SECONDS))
    assert error["status"] == 429
    assert error["headers"]["retry-after"] == RETRY_AFTER
    assert not [name for name in error["headers"] if name.startswith("x-ratelimit")], error


def test_every_route_is_walked_or_asks_no_upstream() -> None:
    served = {endpoint.route for endpoint in routes()}
    walked = {_route_of(path.partition("?")[0]) for _, path, _ in DOORS}
    assert served - walked == OWN


def _route_of(path: str) -> str:
    return next(endpoint.route for endpoint in routes() if re.fullmatch(endpoint.path, path))
