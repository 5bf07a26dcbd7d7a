"""Upstreams that repeat what they were sent, and upstreams that answer once too often.

Real connections to a real gateway: the channel's key and host reach no client, wherever they are
repeated, and nobody is given an answer that was meant for nobody.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import Any

import pytest

from tests.acceptance.pictures import generate, picture
from tests.support.client import Reply
from tests.support.house import House, channel, model, shared_house
from tests.support.postgres import PostgresForTests
from tests.support.tenants import Tenant

pytestmark = pytest.mark.long

KEY = "key-of-leaky"
SECRET = "GW_TEST_SECOND_SECRET"
PROTOCOLS = ["chat", "messages", "responses", "native", "images"]
Answer = Callable[[str, dict[str, Any]], bytes]


class LeakyUpstream:
    """Answers each request with the bytes that `answer` makes of what it repeats, and its body."""

    def __init__(self) -> None:
        self.answer: Answer = lambda said, asked: b""
        self.connections = 0
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
                self.connections += 1
                threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer: socket.socket) -> None:
        with peer, suppress(OSError), peer.makefile("rb") as coming:
            while line := coming.readline():
                fields: dict[str, str] = {}
                while (line := coming.readline()) not in (b"\r\n", b""):
                    name, _, value = line.decode().partition(":")
                    fields[name.lower()] = value.strip()
                asked = json.loads(coming.read(int(fields["content-length"])))
                said = f"I am {fields['host']}, you are {key_in(fields)}."
                peer.sendall(self.answer(said, asked))


def key_in(fields: dict[str, str]) -> str:
    """The key, in whichever header the protocol has it."""
    names = ("x-second-secret", "authorization", "x-api-key", "x-goog-api-key")
    return next(fields[name] for name in names if name in fields)


def plain(value: Any, *, status: int = 200) -> bytes:
    body = json.dumps(value).encode()
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body)


def stream(*events: Any) -> bytes:
    body = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body)


@pytest.fixture(scope="module")
def leaky() -> Iterator[LeakyUpstream]:
    with closing(LeakyUpstream()) as upstream:
        yield upstream


@pytest.fixture(scope="module")
def shared(postgres: PostgresForTests, leaky: LeakyUpstream) -> Iterator[House]:
    settings: dict[str, Any] = {
        "channels": [
            channel("leaky", base_url=leaky.url, protocols=PROTOCOLS),
            channel("leaky-chat", base_url=leaky.url, api_key=KEY),
            channel(
                "leaky-header",
                base_url=f"{leaky.url}/prefix",
                headers={"X-Second-Secret": f"Token ${{{SECRET}}}"},
                protocols=PROTOCOLS,
            ),
        ],
        "models": [
            model("leaky-header", "leaky-header"),
            model("leaky", "leaky"),
            model("leaky-chat", "leaky-chat"),
            picture("leaky-picture", "leaky"),
        ],
        "translations": ["chat_to_messages", "chat_to_native", "messages_to_chat"],
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(SECRET, KEY)
        with shared_house(postgres, **settings) as built:
            yield built


def check(h: House, reply: Reply, leaky: LeakyUpstream) -> None:
    """Nothing is told, and something was to be masked."""
    host = leaky.url.removeprefix("http://")
    for shown in (reply.body.decode(), json.dumps(h.row(reply.trace), default=str)):
        assert KEY not in shown
        assert host not in shown
    assert "[redacted]" in reply.body.decode()
    assert "[host]" in reply.body.decode()


WHOLE: dict[str, tuple[str, Callable[[str], Any]]] = {
    "chat": (
        "/v1/chat/completions",
        lambda said: {"id": "c", "choices": [{"message": {"content": said}}]},
    ),
    "messages": (
        "/v1/messages",
        lambda said: {"id": "m", "content": [{"type": "text", "text": said}]},
    ),
    "responses": (
        "/v1/responses",
        lambda said: {
            "id": "r",
            "status": "completed",
            "output": [{"type": "message", "content": [{"type": "output_text", "text": said}]}],
        },
    ),
    "native": (
        "/v1beta/models/leaky:generateContent",
        lambda said: {"candidates": [{"content": {"parts": [{"text": said}]}}]},
    ),
}
ASKED: dict[str, dict[str, Any]] = {
    "chat": {"messages": [{"role": "user", "content": "Hello"}]},
    "messages": {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 9},
    "responses": {"input": "Hello"},
    "native": {"contents": [{"parts": [{"text": "Hello"}]}]},
}


def ask(tenant: Tenant, protocol: str, *, model: str = "leaky", **more: Any) -> Reply:
    named = {} if protocol == "native" else {"model": model}
    body = {**named, **ASKED[protocol], **more}
    path = WHOLE[protocol][0]
    if more.get("stream") and protocol == "native":
        path, body = path.replace(":generate", ":streamGenerate") + "?alt=sse", ASKED[protocol]
    return tenant.client.send("POST", path, body)


@pytest.mark.parametrize("protocol", WHOLE)
def test_whole_answer_tells_nothing(
    h: House, tenant: Tenant, leaky: LeakyUpstream, protocol: str
) -> None:
    leaky.answer = lambda said, asked: plain(WHOLE[protocol][1](said))
    reply = ask(tenant, protocol)
    assert reply.status == 200
    check(h, reply, leaky)


def test_translated_answer_tells_nothing(h: House, tenant: Tenant, leaky: LeakyUpstream) -> None:
    leaky.answer = lambda said, asked: plain(WHOLE["chat"][1](said))
    reply = ask(tenant, "messages", model="leaky-chat")
    assert reply.status == 200
    assert "x-protocol-translation" in reply.headers
    check(h, reply, leaky)


def test_secret_of_a_header_is_told_as_little_as_the_key(
    h: House, tenant: Tenant, leaky: LeakyUpstream
) -> None:
    leaky.answer = lambda said, asked: plain(WHOLE["chat"][1](said))
    reply = ask(tenant, "chat", model="leaky-header")
    assert "you are Token [redacted]." in reply.body.decode()
    check(h, reply, leaky)
    end = {"choices": [{"delta": {}, "finish_reason": "stop"}]}
    leaky.answer = lambda said, asked: stream({"choices": [{"delta": {"content": said}}]}, end)
    shown = ask(tenant, "chat", model="leaky-header", stream=True).body.decode()
    assert "you are Token [redacted]." in shown
    leaky.answer = lambda said, asked: plain({"error": {"message": said}}, status=400)
    check(h, ask(tenant, "chat", model="leaky-header"), leaky)


@pytest.mark.parametrize("protocol", WHOLE)
def test_error_event_tells_nothing(
    h: House, tenant: Tenant, leaky: LeakyUpstream, protocol: str
) -> None:
    leaky.answer = lambda said, asked: stream({"type": "error", "error": {"message": said}})
    reply = ask(tenant, protocol, stream=True)
    assert reply.status == 200
    check(h, reply, leaky)


def test_images_and_errors_tell_nothing(h: House, tenant: Tenant, leaky: LeakyUpstream) -> None:
    link = f"{leaky.url}/1.png"
    leaky.answer = lambda said, asked: plain({"data": [{"url": link, "revised_prompt": said}]})
    reply = generate(tenant.client, model="leaky-picture")
    assert reply.json["data"][0]["url"] == link  # which was paid for
    assert reply.json["data"][0]["revised_prompt"].startswith("I am [host]:")
    assert KEY not in reply.body.decode()
    leaky.answer = lambda said, asked: plain({"error": {"message": said}}, status=400)
    reply = generate(tenant.client, model="leaky-picture")
    assert reply.status == 400
    check(h, reply, leaky)


STOLEN = plain({"id": "x", "choices": [{"message": {"content": "stolen"}}]})


@pytest.mark.parametrize("unasked", [STOLEN, STOLEN[:25], STOLEN * 3], ids=["one", "half", "three"])
def test_answer_that_nobody_has_asked_for_is_nobodys(
    tenant: Tenant, leaky: LeakyUpstream, unasked: bytes
) -> None:
    def answer(said: str, asked: dict[str, Any]) -> bytes:
        return plain(WHOLE["chat"][1](asked["messages"][0]["content"])) + unasked

    leaky.answer = answer
    before = leaky.connections
    for number in range(20):
        asked = [{"role": "user", "content": f"question {number}"}]
        reply = tenant.client.chat(model="leaky-chat", messages=asked)
        assert reply.json["choices"][0]["message"]["content"] == f"question {number}"
    assert leaky.connections - before >= 19  # the first may have been left by another test
