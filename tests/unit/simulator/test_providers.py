"""A port that plays one provider: its paths, keys, models, situations; and nobody else's."""

import json
from typing import Any

import pytest

from channels.dialects.base_resp import status_in
from channels.dialects.error_body import error_members
from channels.key_ring import ASIDE_SECONDS, KEY_REFUSALS, KeyRing, KnownRefusals
from channels.kinds import KINDS
from loadtests.rig.response import Response
from loadtests.simulator.providers.table import ANYBODY, PROVIDERS, Failure, Provider
from loadtests.simulator.server import Simulator
from tests.support.rows import cases, each
from tests.unit.simulator.client import call

CHAT = "/openai/v1/chat/completions"
GROQ = PROVIDERS["groq"]


async def ask(path: str, body: Any = None, *, key: str = "k", **sim: Any) -> Response:
    """One request to a port that plays Groq; a standing directive is everybody's."""
    async with Simulator() as simulator:
        port = await simulator.open_port(provider="groq")
        if sim:
            simulator.put_faults(sim)
        result = Simulator(port=port)
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        return await call(result, "POST" if body is not None else "GET", path, body, **headers)


def hello(model: str = GROQ.models[0], **more: Any) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": "Hello"}], **more}


@cases(
    "path, header, expected",
    ("/v1/models", {"Authorization": "Bearer k"}, 200),
    ("/v1/models", {"x-api-key": "k", "anthropic-version": "2023-06-01"}, 200),
    ("/v1beta/models", {"x-goog-api-key": "k"}, 200),
    ("/v1/models", {"Authorization": "Bearer wrong-k"}, 401),
    ("/v1beta/models", {"Authorization": "Bearer k"}, 404),
)
async def test_a_port_that_plays_nobody_lists_its_models_in_the_form_of_the_key(
    path: str, header: dict[str, str], expected: int
) -> None:
    async with Simulator(models=["a", "b"]) as simulator:
        reply = await call(simulator, "GET", path, None, **header)
        assert reply.status == expected
        simulator.put_faults({"status": 503})
        failing = await call(simulator, "GET", path, None, **header)
    if expected == 200:
        listed = reply.json.get("data") or reply.json["models"]
        assert [one.get("id", one.get("name")).removeprefix("models/") for one in listed] == [
            "a",
            "b",
        ]
        assert failing.status == 503


async def test_situation_that_nobody_has_is_refused() -> None:
    assert (await ask(CHAT, hello(), situation="eclipse")).status == 400
    async with Simulator() as simulator:
        simulator.put_faults({"situation": "rate_limited"})
        plain = await call(
            simulator, "POST", "/v1/chat/completions", hello("any"), Authorization="Bearer k"
        )
    assert plain.status == 400
    assert "plays none" in plain.json["error"]["message"]


@each("provider", PROVIDERS.values())
def test_row_says_where_its_facts_are_from(provider: Any) -> None:
    assert provider.sources
    ours = ("ops/", "gw/") if provider.name == "gateway" else ()
    assert all(page.startswith(("https://", *ours)) for page in provider.sources.values())
    for face in provider.faces:
        usual = {"bad_key", "server_error", *(() if ANYBODY in face.keys else ("rate_limited",))}
        assert usual <= face.failures.keys()


NO_CREDIT = [
    pytest.param(provider, face.failures[situation], id=f"{provider.name}-{face.dialect.name}")
    for provider in PROVIDERS.values()
    for face in provider.faces
    for situation in ("no_credit", "no_credit_within")
    if situation in face.failures
]


@each("provider, failure", NO_CREDIT)
def test_account_without_credit_has_its_key_set_aside(provider: Provider, failure: Failure) -> None:
    """Whatever status its provider has for that."""
    kind = KINDS[provider.name]
    known = KnownRefusals(kind.key_refusals, kind.request_refusals)
    (key,) = KeyRing("k", known=known).keys
    status = status_in(failure.body) if failure.status == 200 else failure.status
    members = error_members(json.dumps(failure.body).encode())
    assert status in KEY_REFUSALS or key.seconds_aside(status, members) == ASIDE_SECONDS
