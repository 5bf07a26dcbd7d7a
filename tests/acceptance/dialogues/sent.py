"""What a channel was sent, read from the body of each protocol into one form."""

import json
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Sent:
    """One request as the upstream had it."""

    system: str = ""
    texts: list[str] = field(default_factory=list)  # of the user, in order
    images: list[str] = field(default_factory=list)  # base64 data or addresses
    tools: list[str] = field(default_factory=list)
    calls: list[tuple[str, Any]] = field(default_factory=list)  # name and arguments
    results: list[tuple[str, str]] = field(default_factory=list)  # name of the tool, what it said
    stop: list[str] = field(default_factory=list)
    max_tokens: int | None = None


def read_sent(protocol: str, body: str) -> Sent:
    """Read the body that a channel of this protocol was sent."""
    whole = json.loads(body)
    return {"chat": _chat, "messages": _messages, "responses": _responses, "native": _gemini}[
        protocol
    ](whole)


def _parts(content: Any) -> list[dict[str, Any]]:
    if content is None:
        return []
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _picture(url: str) -> str:
    return url.partition(";base64,")[2] if url.startswith("data:image/png;base64,") else url


def _chat(body: dict[str, Any]) -> Sent:
    sent = Sent(max_tokens=body.get("max_tokens"))
    names: dict[str, str] = {}
    for message in body["messages"]:
        texts = [part["text"] for part in _parts(message.get("content")) if part["type"] == "text"]
        if message["role"] in ("system", "developer"):
            sent.system += "".join(texts)
        elif message["role"] == "tool":
            sent.results.append((names[message["tool_call_id"]], "".join(texts)))
        elif message["role"] == "user":
            sent.texts += texts
            sent.images += [
                _picture(part["image_url"]["url"])
                for part in _parts(message["content"])
                if part["type"] == "image_url"
            ]
        for call in message.get("tool_calls") or ():
            function = call["function"]
            names[call["id"]] = function["name"]
            sent.calls.append((function["name"], json.loads(function["arguments"])))
    sent.tools = [tool["function"]["name"] for tool in body.get("tools", ())]
    stop = body.get("stop", [])
    sent.stop = [stop] if isinstance(stop, str) else stop
    return sent


def _messages(body: dict[str, Any]) -> Sent:
    sent = Sent(max_tokens=body["max_tokens"])
    sent.system = "".join(part["text"] for part in _parts(body.get("system")))
    names: dict[str, str] = {}
    for turn in body["messages"]:
        for part in _parts(turn["content"]):
            kind = part["type"]
            if kind == "text" and turn["role"] == "user":
                sent.texts.append(part["text"])
            elif kind == "image":
                source = part["source"]
                sent.images.append(source["data" if source["type"] == "base64" else "url"])
            elif kind == "tool_use":
                names[part["id"]] = part["name"]
                sent.calls.append((part["name"], part["input"]))
            elif kind == "tool_result":
                said = "".join(one["text"] for one in _parts(part["content"]))
                sent.results.append((names[part["tool_use_id"]], said))
    sent.tools = [tool["name"] for tool in body.get("tools", ())]
    sent.stop = body.get("stop_sequences", [])
    return sent


def _responses(body: dict[str, Any]) -> Sent:
    sent = Sent(system=body["instructions"], max_tokens=body["max_output_tokens"])
    names: dict[str, str] = {}
    for item in body["input"]:
        if item.get("type") == "function_call":
            names[item["call_id"]] = item["name"]
            sent.calls.append((item["name"], json.loads(item["arguments"])))
        elif item.get("type") == "function_call_output":
            sent.results.append((names[item["call_id"]], item["output"]))
        elif item.get("type") != "reasoning":
            for part in item["content"]:
                if part["type"] == "input_text":
                    sent.texts.append(part["text"])
                else:
                    sent.images.append(_picture(part["image_url"]))
    sent.tools = [tool["name"] for tool in body.get("tools", ())]
    return sent


def _gemini(body: dict[str, Any]) -> Sent:
    config = body.get("generationConfig", {})
    sent = Sent(max_tokens=config.get("maxOutputTokens"), stop=config.get("stopSequences", []))
    sent.system = "".join(part["text"] for part in body["systemInstruction"]["parts"])
    for turn in body["contents"]:
        for part in turn["parts"]:
            if "text" in part and turn["role"] == "user":
                sent.texts.append(part["text"])
            if "inlineData" in part:
                assert part["inlineData"]["mimeType"] == "image/png"
                sent.images.append(part["inlineData"]["data"])
            if "fileData" in part:
                sent.images.append(part["fileData"]["fileUri"])
            if "functionCall" in part:
                call = part["functionCall"]
                sent.calls.append((call["name"], call["args"]))
            if "functionResponse" in part:
                answered = part["functionResponse"]
                (said,) = answered["response"].values()
                sent.results.append((answered["name"], said))
    sent.tools = [
        declared["name"]
        for tool in body.get("tools", ())
        for declared in tool["functionDeclarations"]
    ]
    return sent
