"""What a translation cannot take along, in the client's words: listed, or refused before any hold.

What only an upstream can judge is forwarded to a channel of the client's own protocol as it came;
a translation, which would have to read it, refuses it. A call may be translated after it was not.
"""

from typing import Any

from loadtests.rig.deployment import Deployment
from loadtests.rig.tenants import Tenant
from tests.acceptance.translated import PATHS, SCHEMA, SETTINGS, chat, chunks, gemini
from tests.support.rows import each

# The deployment of this module.
__all__ = ["SETTINGS"]

HELLO = {"role": "user", "content": "Hello"}
EMPTY = [HELLO, {"role": "assistant", "content": "Hi."}, {"role": "user", "content": ""}]
FUNCTION = {"name": "weather", "parameters": SCHEMA}
ODD_CHAT: list[tuple[dict[str, Any], str]] = [
    ({"tools": [{"type": "function", **FUNCTION}]}, "tools[0].function"),
    ({"messages": [{"role": "user", "content": ["Hello"]}]}, "messages[0].content[0]"),
    ({"messages": EMPTY}, "messages[2].content"),
]


@each("of_model", PATHS)
def test_omitted_maximum_goes_by_the_name_that_the_upstream_wants(
    h: Deployment, of_model: str
) -> None:
    if of_model == "gemini":
        assert chat(h).status == 200
        assert h.upstream.last_body()["generationConfig"]["maxOutputTokens"] == 1000
        return
    assert gemini(h, of_model).status == 200
    wanted = "max_completion_tokens" if of_model == "gpt" else "max_tokens"
    maxima = {
        name: value for name, value in h.upstream.last_body().items() if name.startswith("max_")
    }
    assert maxima == {wanted: 1000}


@each("of_model", PATHS)
def test_what_is_lost_is_listed_and_refused_to_a_strict_client(
    h: Deployment, of_model: str
) -> None:
    strict = {"X-Protocol-Strict": "1"}
    hinted = chat(h, headers=strict, prompt_cache_key="k")
    assert (hinted.status, hinted.headers["x-protocol-warning"]) == (200, "prompt_cache_key")
    h.upstream.reset()
    if of_model == "gemini":
        lost: dict[str, Any] = {"logit_bias": {"5": 1}}
        served, reply = chat(h, **lost), chat(h, headers=strict, **lost)
    else:
        lost = {"safetySettings": [{"category": "HARM"}]}
        served, reply = gemini(h, of_model, **lost), gemini(h, of_model, headers=strict, **lost)
    (name,) = lost
    assert (served.status, served.headers["x-protocol-warning"]) == (200, name)
    assert (reply.status, h.row(reply.trace)["status"]) == (400, "rejected")
    assert name in reply.json["error"]["message"]
    assert h.upstream.stats()["requests"] == 1


def test_translated_attempt_follows_a_passthrough_one_in_one_call(h: Deployment) -> None:
    h.upstream.fault("failing", status=500)
    reply = gemini(h, "both", stream=True)
    assert reply.headers["x-protocol-translation"] == PATHS["gpt"]
    assert chunks(reply)[-1]["candidates"][0]["finishReason"] == "STOP"
    assert h.row(reply.trace)["status"] == "success"
    h.upstream.heal("failing")
    again = gemini(h, "both", stream=True)
    assert "x-protocol-translation" not in again.headers


@each("odd, param", ODD_CHAT)
def test_odd_chat_request_is_forwarded_or_refused_without_a_cost(
    h: Deployment, tenant: Tenant, odd: dict[str, Any], param: str
) -> None:
    body = {"model": "gpt", "messages": [HELLO], "max_completion_tokens": 100, **odd}
    tenant.client.chat(**body)
    assert h.upstream.last_body() == body
    h.upstream.reset()
    before = tenant.client.remaining_nano_usd()
    for of_model in ("claude", "gemini"):
        refusal = tenant.client.chat(**{**body, "model": of_model})
        assert refusal.refusal == (400, "invalid_request_error", "invalid_request")
        assert param in refusal.error["message"]
    assert h.upstream.stats()["requests"] == 0
    assert tenant.client.remaining_nano_usd() == before


def test_odd_gemini_request_is_forwarded_or_refused(h: Deployment) -> None:
    odd: dict[str, Any] = {"contents": {"parts": {"text": "Hello"}}}
    gemini(h, "gemini", generationConfig={"maxOutputTokens": 100}, **odd)
    assert h.upstream.last_body().items() >= odd.items()
    h.upstream.reset()
    refusal = gemini(h, "gpt", generationConfig={"maxOutputTokens": 100}, **odd)
    assert (refusal.status, refusal.json["error"]["status"]) == (400, "INVALID_ARGUMENT")
    assert refusal.json["error"]["message"].startswith("contents")
    assert h.upstream.stats()["requests"] == 0


def test_empty_message_is_written_where_it_can_be(h: Deployment, tenant: Tenant) -> None:
    body = {"model": "gpt", "max_tokens": 200, "messages": EMPTY}
    reply = tenant.client.send("POST", "/v1/messages", body, headers={"x-api-key": tenant.key})
    assert reply.status == 200
    assert h.upstream.last_body()["messages"] == EMPTY
