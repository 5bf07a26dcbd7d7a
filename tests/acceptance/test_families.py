"""Every cell of the compatibility matrix, as a client meets it on the example's configuration.

The channels are the example's, pointed at the simulator; what a cell must be is the
specification's table, not the gateway's own idea of it (spec: Protocol compatibility).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.client import NANO_PER_USD, Reply
from tests.support.covering import covering
from tests.support.house import House
from tests.support.tenants import Tenant
from tests.support.upstream import key_of

EXAMPLE = yaml.safe_load(
    (Path(__file__).parents[2] / "ops/examples/families.yaml").read_text(encoding="utf-8")
)
SETTINGS: dict[str, Any] = {
    "translations": EXAMPLE["translations"],
    "channels": [
        {name: value for name, value in one.items() if name != "base_url"}
        | {"api_key": key_of(one["id"]), "health": {"failures": 1000}}
        for one in EXAMPLE["channels"]
    ],
    "models": EXAMPLE["models"],
}

T1 = "openai_chat_to_anthropic_messages"
T2 = "openai_chat_to_gemini_native"
PROTOCOLS = ("chat", "messages", "responses", "native")
# Channel of the family: chat, messages, responses, native.
SPECIFIED = {
    "gpt": ("native", "native", "native", None),
    "claude": (T1, "native", "native", None),
    "gemini": (T2, "native", "native", "native"),
    "gemini-image": (T2, None, None, "native"),
    "trial-pool": (T1, "native", None, None),
    "glm-pool": ("native", "native", "native", "native"),
    "vendors": ("native", None, None, None),
    "dedicated": ("native", None, None, None),
    "doubao": ("native", None, None, None),
    "grok": ("native", None, None, None),
}
SPOKEN = {T1: "messages", T2: "native"}
REFUSED = {
    "chat": {"type": "server_error", "code": "no_channel_available"},
    "messages": {"type": "overloaded_error"},
    "responses": {"type": "server_error", "code": "no_channel_available"},
    "native": {"code": 503, "status": "UNAVAILABLE"},
}
UNKNOWN = {
    "chat": {"type": "invalid_request_error", "code": "model_not_found"},
    "messages": {"type": "not_found_error"},
    "responses": {"type": "invalid_request_error", "code": "model_not_found"},
    "native": {"code": 400, "status": "NOT_FOUND"},
}
CATALOG = dict(
    zip(PROTOCOLS, ("chat_completions", "messages", "responses", "native_content"), strict=True)
)
SAID = "Good day"


@dataclass(frozen=True)
class Cell:
    """One model on one protocol, and what is to come of it."""

    model: str
    channel: str
    protocol: str
    expected: str | None

    def __str__(self) -> str:
        return f"{self.model}-{self.protocol}"


def cells() -> list[Cell]:
    found = []
    for one in EXAMPLE["models"]:
        (bound,) = one["channels"]
        channel = bound if isinstance(bound, str) else bound["id"]
        for protocol, expected in zip(PROTOCOLS, SPECIFIED[channel], strict=True):
            found.append(Cell(one["id"], channel, protocol, expected))
    return found


def ask(tenant: Tenant, cell: Cell, *, stream: bool) -> Reply:
    said = f'[[sim {{"text": "{SAID}"}}]] Hello'
    user = {"role": "user", "content": said}
    common = {"model": cell.model, "stream": stream}
    if cell.protocol == "native":
        verb = "streamGenerateContent?alt=sse" if stream else "generateContent"
        body: dict[str, Any] = {"contents": [{"role": "user", "parts": [{"text": said}]}]}
        return tenant.client.send("POST", f"/v1beta/models/{cell.model}:{verb}", body)
    if cell.protocol == "responses":
        body = common | {"input": [user], "instructions": "Be brief."}
        return tenant.client.send("POST", "/v1/responses", body)
    body = common | {"messages": [user], "max_tokens": 200}
    path = "/v1/chat/completions" if cell.protocol == "chat" else "/v1/messages"
    return tenant.client.send("POST", path, body)


def test_every_family_and_channel_of_the_example_is_walked() -> None:
    assert {cell.channel for cell in cells()} == set(SPECIFIED)
    assert {one["id"] for one in EXAMPLE["channels"]} == set(SPECIFIED)
    assert EXAMPLE["translations"] == ["chat_to_messages", "chat_to_native"]


# Models of one channel are alike; each is asked for once.
WALKED = covering(
    [(cell, stream) for cell in cells() for stream in (False, True)],
    lambda row: (row[0].channel, row[0].protocol),
    lambda row: (row[0].protocol, row[0].expected, row[1]),
    lambda row: row[0].model,
)


@pytest.mark.parametrize(("cell", "stream"), WALKED, ids=str)
def test_cell_is_as_specified(h: House, walker: Tenant, cell: Cell, stream: bool) -> None:
    reply = ask(walker, cell, stream=stream)
    translation = reply.headers.get("x-protocol-translation")
    if cell.expected is None:
        assert reply.status == 503, reply
        error = reply.json["error"]
        assert error.pop("message")
        assert error == REFUSED[cell.protocol]
        assert translation is None
        assert h.upstream.stats()["requests"] == 0
        return
    assert reply.status == 200, reply
    sent = h.upstream.last_request()
    if cell.expected == "native":
        assert translation is None
        assert sent["protocol"] == cell.protocol
    else:
        assert translation == cell.expected
        assert sent["protocol"] == SPOKEN[cell.expected]
    assert "x-protocol-warning" not in reply.headers
    assert sent["api_key"] == key_of(cell.channel)
    whole = reply.body.decode()
    if stream:
        assert reply.headers["content-type"].startswith("text/event-stream")
    else:
        assert SAID in whole


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_model_that_is_not_there_is_another_matter(h: House, walker: Tenant, protocol: str) -> None:
    reply = ask(walker, Cell("no-such-model", "", protocol, None), stream=False)
    assert reply.status == 400
    error = reply.json["error"]
    assert "no-such-model" in error.pop("message")
    assert error == UNKNOWN[protocol]


@pytest.fixture(scope="module")
def walker(shared: House) -> Tenant:
    return shared.tenant(nano_usd=100 * NANO_PER_USD)


def test_public_catalog_lists_the_passthrough_cells_alone(h: House, walker: Tenant) -> None:
    listed = {
        one["id"]: one["supported_protocols"]
        for one in walker.client.get("/api/v1/models/public").json["models"]
    }
    gemini: dict[str, list[str]] = {one["id"]: [] for one in EXAMPLE["models"]}
    for cell in cells():
        if cell.expected == "native":
            gemini[cell.model].append(CATALOG[cell.protocol])
    assert listed == gemini
