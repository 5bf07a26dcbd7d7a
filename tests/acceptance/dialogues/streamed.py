"""A stream, as the client of each protocol reads it: every event must be in its place."""

import json
from collections.abc import Iterator
from typing import Any

from tests.acceptance.dialogues.whole import (
    WholeResult,
    call,
    chat_usage,
    messages_usage,
    read_whole,
    take_gemini,
)

DONE = "[DONE]"


def read_stream(client: str, body: bytes) -> WholeResult:
    """Read a stream, be it cut; the data of its events are all JSON but for chat's last."""
    events = list(_events(body.decode()))
    return {"chat": _chat, "messages": _messages, "responses": _responses, "native": _gemini}[
        client
    ](events)


def _events(text: str) -> Iterator[tuple[str | None, Any]]:
    """Name and data of each event; one without its blank line is none."""
    *blocks, rest = text.replace("\r\n", "\n").split("\n\n")
    assert rest == "", rest
    for block in blocks:
        name = data = None
        for line in block.split("\n"):
            field, _, value = line.partition(": ")
            if field == "event":
                name = value
            elif field == "data":
                assert data is None, "one line of data in each event"
                data = value
        assert data is not None, block
        yield name, DONE if data == DONE else json.loads(data)


def _chat(events: list[tuple[str | None, Any]]) -> WholeResult:
    result = WholeResult()
    ids: list[str] = []
    names: list[str] = []
    arguments: list[str] = []
    identity = set()
    for number, (name, chunk) in enumerate(events):
        assert name is None
        assert not result.has_end, "nothing comes after the end"
        assert result.error is None, "nothing comes after an error"
        if chunk == DONE:
            result.has_end = True
            continue
        if "error" in chunk:
            result.error = chunk["error"]
            continue
        assert chunk["object"] == "chat.completion.chunk"
        identity.add((chunk["id"], chunk["created"], chunk["model"]))
        if not chunk["choices"]:
            assert result.finish is not None, "usage comes after the finish"
            chat_usage(chunk["usage"], result)
            continue
        assert chunk.get("usage") is None
        (choice,) = chunk["choices"]
        delta = choice["delta"]
        assert result.finish is None, "nothing is said after the finish"
        assert ("role" in delta) == (number == 0)
        result.text += delta.get("content") or ""
        result.refusal += delta.get("refusal") or ""
        result.thinking += delta.get("reasoning_content") or ""
        for one in delta.get("tool_calls", ()):
            if "id" in one:
                assert one["index"] == len(ids), "calls are numbered by themselves"
                assert one["type"] == "function"
                ids.append(one["id"])
                names.append(one["function"]["name"])
                arguments.append("")
            arguments[one["index"]] += one["function"].get("arguments", "")
        result.finish = choice["finish_reason"]
    assert len(identity) <= 1, identity
    if result.has_end:
        result.calls = [call(*pair) for pair in zip(names, arguments, strict=True)]
    return result


def _messages(events: list[tuple[str | None, Any]]) -> WholeResult:
    result = WholeResult()
    kinds = [event["type"] for _, event in events]
    assert [name for name, _ in events] == kinds
    blocks: list[dict[str, Any]] = []
    pieces: list[str] = []
    is_open = False
    for number, (_, event) in enumerate(events):
        assert not result.has_end, "nothing comes after the end"
        assert result.error is None, "nothing comes after an error"
        kind = event["type"]
        assert (kind == "message_start") == (number == 0) or kind == "error"
        if kind == "message_start":
            assert event["message"]["content"] == []
            assert event["message"]["stop_reason"] is None
            if "usage" in event["message"]:
                messages_usage(event["message"]["usage"], result)
        elif kind == "content_block_start":
            assert not is_open, "one block at a time"
            assert event["index"] == len(blocks)
            blocks.append(event["content_block"])
            pieces.append("")
            is_open = True
        elif kind == "content_block_delta":
            assert is_open
            assert event["index"] == len(blocks) - 1
            _add_delta(event["delta"], blocks[-1], pieces, result)
        elif kind == "content_block_stop":
            assert is_open
            assert event["index"] == len(blocks) - 1
            is_open = False
        elif kind == "message_delta":
            assert not is_open
            assert result.finish is None
            result.finish = event["delta"]["stop_reason"]
            if "usage" in event:
                messages_usage(event["usage"], result)
        elif kind == "message_stop":
            assert result.finish is not None
            result.has_end = True
        elif kind == "error":
            result.error = event["error"]
        else:
            assert kind == "ping"
    if result.has_end:
        for block, arguments in zip(blocks, pieces, strict=True):
            if block["type"] == "tool_use":
                result.calls.append(call(block["name"], arguments))
    return result


def _add_delta(
    delta: dict[str, Any], block: dict[str, Any], pieces: list[str], result: WholeResult
) -> None:
    kind = delta["type"]
    if kind == "text_delta":
        assert block["type"] == "text"
        result.text += delta["text"]
        block["text"] += delta["text"]
    elif kind == "input_json_delta":
        assert block["type"] == "tool_use"
        pieces[-1] += delta["partial_json"]
    elif kind == "thinking_delta":
        assert block["type"] == "thinking"
        result.thinking += delta["thinking"]
        block["thinking"] += delta["thinking"]
    else:
        assert (kind, block["type"]) == ("signature_delta", "thinking")
        block["signature"] = delta["signature"]


def _responses(events: list[tuple[str | None, Any]]) -> WholeResult:
    result = WholeResult()
    numbers = [event["sequence_number"] for _, event in events]
    assert numbers == sorted(set(numbers)), "numbers rise"
    message: dict[str, str] = {"output_text": "", "refusal": "", "reasoning_summary_text": ""}
    ended: dict[str, Any] | None = None
    for number, (name, event) in enumerate(events):
        kind = event["type"]
        assert name == kind
        assert ended is None, "nothing comes after the end"
        assert (kind == "response.created") == (number == 0) or result.error is not None
        if kind == "error":
            result.error = event
        elif kind.endswith(".delta"):
            member = kind.removeprefix("response.").removesuffix(".delta")
            if member in message:
                message[member] += event["delta"]
        elif kind in ("response.completed", "response.incomplete"):
            ended = event["response"]
    if ended is None:
        result.text = message["output_text"]
        return result
    result = read_whole("responses", ended)
    assert message == {
        "output_text": result.text,
        "refusal": result.refusal,
        "reasoning_summary_text": result.thinking,
    }
    return result


def _gemini(events: list[tuple[str | None, Any]]) -> WholeResult:
    result = WholeResult()
    for name, chunk in events:
        assert name is None
        _take_chunk(chunk, result)
    result.has_end = result.finish is not None
    return result


def _take_chunk(chunk: dict[str, Any], result: WholeResult) -> None:
    assert result.finish is None, "nothing comes after the finish"
    assert result.error is None, "nothing comes after an error"
    if "error" in chunk:
        result.error = chunk["error"]
    else:
        take_gemini(chunk, result)
