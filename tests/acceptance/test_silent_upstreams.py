"""A client is told that its stream goes on while the upstream is silent, before its head if wanted.

Comments on a timer, `ping` on messages, an empty line on native-content, whose Python library takes
a comment for JSON. The official libraries read on as if nothing had come.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from loadtests.rig.deployment import Deployment, deployment
from loadtests.rig.postgres import PostgresForTests
from loadtests.rig.tenants import Tenant
from loadtests.rig.waiting import until
from tests.acceptance.test_cut_streams import (
    anthropic_messages,
    google_native,
    openai_chat,
    openai_responses,
    opened,
    received,
)
from tests.acceptance.translated import SETTINGS as TRANSLATED
from tests.acceptance.translated import direct

pytestmark = pytest.mark.long

SETTINGS: dict[str, Any] = {**TRANSLATED, "keep_alive_seconds": 1}
SIGNS = {
    "chat": b": keep-alive\n\n",
    "messages": b"event: ping\n",
    "responses": b": keep-alive\n\n",
    "native": b"\r\n\n\r\n",  # a chunk
}
MODELS = {"chat": "gpt", "messages": "claude", "responses": "codex", "native": "gemini"}


def through_silence(h: Deployment, key: str, protocol: str, model: str, **silence: Any) -> bytes:
    """All bytes of a stream whose upstream goes on once its client had two signs of life."""
    direct(h, model, events=9, **silence)
    sock, data = opened(h, key, protocol, model), b""
    while data.count(SIGNS[protocol]) < 2:
        piece = sock.recv(65536)
        assert piece, data
        data += piece
    h.upstream.resume()
    while not data.endswith(b"0\r\n\r\n"):
        piece = sock.recv(65536)
        assert piece, data
        data += piece
    sock.close()
    return data


@pytest.mark.parametrize("model", ["native", "translated"])
@pytest.mark.parametrize("protocol", SIGNS)
def test_silence_between_two_events_is_filled(
    h: Deployment, tenant: Tenant, protocol: str, model: str
) -> None:
    name = MODELS[protocol]
    if model == "translated":
        name = "gpt" if protocol != "chat" else "claude"
    through_silence(h, tenant.key, protocol, name, pause=6)
    (row,) = until(lambda: h.rows(tenant), what="the row")
    assert (row["status"], row["output_tokens"]) == ("success", 9)


LIBRARIES: dict[str, Callable[[Deployment, str, str], Iterator[Any]]] = {
    "chat": openai_chat,
    "responses": openai_responses,
    "messages": anthropic_messages,
    "native": google_native,
}


@pytest.mark.parametrize("protocol", LIBRARIES)
def test_official_library_reads_on(h: Deployment, tenant: Tenant, protocol: str) -> None:
    model, ask = MODELS[protocol], LIBRARIES[protocol]
    direct(h, model, events=4, delay_event_ms=1300)
    assert len(list(ask(h, tenant.key, model))) >= 4


@pytest.fixture
def early(postgres: PostgresForTests, tmp_path: Path) -> Iterator[Deployment]:
    settings = {**SETTINGS, "keep_alive_before_first_event": True}
    with postgres.database() as url, deployment(url, tmp_path, **settings) as h:
        yield h


def test_head_may_be_sent_before_the_first_event_and_gives_up_other_channels(
    early: Deployment,
) -> None:
    h, tenant = early, early.tenant()
    for protocol, model in MODELS.items():
        through_silence(h, tenant.key, protocol, model, pause="headers")
    through_silence(h, tenant.key, "messages", "gpt", pause="headers")
    until(lambda: len(h.rows(tenant)) == 5, what="the rows")
    assert {row["status"] for row in h.rows(tenant)} == {"success"}
    # `both` has a next channel, which is not asked: the client has its head.
    h.upstream.fault("failing", status=500, pause="headers")
    sock = opened(h, tenant.key, "native", "both")
    head = sock.recv(65536)
    assert head.startswith(b"HTTP/1.1 200 ")
    h.upstream.resume()
    data, is_reset = received(sock)
    assert not data.endswith(b"0\r\n\r\n")
    assert not is_reset
    assert h.upstream.requested("failing", "next") == [1, 0]
    until(lambda: len(h.rows(tenant)) == 6, what="its row")
    assert h.held_nano_usd(tenant) == 0


def test_without_the_option_nothing_is_sent_before_the_first_event(
    h: Deployment, tenant: Tenant
) -> None:
    h.upstream.fault("failing", status=500, delay_headers_ms=2500)
    sock = opened(h, tenant.key, "native", "both")
    head = sock.recv(65536)
    assert h.upstream.requested("failing", "next") == [1, 1]
    assert head.startswith(b"HTTP/1.1 200 ")
    sock.close()
