"""What a channel is sent besides the body: its own key, a few headers, none of the client's."""

import json
from typing import Any

from gw.api.chat.provider_headers import (
    PROVIDER_HEADERS_MAX,
    PROVIDER_NAME_CHARACTERS_MAX,
    PROVIDER_VALUE_CHARACTERS_MAX,
)
from loadtests.rig.client import HELLO
from loadtests.rig.deployment import Deployment
from loadtests.rig.response import Response
from loadtests.rig.tenants import Tenant
from loadtests.rig.upstream import key_of
from tests.acceptance.translated import CHANNELS, SETTINGS
from tests.support.rows import each

# The deployment of this module.
__all__ = ["SETTINGS"]

GEMINI_BODY = {"contents": [{"role": "user", "parts": [{"text": "Hello"}]}]}
BODIES: dict[str, Any] = {
    "/v1/chat/completions": {"messages": [HELLO]},
    "/v1/messages": {"messages": [HELLO], "max_tokens": 100},
    "/v1/responses": {"input": "Hello", "instructions": "Be brief."},
}
# Path and model: each protocol on its own kind of channel, then each translation.
CALLS = [
    ("/v1/chat/completions", "gpt"),
    ("/v1/messages", "claude"),
    ("/v1/responses", "codex"),
    ("native", "gemini"),
    ("/v1/chat/completions", "claude"),
    ("/v1/chat/completions", "gemini"),
    ("/v1/messages", "gpt"),
    ("native", "gpt"),
    ("native", "claude"),
]
KEY_HEADERS = {"claude": "x-api-key", "gemini": "x-goog-api-key"}
# What the official libraries send along, and what a browser or a proxy might.
INJECTED = {
    "User-Agent": "Anthropic/Python 2.12.0",
    "X-Stainless-Lang": "python",
    "x-goog-api-client": "google-genai-sdk/3.4.0",
    "x-goog-user-project": "project-of-the-client",
    "x-server-timeout": "60",
    "OpenAI-Organization": "org-of-the-client",
    "Cookie": "session=of-the-client",
    "X-Forwarded-For": "192.0.2.7",
    "anthropic-beta": "interleaved-thinking-2025-05-14,context-1m-2025-08-07",
}
EXPECTED = {
    *("host", "user-agent", "accept", "accept-encoding", "content-type", "content-length"),
    *("authorization", "x-api-key", "x-goog-api-key", "anthropic-version", "anthropic-beta"),
}


def post(tenant: Tenant, path: str, of_model: str, headers: dict[str, str]) -> Response:
    if path == "native":
        path = f"/v1beta/models/{of_model}:generateContent?key={tenant.key}"
        return tenant.client.send("POST", path, GEMINI_BODY, headers=headers)
    body = {"model": of_model, **BODIES[path]}
    return tenant.client.send("POST", f"{path}?key={tenant.key}&beta=true", body, headers=headers)


@each("path, of_model", CALLS)
def test_channel_gets_its_own_key_and_none_of_the_clients_headers(
    h: Deployment, tenant: Tenant, path: str, of_model: str
) -> None:
    keys = {"x-api-key": tenant.key, "x-goog-api-key": tenant.key, "x-alt-api-key": tenant.key}
    reply = post(tenant, path, of_model, {**INJECTED, **keys})
    assert reply.status == 200
    got = h.upstream.last_request()
    assert tenant.key not in json.dumps(got)
    headers = {name.lower(): value for name, value in got["headers"].items()}
    assert headers.keys() <= EXPECTED, headers.keys() - EXPECTED
    of_client = {value for name, value in INJECTED.items() if name != "anthropic-beta"}
    assert of_client.isdisjoint(headers.values())
    expected = key_of(CHANNELS[of_model])
    found = headers[KEY_HEADERS.get(of_model, "authorization")]
    assert found == (expected if of_model in KEY_HEADERS else f"Bearer {expected}")
    is_gemini_messages = (path, of_model) == ("/v1/messages", "claude")
    assert headers.get("anthropic-beta") == (
        INJECTED["anthropic-beta"] if is_gemini_messages else None
    )
    # To a client of messages it is said that a translation has no place for it.
    is_lost = (path, of_model) == ("/v1/messages", "gpt")
    assert ("anthropic-beta" in reply.headers.get("x-protocol-warning", "")) is is_lost


def test_beta_header_that_is_no_list_of_names_is_refused(h: Deployment, tenant: Tenant) -> None:
    for value in ("x" * 3000, "caf\xe9"):
        reply = post(tenant, "/v1/messages", "claude", {"anthropic-beta": value})
        assert reply.status == 400
        assert reply.json["type"] == "error"
        assert "anthropic-beta" in reply.json["error"]["message"]
    assert h.upstream.stats()["requests"] == 0


# What a client sends -> whether a channel of its own protocol gets it.
PROVIDERS: dict[str, dict[str, tuple[str, bool]]] = {
    "claude": {
        "anthropic-beta": ("one, two", True),
        "anthropic-feature-of-tomorrow": ("on", True),
        "anthropic-workspace-id": ("wrkspc_of-the-client", False),
        "anthropic-api-key": ("sk-of-the-client", False),
        "anthropic-dangerous-direct-browser-access": ("true", False),
        "anthropic-hop": ("by-hop", False),
        "openai-beta": ("responses=v1", False),
    },
    "codex": {
        "openai-beta": ("responses=v1", True),
        "openai-organization": ("org-of-the-client", False),
        "openai-project": ("proj-of-the-client", False),
        "anthropic-beta": ("one", False),
        "x-stainless-arch": ("x64", False),
    },
    "gpt": {"openai-beta": ("assistants=v2", True), "anthropic-beta": ("one", False)},
    "gemini": {"x-goog-user-project": ("of-the-client", False), "openai-beta": ("a", False)},
}
PATHS = {
    "claude": "/v1/messages",
    "codex": "/v1/responses",
    "gpt": "/v1/chat/completions",
    "gemini": "native",
}


@each("of_model", PROVIDERS)
def test_headers_of_a_provider_reach_channels_of_its_protocol(
    h: Deployment, tenant: Tenant, of_model: str
) -> None:
    sent = {name: value for name, (value, _) in PROVIDERS[of_model].items()}
    hop = {"Connection": "keep-alive, Anthropic-Hop"}
    reply = post(tenant, PATHS[of_model], of_model, {**sent, **hop})
    assert reply.status == 200, reply.json
    got = {name.lower(): value for name, value in h.upstream.last_request()["headers"].items()}
    passed = {name for name, (value, _) in PROVIDERS[of_model].items() if got.get(name) == value}
    assert passed == {name for name, (_, is_passed) in PROVIDERS[of_model].items() if is_passed}
    assert got.keys() <= EXPECTED | passed


def test_headers_of_a_provider_are_named_where_a_translation_loses_them(
    h: Deployment, tenant: Tenant
) -> None:
    reply = post(tenant, "/v1/messages", "gpt", {"anthropic-tomorrow": "on"})
    assert reply.headers["x-protocol-warning"] == "anthropic-tomorrow"
    strict = {"anthropic-tomorrow": "on", "X-Protocol-Strict": "1"}
    assert post(tenant, "/v1/messages", "gpt", strict).status == 400


TOO_MUCH: dict[str, dict[str, str]] = {
    "headers": {f"anthropic-{n}": "x" for n in range(PROVIDER_HEADERS_MAX + 1)},
    "name": {"anthropic-" + "n" * PROVIDER_NAME_CHARACTERS_MAX: "x"},
    "characters": {f"anthropic-{n}": "x" * PROVIDER_VALUE_CHARACTERS_MAX for n in range(5)},
}


@each("headers", TOO_MUCH.values())
def test_headers_of_a_provider_have_bounds(h: Deployment, headers: dict[str, str]) -> None:
    h.upstream.reset()
    tenant = h.tenant()
    reply = post(tenant, "/v1/messages", "claude", headers)
    assert (reply.status, reply.json["type"]) == (400, "error")
    assert "anthropic-*" in reply.json["error"]["message"]
    assert h.upstream.stats()["requests"] == 0
    fewer = {f"anthropic-{n}": "x" for n in range(PROVIDER_HEADERS_MAX)}
    assert post(tenant, "/v1/messages", "claude", fewer).status == 200
