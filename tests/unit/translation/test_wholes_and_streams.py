"""A whole response and a stream of the same say the same to every client."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from channels.errors import UpstreamMalformed
from channels.translation.model import Protocol, Refusal, Text, ToolCall
from channels.translation.paths import TRANSLATIONS
from channels.translation.session import codec
from tests.support.rows import each
from tests.unit.channels.recordings import wholes
from tests.unit.translation.odd_values import ODD, kind, places, replaced
from tests.unit.translation.pieces import PNG, use
from tests.unit.translation.response import Response, folded
from tests.unit.translation.translated import (
    events_from,
    events_in,
    events_of_body,
    sse,
    written,
)

TRANSCRIPTS = Path(__file__).parents[1] / "channels" / "transcripts"
Body = dict[str, Any]


def halves(text: str) -> list[str]:
    return [piece for piece in (text[: len(text) // 2], text[len(text) // 2 :]) if piece]


def chat_stream(body: Body) -> Iterator[Body]:
    """The message in one delta, after those of its texts and calls that come in pieces."""
    choice = body["choices"][0]
    message, named = dict(choice["message"]), {**body, "usage": None}
    deltas: list[Body] = []
    for member in ("reasoning_content", "reasoning_text"):
        if "reasoning_details" not in message and isinstance(message.get(member), str):
            deltas += [{member: piece} for piece in halves(message.pop(member))]
    if all(isinstance(call, dict) for call in message.get("tool_calls") or ()):
        calls = message.pop("tool_calls", None) or ()
        deltas.append(message)
        for index, call in enumerate(calls):
            arguments = call.get("function", {}).get("arguments")
            if isinstance(arguments, str) and "id" in call:
                empty = {**call["function"], "arguments": ""}
                pieces = [{**call, "function": empty}]
                pieces += [{"function": {"arguments": piece}} for piece in halves(arguments)]
            else:
                pieces = [call]
            deltas += [{"tool_calls": [{**piece, "index": index}]} for piece in pieces]
    else:
        deltas.append(message)
    for delta in deltas:
        yield {**named, "choices": [{"index": 0, "delta": delta}]}
    last = {name: value for name, value in choice.items() if name != "message"}
    yield {**named, "choices": [{**last, "index": 0, "delta": {}}]}
    yield {**body, "choices": []}


def messages_stream(body: Body) -> Iterator[Body]:
    stopped = {name: body.get(name) for name in ("stop_reason", "stop_sequence", "stop_details")}
    yield {"type": "message_start", "message": {**body, "content": [], "stop_reason": None}}
    for index, block in enumerate(body["content"]):
        start, deltas = dict(block), []
        if block["type"] == "text":
            start["text"] = ""
            deltas = [{"type": "text_delta", "text": piece} for piece in halves(block["text"])]
        elif block["type"] == "tool_use":
            start["input"] = {}
            pieces = halves(json.dumps(block["input"]))
            deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
        elif block["type"] == "thinking":
            start |= {"thinking": "", "signature": ""}
            deltas = [
                {"type": "thinking_delta", "thinking": one} for one in halves(block["thinking"])
            ]
            deltas.append({"type": "signature_delta", "signature": block["signature"]})
        yield {"type": "content_block_start", "index": index, "content_block": start}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    yield {"type": "message_delta", "delta": stopped, "usage": body.get("usage")}
    yield {"type": "message_stop"}


def native_stream(body: Body) -> Iterator[Body]:
    first, *rest = body["candidates"]
    for part in first.get("content", {}).get("parts", ()):
        yield {**body, "usageMetadata": None, "candidates": [{"content": {"parts": [part]}}]}
    yield {**body, "candidates": [{**first, "content": {"parts": []}}, *rest]}


def responses_stream(body: Body) -> Iterator[Body]:
    yield {"type": "response.created", "response": {**body, "output": [], "usage": None}}
    for index, item in enumerate(body["output"]):
        at = {"output_index": index}
        yield {"type": "response.output_item.added", "item": {**item, "arguments": ""}, **at}
        for content, part in enumerate(item.get("content") or ()):
            for piece in halves(part.get("text", "")):
                delta = {"delta": piece, "content_index": content}
                yield {"type": f"response.{part['type']}.delta", **delta, **at}
        for piece in halves(item.get("arguments", "")):
            yield {"type": "response.function_call_arguments.delta", "delta": piece, **at}
        yield {"type": "response.output_item.done", "item": item, **at}
    yield {"type": f"response.{body.get('status', 'completed')}", "response": body}


STREAMS: dict[Protocol, Callable[[Body], Iterator[Body]]] = {
    "chat": chat_stream,
    "messages": messages_stream,
    "native": native_stream,
    "responses": responses_stream,
}


def completion(finish: str = "stop", /, **message: Any) -> Body:
    return {
        "id": "c-1",
        "model": "up",
        "service_tier": "priority",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
        "usage": {
            "prompt_tokens": 30,
            "completion_tokens": 40,
            "prompt_tokens_details": {"cached_tokens": 5},
            "completion_tokens_details": {"reasoning_tokens": 7},
        },
    }


def call(call_id: str, arguments: Any = '{"a": 1}', /, **members: Any) -> Body:
    function = {"name": "f", "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function, **members}


def entry(text: str, signature: str | None, index: int = 0) -> Body:
    tag = {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": index}
    return {**tag, "text": text, "signature": signature}


SIGNED = {"extra_content": {"google": {"thought_signature": "c2ln"}}}
IMAGE = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
CHAT: dict[str, Body] = {
    "text": completion(role="assistant", content="Hello there", refusal=None),
    "nothing": completion("content_filter", content=None),
    "refusal": completion(content=None, refusal="I will not."),
    "parts": completion(content=[{"type": "text", "text": "See "}, IMAGE, "!"]),
    "refusal in parts": completion(content=[{"type": "refusal", "refusal": "No."}]),
    "images": completion(content="See ", images=[IMAGE]),
    "thought": completion(content="Four.", reasoning_content="Hm, so."),
    "thought of Copilot": completion(content="Four.", reasoning_text="Hm, so."),
    "blocks": completion(
        content="x",
        thinking_blocks=[
            {"type": "thinking", "thinking": "ab", "signature": "c2ln"},
            {"type": "redacted_thinking", "data": "ZGF0"},
        ],
    ),
    "reasoning in parts": completion(
        content=[{"type": "reasoning", "text": "Hm."}, {"type": "text", "text": "x"}]
    ),
    "thought in parts": completion(
        content=[{"type": "thinking", "thinking": "Hm."}, {"type": "text", "text": "x"}]
    ),
    "signed": completion(
        content="x", reasoning_content="ab", reasoning_details=[entry("ab", "c2ln")]
    ),
    "signed twice": completion(
        content="x",
        reasoning_content="ab",
        reasoning_details=[entry("a", "c2ln"), entry("b", "b3du", 1)],
    ),
    "proof alone": completion(content="x", reasoning="ab", reasoning_details=[entry("", "c2ln")]),
    "hidden": completion(
        content="x",
        reasoning_details=[{**entry("", None), "type": "reasoning.encrypted", "data": "ZGF0"}],
    ),
    "calls": completion(
        "tool_calls", content="x", tool_calls=[call("c1"), call("c2", "{}"), call("c3", "")]
    ),
    "calls of one number": completion(
        "tool_calls", tool_calls=[call("c1", index=0), call("c2", index=0)]
    ),
    "calls of one id": completion("tool_calls", tool_calls=[call("c1"), call("c1")]),
    "call without an id": completion("tool_calls", tool_calls=[{"function": {"name": "f"}}]),
    "signed call with an object": completion("stop", tool_calls=[call("c1", {"a": 1}, **SIGNED)]),
    "old call": completion("function_call", function_call={"name": "f", "arguments": "{}"}),
    "call beside a placeholder": completion(
        "tool_calls", tool_calls=[call("c1")], function_call={"name": "", "arguments": "{}"}
    ),
    "other choice": {
        **completion(content="x"),
        "choices": [
            *completion(content="x")["choices"],
            {"index": 1, "message": {"content": "y"}, "finish_reason": "length"},
        ],
    },
}
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "model": "up",
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 9, "output_tokens": 4, "cache_read_input_tokens": 3},
}
MESSAGES: dict[str, Body] = {
    "texts": {**MESSAGE, "content": [{"type": "text", "text": one} for one in ("a", "bc")]},
    "nothing": {**MESSAGE, "content": []},
    "stopped": {
        **MESSAGE,
        "content": [{"type": "text", "text": "ab"}],
        "stop_reason": "stop_sequence",
        "stop_sequence": "END",
    },
    "explained": {
        **MESSAGE,
        "content": [],
        "stop_reason": "refusal",
        "stop_details": {"type": "refusal", "explanation": "Not this."},
    },
    "all": {
        **MESSAGE,
        "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
            {"type": "redacted_thinking", "data": "ZGF0"},
            {"type": "thinking", "thinking": "So.", "signature": "translated:unsigned"},
            {"type": "text", "text": "I see."},
            {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {"q": "x"}},
            {"type": "web_search_tool_result", "tool_use_id": "s", "content": []},
            use("t1", {"a": [1, "é"]}),
            use("t2", {}),
            {"type": "text", "text": "Done."},
        ],
        "stop_reason": "tool_use",
        "usage": {
            **MESSAGE["usage"],  # type: ignore[dict-item]
            "server_tool_use": {"web_search_requests": 1},
            "service_tier": "priority",
        },
    },
}
CANDIDATE = {"finishReason": "STOP", "index": 0}
COUNTS = {"promptTokenCount": 9, "candidatesTokenCount": 4, "thoughtsTokenCount": 2}


def generated(*parts: Body, **members: Any) -> Body:
    candidate = {**CANDIDATE, "content": {"parts": list(parts)}, **members}
    named = {"modelVersion": "up", "responseId": "r"}
    return {"candidates": [candidate], "usageMetadata": COUNTS, **named}


NATIVE: dict[str, Body] = {
    "texts": generated({"text": "a"}, {"text": "bc"}),
    "nothing": generated(),
    "withheld": generated(finishReason="SAFETY", finishMessage="Not this."),
    "cut": generated({"text": "ab"}, finishReason="MAX_TOKENS"),
    "all": generated(
        {"text": "Hm.", "thought": True},
        {"text": "See", "thoughtSignature": "c2ln"},
        {"inlineData": {"mimeType": "image/png", "data": PNG}},
        {"functionCall": {"name": "f", "args": {"a": 1}}, "thoughtSignature": "c2ln"},
        {"functionCall": {"id": "c2", "name": "f"}},
        {"executableCode": {"language": "PYTHON", "code": "print(1)"}},
        groundingMetadata={"webSearchQueries": ["x"]},
    ),
}


def response(*output: Body, **members: Any) -> Body:
    usage = {"input_tokens": 9, "output_tokens": 4, "total_tokens": 13}
    named = {"id": "r", "model": "up", "status": "completed", "service_tier": "priority"}
    return {**named, "output": list(output), "usage": usage, **members}


def message_of(text: str, *annotations: Body, kind: str = "output_text") -> Body:
    name = "refusal" if kind == "refusal" else "text"
    part = {"type": kind, name: text, "annotations": list(annotations)}
    return {"type": "message", "id": "m", "content": [part]}


CITED = {"type": "url_citation", "url": "https://a.example", "title": "A", "start_index": 1}
RESPONSES: dict[str, Body] = {
    "texts": response(message_of("ab"), message_of("c")),
    "nothing": response(),
    "refusal": response(message_of("No.", kind="refusal")),
    "cut": response(
        message_of("ab"), status="incomplete", incomplete_details={"reason": "max_output_tokens"}
    ),
    "withheld": response(status="incomplete", incomplete_details={"reason": "content_filter"}),
    "all": response(
        {
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": one} for one in ("Hm.", "So.")],
            "encrypted_content": "c2ln",
        },
        {
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": "short"}],
            "content": [{"type": "reasoning_text", "text": "aloud"}],
        },
        {"type": "web_search_call", "status": "completed", "action": {"type": "search"}},
        message_of("I see.", CITED, {**CITED, "end_index": 3}),
        {"type": "image_generation_call", "result": PNG, "output_format": "png"},
        message_of("There.", CITED),
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a": 1}'},
        {"type": "function_call", "name": "f", "arguments": ""},
    ),
}
BODIES: dict[Protocol, dict[str, Body]] = {
    "chat": CHAT,
    "messages": MESSAGES,
    "native": NATIVE,
    "responses": RESPONSES,
}


def meant(found: Response) -> Response:
    """A response, whose arguments may be spaced in any way, and may be none."""
    parts = [
        replace(part, arguments=spaced(part.arguments or "{}"))
        if isinstance(part, ToolCall)
        else part
        for part in found.parts
    ]
    return replace(found, parts=tuple(parts))


def spaced(arguments: str) -> str:
    try:
        return json.dumps(json.loads(arguments))
    except ValueError:
        return arguments


def of_stream(protocol: Protocol, body: Body) -> Response:
    ends = [b"[DONE]"] if protocol == "chat" else []
    return meant(folded(events_from(protocol, sse(*STREAMS[protocol](body), *ends))))


def of_whole(protocol: Protocol, body: Body) -> Response:
    return meant(folded(events_of_body(protocol, json.dumps(body).encode())))


@each("protocol", BODIES)
def test_whole_response_is_what_its_stream_folds_to(protocol: Protocol) -> None:
    for name, body in BODIES[protocol].items():
        assert of_whole(protocol, body) == of_stream(protocol, body), name


def recorded(protocol: Protocol) -> Iterator[Body]:
    """Whole responses that are no errors."""
    for path in (*sorted((TRANSCRIPTS / f"{protocol}_whole").glob("*.json")), *wholes(protocol)):
        body = json.loads(path.read_bytes())
        if {"choices", "content", "candidates", "output"} & body.keys() and not body.get("error"):
            yield body


@each("protocol", BODIES)
def test_recorded_whole_response_is_what_its_stream_folds_to(protocol: Protocol) -> None:
    found = list(recorded(protocol))
    assert found
    for body in found:
        assert of_whole(protocol, body) == of_stream(protocol, body)


@each("client, upstream", TRANSLATIONS)
def test_client_gets_the_same_whole_and_streamed(client: Protocol, upstream: Protocol) -> None:
    for name, body in BODIES[upstream].items():
        events = events_of_body(upstream, json.dumps(body).encode())
        encoder = codec(client).new_body_encoder(id="x", created=1, model="m", include_usage=True)
        sent = b"".join(encoder.encode_event(event) for event in events)
        whole = folded(events_of_body(client, sent))
        stream = folded(events_in(client, written(client, events)))
        assert visible(whole) == visible(stream), name


def visible(found: Response) -> list[object]:
    """What a client shows and runs; not every protocol keeps the order of texts and calls."""
    output: dict[type, str] = {}
    for part in found.parts:
        if isinstance(part, Text | Refusal):
            output[type(part)] = output.get(type(part), "") + part.text
    calls = [part for part in meant(found).parts if isinstance(part, ToolCall)]
    return [output, calls, found.finish, found.stop_sequence, found.usage, found.citations]


def whole_chunk(body: Body) -> Iterator[Body]:
    choice = body["choices"][0]
    yield {**body, "choices": [{**choice, "index": 0, "delta": choice.get("message")}]}


def whole_blocks(body: Body) -> Iterator[Body]:
    stopped = {name: body.get(name) for name in ("stop_reason", "stop_sequence", "stop_details")}
    yield {"type": "message_start", "message": {**body, "content": []}}
    for index, block in enumerate(body["content"] or ()):
        yield {"type": "content_block_start", "index": index, "content_block": block}
        yield {"type": "content_block_stop", "index": index}
    yield {"type": "message_delta", "delta": stopped, "usage": body.get("usage")}
    yield {"type": "message_stop"}


def whole_end(body: Body) -> Iterator[Body]:
    yield {"type": "response.created", "response": {"id": body["id"], "model": body["model"]}}
    is_cut = body.get("status") == "incomplete"
    kind = "response.incomplete" if is_cut else "response.completed"
    yield {"type": kind, "response": body}


AT_ONCE: dict[Protocol, Callable[[Body], Iterator[Body]]] = {
    "chat": whole_chunk,
    "messages": whole_blocks,
    "native": lambda body: iter([body]),
    "responses": whole_end,
}
# In a stream these are the pieces of one call.
AS_ONE = ("calls of one number", "calls of one id")


@each("protocol", BODIES)
def test_odd_whole_response_is_what_its_stream_folds_to(protocol: Protocol) -> None:
    ends = [b"[DONE]"] if protocol == "chat" else []
    count, seen = 0, set()
    for name, body in BODIES[protocol].items():
        for place in () if name in AS_ONE else places(body):
            if kind(body, place) in seen:
                continue
            seen.add(kind(body, place))
            for odd in ODD:
                changed = replaced(body, place, odd)
                try:
                    whole = of_whole(protocol, changed)
                except UpstreamMalformed:
                    continue
                events = sse(*AT_ONCE[protocol](changed), *ends)
                streamed = meant(folded(events_from(protocol, events)))
                assert whole == streamed, (name, place, odd)
                count += 1
    assert count > 500
