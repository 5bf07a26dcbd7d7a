"""Translations with native-content on either end: limits, refusals, what is lost, failover."""

from __future__ import annotations

import json

import pytest

from tests.acceptance.translated import PATHS, SETTINGS, chat, chunks, gemini, sent, told_to
from tests.support.house import House

pytestmark = pytest.mark.long

# The house of this module.
__all__ = ["SETTINGS"]


@pytest.mark.parametrize("of_model", PATHS)
def test_maximum_goes_by_the_name_that_the_upstream_wants(h: House, of_model: str) -> None:
    if of_model == "gemini":
        chat(h)
        assert sent(h)["generationConfig"]["maxOutputTokens"] == 1000
        return
    gemini(h, of_model)
    wanted = "max_completion_tokens" if of_model == "gpt" else "max_tokens"
    maxima = {name: value for name, value in sent(h).items() if name.startswith("max_")}
    assert maxima == {wanted: 1000}


def test_model_without_a_maximum_gets_one_only_where_the_protocol_demands_it(h: House) -> None:
    assert chat(h, model="open-gemini").status == 200
    assert "generationConfig" not in sent(h)
    assert gemini(h, "open-gpt").status == 200
    assert not [name for name in sent(h) if name.startswith("max_")]
    assert gemini(h, "open-claude").status == 200
    assert sent(h)["max_tokens"] == 32_768  # what the hold assumes


@pytest.mark.parametrize("of_model", PATHS)
def test_strict_client_is_told_what_would_be_lost(h: House, of_model: str) -> None:
    strict = {"X-Protocol-Strict": "1"}
    if of_model == "gemini":
        reply = chat(h, logit_bias={"5": 1}, headers=strict)
        lost = "logit_bias"
    else:
        reply = gemini(h, of_model, headers=strict, safetySettings=[{"category": "HARM"}])
        lost = "safetySettings"
    assert reply.status == 400
    assert lost in reply.json["error"]["message"]
    assert h.upstream.stats()["requests"] == 0
    assert h.row(reply.trace)["status"] == "rejected"


def test_what_is_lost_is_told(h: House) -> None:
    reply = gemini(h, "gpt", safetySettings=[{"category": "HARM"}], generationConfig={"topK": 5})
    assert reply.status == 200
    warned = reply.headers["x-protocol-warning"].split("; ")
    assert sorted(warned) == ["generationConfig.topK", "safetySettings"]


def test_translated_attempt_follows_a_passthrough_one_in_one_call(h: House) -> None:
    h.upstream.fault("failing", status=500)
    reply = gemini(h, "both", stream=True)
    assert reply.headers["x-protocol-translation"] == PATHS["gpt"]
    assert chunks(reply)[-1]["candidates"][0]["finishReason"] == "STOP"
    row = h.row(reply.trace)
    assert row["status"] == "success"
    h.upstream.heal("failing")
    again = gemini(h, "both", stream=True)
    assert "x-protocol-translation" not in again.headers


def test_conversation_that_moves_back_leaves_foreign_signatures_behind(h: House) -> None:
    h.upstream.fault("failing", status=500)
    told_to(h, "claude", reasoning_text="Let me think.", text="Four.")
    config = {"maxOutputTokens": 4000, "thinkingConfig": {"thinkingBudget": 2000}}
    asked = {"role": "user", "parts": [{"text": "Two and two?"}]}
    first = gemini(h, "moving", contents=[asked], generationConfig=config)
    assert first.headers["x-protocol-translation"] == PATHS["claude"]
    said = first.json["candidates"][0]["content"]
    assert [part.get("thought", False) for part in said["parts"]] == [True, False]
    h.upstream.reset()
    second = gemini(h, "moving", contents=[asked, said, asked])
    assert second.status == 200
    assert "x-protocol-translation" not in second.headers
    # Its own channel refuses a signature that it has not made, and needs none for text.
    assert sent(h)["contents"] == [
        asked,
        {"role": "model", "parts": [{"text": "Four."}]},
        asked,
    ]


@pytest.mark.parametrize("of_model", PATHS)
def test_nesting_too_deep_to_translate_is_refused_as_any_other(h: House, of_model: str) -> None:
    """The body is read more than once, and every reader has its own limit."""
    seen = set()
    for depth in (100, *range(940, 1001, 3)):
        nested = b'{"a":' * depth + b"1" + b"}" * depth
        if of_model == "gemini":
            tool = b'{"type":"function","function":{"name":"f","parameters":{"properties":%b}}}'
            said = json.dumps([{"role": "user", "content": "Hello"}]).encode()
            body = b'{"model":"gemini","messages":%b,"tools":[%b]}' % (said, tool % nested)
            reply = h.client.chat(body)
        else:
            call = b'{"role":"model","parts":[{"functionCall":{"name":"f","args":%b}}]}' % nested
            body = b'{"contents":[{"parts":[{"text":"Hello"}]},%b]}' % call
            path = f"/v1beta/models/{of_model}:generateContent"
            reply = h.client.send("POST", path, body)
        seen.add(reply.status)
        if reply.status != 200:
            assert "nested too deeply" in reply.json["error"]["message"]
    assert seen == {200, 400}
