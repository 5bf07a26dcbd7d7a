"""Upstreams that repeat what they were sent.

Real connections to a real gateway: the channel's credentials, what they turn into, and its host
reach no client, row or line of the log, wherever they are repeated.
"""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import Any
from urllib.parse import parse_qsl, quote, unquote_plus

import pytest

from loadtests.rig.deployment import Deployment, model, shared_deployment
from loadtests.rig.postgres import PostgresForTests
from loadtests.rig.processes import CommandFailed
from loadtests.rig.response import Response
from loadtests.rig.tenants import Tenant
from loadtests.rig.waiting import until
from tests.support.rows import each

pytestmark = pytest.mark.long
# What they repeat is no answer of any protocol.
ODD_UPSTREAMS = True

TOKEN = "token+of/leaky=="
WRITTEN = "written-in-the-file"
APP_SECRET = "secret/of the app"
# Everything of `leaky-cloud` that only its upstream may read.
SECRETS = (TOKEN, WRITTEN, APP_SECRET, "secret%2Fof+the+app")
PROTOCOLS = ["chat", "messages", "responses", "native"]
MEDIA = ["videos", "music", "speech", "voices", "transcripts"]
Reply = Callable[[str, dict[str, Any]], bytes]


class LeakyUpstream:
    """Answers each request with the bytes that `answer` makes of what it repeats, and its body."""

    def __init__(self) -> None:
        self.answer: Reply = lambda message, request: b""
        self.has_tokens = True
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Stop listening."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                peer, _ = self._listener.accept()
                threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer: socket.socket) -> None:
        with peer, suppress(OSError), peer.makefile("rb") as coming:
            while line := coming.readline():
                fields: dict[str, str] = {}
                while (line := coming.readline()) not in (b"\r\n", b""):
                    name, _, value = line.decode().partition(":")
                    fields[name.lower()] = value.strip()
                body = coming.read(int(fields.get("content-length", 0)))
                if b"grant_type" in body:
                    peer.sendall(self._token(body.decode()))
                    continue
                message = f"I am {fields['host']}, you are {key_in(fields)}."
                peer.sendall(self.answer(message, json.loads(body or b"{}")))

    def _token(self, form: str) -> bytes:
        """A token server that repeats the whole form where it hands out none."""
        if self.has_tokens:
            return plain({"access_token": TOKEN, "expires_in": 3600})
        message = f"{form}, that is {', '.join(dict(parse_qsl(form)).values())}"
        return plain({"error": "no", "error_description": message}, status=401)


def key_in(fields: dict[str, str]) -> str:
    """The keys, in whichever header the protocol has them."""
    names = ("authorization", "x-api-key", "x-goog-api-key", "x-team-key")
    return " and ".join(fields[name] for name in names if name in fields)


def plain(value: Any, *, status: int = 200) -> bytes:
    body = json.dumps(value).encode()
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body)


def cloud(channel_id: str, url: str, **more: Any) -> dict[str, Any]:
    """A channel whose tokens come from where it is itself, with a secret in the file."""
    app = {"tenant_id": "t", "client_id": "app", "client_secret": APP_SECRET, "authority": url}
    return {
        "id": channel_id,
        "kind": "azure-openai",
        "base_url": url,
        "auth": "azure-ad",
        "credentials": app,
        "headers": {"X-Team-Key": f"Token {WRITTEN}"},
        "protocols": [*PROTOCOLS, *MEDIA],
        "health": {"failures": 1000},
        **more,
    }


def media_models(channel_id: str) -> list[dict[str, Any]]:
    return [
        model("film", channel_id, endpoint_type="videos_generations", price={"per_second": "0.1"}),
        model(
            "song", channel_id, endpoint_type="music_generations", price={"per_generation": "0.1"}
        ),
        model("tts", channel_id, endpoint_type="audio_speech", price={"per_character": "0.001"}),
        model("clone", channel_id, endpoint_type="audio_voices", price={"per_call": "0.1"}),
        model("script", channel_id, endpoint_type="transcripts_extract", price={"per_call": "0.1"}),
    ]


@pytest.fixture(scope="module")
def leaky() -> Iterator[LeakyUpstream]:
    with closing(LeakyUpstream()) as upstream:
        yield upstream


@pytest.fixture(scope="module")
def shared(postgres: PostgresForTests, leaky: LeakyUpstream) -> Iterator[Deployment]:
    settings: dict[str, Any] = {
        "channels": [
            cloud("leaky-cloud", leaky.url),
            cloud("leaky-closed", leaky.url, protocols=["chat"]),
        ],
        "tasks": {"poll_first": 0.1, "poll_max": 0.3, "lease": 2, "catalog_seconds": 1},
        "models": [
            model("leaky-cloud", "leaky-cloud"),
            model("leaky-closed", "leaky-closed"),
            *media_models("leaky-cloud"),
        ],
    }
    with shared_deployment(postgres, **settings) as built:
        yield built


WHOLE: dict[str, tuple[str, Callable[[str], Any]]] = {
    "chat": (
        "/v1/chat/completions",
        lambda message: {"id": "c", "choices": [{"message": {"content": message}}]},
    ),
    "messages": (
        "/v1/messages",
        lambda message: {"id": "m", "content": [{"type": "text", "text": message}]},
    ),
    "responses": (
        "/v1/responses",
        lambda message: {
            "id": "r",
            "status": "completed",
            "output": [{"type": "message", "content": [{"type": "output_text", "text": message}]}],
        },
    ),
    "native": (
        "/v1beta/models/leaky:generateContent",
        lambda message: {"candidates": [{"content": {"parts": [{"text": message}]}}]},
    ),
}
REQUESTED: dict[str, dict[str, Any]] = {
    "chat": {"messages": [{"role": "user", "content": "Hello"}]},
    "messages": {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 9},
    "responses": {"input": "Hello"},
    "native": {"contents": [{"parts": [{"text": "Hello"}]}]},
}


# An event of an answer, where a whole response is none.
BEGINS: dict[str, dict[str, Any]] = {
    "messages": {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "x"}},
    "responses": {"type": "response.output_text.delta", "delta": "x"},
}


def ask(tenant: Tenant, protocol: str, *, model: str = "leaky-cloud", **more: Any) -> Response:
    named = {} if protocol == "native" else {"model": model}
    body = {**named, **REQUESTED[protocol], **more}
    path = WHOLE[protocol][0].replace("/leaky:", f"/{model}:")
    if more.get("stream") and protocol == "native":
        path, body = path.replace(":generate", ":streamGenerate") + "?alt=sse", REQUESTED[protocol]
    return tenant.client.send("POST", path, body)


def check_untold(shown: str) -> None:
    """None of the secrets, in any spelling, and something was redacted."""
    for spelled in (shown, shown.replace("\\/", "/"), unquote_plus(shown)):
        assert [secret for secret in SECRETS if secret in spelled] == []
    assert "[redacted]" in shown


@each("protocol", WHOLE)
def test_what_credentials_turn_into_is_shown_as_little_as_a_key(
    h: Deployment, tenant: Tenant, leaky: LeakyUpstream, protocol: str
) -> None:
    whole = WHOLE[protocol][1]
    leaky.answer = lambda message, request: plain(
        {**whole(message), "model": message, "modelVersion": message}
    )
    reply = ask(tenant, protocol, model="leaky-cloud")
    assert reply.status == 200
    check_untold(reply.body.decode())
    check_untold(json.dumps(h.row(reply.trace), default=str))

    def halves(message: str, request: dict[str, Any]) -> bytes:
        """A stream whose first event says it, cut in the middle of the token."""
        event = json.dumps({**whole(message), "id": message}).replace("/", "\\/").encode()
        start = event.index(b"token+of") + 5
        answer = json.dumps(BEGINS.get(protocol, {})).encode()
        rest = b"\n\ndata: %b\n\ndata: [DONE]\n\n" % answer
        pieces = (b"data: " + event[:start], event[start:] + rest)
        chunks = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
        return b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%b0\r\n\r\n" % chunks

    leaky.answer = halves
    reply = ask(tenant, protocol, model="leaky-cloud", stream=True)
    assert reply.status == 200
    check_untold(reply.body.decode())
    leaky.answer = lambda message, request: plain({"error": {"message": message}}, status=400)
    reply = ask(tenant, protocol, model="leaky-cloud")
    check_untold(reply.body.decode())
    check_untold(json.dumps(h.row(reply.trace), default=str))


def tasks(message: str, request: dict[str, Any], **end: Any) -> bytes:
    """A media upstream that takes any task, and ends it at the first poll."""
    return plain({"id": "up-1", "status": "queued"} if request else {"id": "up-1", **end})


def ended(tenant: Tenant, path: str, request: dict[str, Any]) -> tuple[Response, Response]:
    """What a task's submit and its last poll are answered."""
    begun = tenant.client.send("POST", path, request)
    assert begun.status == 200, begun
    return begun, until(
        lambda: (
            reply
            if (reply := tenant.client.get(f"{path}/{begun.json['id']}")).json["status"]
            in ("succeeded", "failed")
            else None
        ),
        what="the end of the task",
    )


FILM = {"model": "film", "content": [{"type": "text", "text": "a boat"}], "duration": 4}
SONG = {"model": "song", "prompt": "a song"}
TTS = {"model": "tts", "input": "Hello", "voice": "v", "async": True}


@each(
    "path, request",
    [("/v1/videos/generations", FILM), ("/v1/music/generations", SONG), ("/v1/audio/speech", TTS)],
)
def test_task_tells_nothing(
    h: Deployment, tenant: Tenant, leaky: LeakyUpstream, path: str, request: dict[str, Any]
) -> None:
    link = f"{leaky.url}/made?token={TOKEN}&second={quote(TOKEN, safe='')}"
    made = {"clip_id": "c", "title": TOKEN, "lyrics": WRITTEN, "audio_url": link, "image_url": link}
    ends: list[dict[str, Any]] = [
        {"status": "failed", "error": {"code": f"no {TOKEN}"[:64], "message": WRITTEN}},
        {
            "status": "succeeded",
            **dict.fromkeys(("video_url", "audio_url"), link),
            "output_files": [link, {"url": link, "note": TOKEN}],
            "tracks": [made],
        },
    ]
    for end in ends:
        leaky.answer = lambda message, request, end=end: tasks(message, request, **end)  # type: ignore[misc]
        begun, reply = ended(tenant, path, request)
        assert reply.json["status"] == end["status"]
        check_untold(reply.body.decode())
        check_untold(json.dumps(h.row(begun.trace), default=str))


def test_what_is_made_at_once_and_what_is_listed_tell_nothing(
    h: Deployment, tenant: Tenant, leaky: LeakyUpstream
) -> None:
    leaky.answer = lambda message, request: plain(
        {"text": message, "title": message, "segments": []}
    )
    request = {"model": "script", "url": "https://video.example/1"}
    check_untold(tenant.client.send("POST", "/v1/transcripts/extract", request).body.decode())
    leaky.answer = lambda message, request: plain({"error": {"message": message}}, status=422)
    voice = {"model": "clone", "name": "Me", "audio_url": "https://media.example/a.mp3"}
    for path, body in (("/v1/audio/voices", voice), ("/v1/audio/speech", {**TTS, "async": False})):
        reply = tenant.client.send("POST", path, body)
        assert reply.status == 422
        check_untold(reply.body.decode())
        check_untold(json.dumps(h.row(reply.trace), default=str))
    link = f"{leaky.url}/v.mp3?token={TOKEN}"
    listed = {"id": "v", "name": TOKEN, "language": WRITTEN, "preview_url": link}
    leaky.answer = lambda message, request: plain({"voices": [listed]})
    check_untold(tenant.client.get("/v1/audio/voices").body.decode())


def test_token_server_that_repeats_the_secret_is_quoted_nowhere(
    h: Deployment, tenant: Tenant, leaky: LeakyUpstream, expect_log: Callable[..., None]
) -> None:
    expect_log("credentials_unavailable")
    leaky.has_tokens = False
    try:
        reply = ask(tenant, "chat", model="leaky-closed")
        with pytest.raises(CommandFailed) as probed:
            h.gw("check-config", "--probe")
    finally:
        leaky.has_tokens = True
    assert reply.refusal == (502, "api_error", "upstream_unreachable")
    assert "secret" not in reply.body.decode() + json.dumps(h.row(reply.trace), default=str)
    (line,) = h.events("credentials_unavailable", channel="leaky-closed")
    assert "grant_type" in line["reason"]
    check_untold(json.dumps(line))
    check_untold(json.dumps(probed.value.answer))
    check_untold(h.gateway.log() + "[redacted]")
