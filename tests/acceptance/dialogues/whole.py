"""A whole answer, as the client of each protocol reads it."""

from typing import Any

from tests.acceptance.dialogues.told import (
    Told,
    call,
    chat_usage,
    gemini_usage,
    messages_usage,
    responses_usage,
)


def read_whole(client: str, body: dict[str, Any]) -> Told:
    """Read an answer's body, which must be as the protocol has it."""
    told = {"chat": _chat, "messages": _messages, "responses": _responses, "native": _gemini}[
        client
    ](body)
    told.has_end = True
    return told


def _chat(body: dict[str, Any]) -> Told:
    assert body["object"] == "chat.completion"
    assert isinstance(body["created"], int)
    (choice,) = body["choices"]
    assert choice["index"] == 0
    message = choice["message"]
    assert message["role"] == "assistant"
    told = Told(text=message["content"] or "", finish=choice["finish_reason"])
    told.refusal = message.get("refusal") or ""
    told.thinking = message.get("reasoning_content") or ""
    told.signatures = [
        entry["signature"] for entry in message.get("reasoning_details", ()) if "signature" in entry
    ]
    for one in message.get("tool_calls") or ():
        assert one["type"] == "function"
        told.calls.append(call(one["function"]["name"], one["function"]["arguments"]))
        told.call_ids.append(one["id"])
        told.signatures += _extra_signatures(one)
    if body.get("usage") is not None:
        chat_usage(body["usage"], told)
    return told


def _extra_signatures(one: dict[str, Any]) -> list[str]:
    return [extra["thought_signature"] for extra in one.get("extra_content", {}).values()]


def _messages(body: dict[str, Any]) -> Told:
    assert (body["type"], body["role"]) == ("message", "assistant")
    told = Told(finish=body["stop_reason"])
    told.stop_sequence = body["stop_sequence"]
    for block in body["content"]:
        if block["type"] == "text":
            told.text += block["text"]
        elif block["type"] == "thinking":
            told.thinking += block["thinking"]
            told.signatures.append(block["signature"])
        else:
            assert block["type"] == "tool_use"
            assert isinstance(block["input"], dict)
            told.calls.append((block["name"], block["input"]))
            told.call_ids.append(block["id"])
    if body.get("usage") is not None:
        messages_usage(body["usage"], told)
    return told


def _responses(body: dict[str, Any]) -> Told:
    assert body["object"] == "response"
    told = Told(finish=body["status"])
    if body["incomplete_details"] is not None:
        told.finish = f"{body['status']}: {body['incomplete_details']['reason']}"
    for item in body["output"]:
        if item["type"] == "reasoning":
            told.thinking += "".join(part["text"] for part in item["summary"])
            if item.get("encrypted_content") not in (None, "translated:unsigned"):
                told.signatures.append(item["encrypted_content"])
        elif item["type"] == "function_call":
            told.calls.append(call(item["name"], item["arguments"]))
            told.call_ids.append(item["call_id"])
        else:
            assert item["type"] == "message"
            for part in item["content"]:
                told.text += part.get("text", "")
                told.refusal += part.get("refusal", "")
    if body.get("usage") is not None:
        responses_usage(body["usage"], told)
    return told


def _gemini(body: dict[str, Any]) -> Told:
    told = Told()
    take_gemini(body, told)
    return told


def take_gemini(body: dict[str, Any], told: Told) -> None:
    """Read an answer, or one more piece of it."""
    if "usageMetadata" in body:
        gemini_usage(body["usageMetadata"], told)
    if "promptFeedback" in body:
        assert "candidates" not in body
        told.finish = f"blocked: {body['promptFeedback']['blockReason']}"
        return
    (candidate,) = body["candidates"]
    assert candidate.get("index", 0) == 0
    content = candidate.get("content", {"role": "model", "parts": []})
    assert content["role"] == "model"
    for part in content["parts"]:
        if "functionCall" in part:
            told.calls.append((part["functionCall"]["name"], part["functionCall"]["args"]))
            told.call_ids.append(part["functionCall"].get("id", ""))
        elif part.get("thought"):
            told.thinking += part["text"]
        else:
            told.text += part["text"]
        if "thoughtSignature" in part:
            told.signatures.append(part["thoughtSignature"])
    if "finishReason" in candidate:
        assert told.finish is None, "it finishes once"
        told.finish = candidate["finishReason"]
