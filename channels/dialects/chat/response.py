"""Whole chat-completions responses, both ways.

The first of several choices is decoded: translations never request more. It must be equivalent to
the classes for streams.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from channels.dialects.chat import thinking
from channels.dialects.chat.content import read_content
from channels.dialects.chat.events import GroqMember
from channels.dialects.chat.finish_reasons import WITHHELD, read_finish, write_finish
from channels.dialects.chat.tool_calls import is_placeholder
from channels.dialects.chat.usage import ChatUsageReader, write_usage
from channels.dialects.loose_members import loosely
from channels.dialects.token_counts import Usage
from channels.dialects.usage_details import tier_member
from channels.errors import UpstreamMalformed
from channels.json import lenient
from channels.translation.call_arguments import call_arguments
from channels.translation.identifiers import made_id
from channels.translation.media import markdown
from channels.translation.model import Media, Part, Refusal, Response, Text, Thinking, ToolCall


def decode_response(body: bytes) -> Response:
    """Decode a whole response. Raises UpstreamMalformed if it has no choice."""
    value = lenient.read_json(body)
    choices = value.get("choices") if isinstance(value, dict) else None
    choice = choices[0] if isinstance(choices, list) and choices else None
    message = choice.get("message") if isinstance(choice, dict) else None
    if message is None and isinstance(choice, dict) and choice.get("finish_reason") in WITHHELD:
        message = {}  # all content was withheld
    if not isinstance(value, dict) or not isinstance(choice, dict) or not isinstance(message, dict):
        raise UpstreamMalformed("a chat completion without a choice")
    response_id = _string(value, "id")
    parts: list[Part] = list(thinking.read_thinking(message))
    parts.extend(read_content(message.get("content"), {}))
    parts.extend(_images(message))
    if refusal := _string(message, "refusal"):
        parts.append(Refusal(refusal))
    calls = _calls(message, response_id or "")
    parts.extend(calls)
    reason = _string(choice, "finish_reason")
    return Response(
        id=response_id,
        model=_string(value, "model"),
        parts=tuple(parts),
        finish=None if reason is None else read_finish(reason, has_calls=bool(calls)),
        usage=_usage(value, choice),
    )


def _usage(value: Mapping[str, Any], choice: Mapping[str, Any]) -> Usage | None:
    stated = ChatUsageReader()
    stated.tier, stated.model = (
        lenient.text_of(value.get("service_tier")),
        lenient.text_of(value.get("model")),
    )
    stated.take_spare(None, lenient.raw_of(choice.get("usage")))
    stated.take_spare(loosely(GroqMember, value.get("x_groq")))
    stated.take_usage(lenient.raw_of(value.get("usage")))
    return stated.usage


def _images(message: Mapping[str, Any]) -> list[Media]:
    """Return images that some upstreams send beside the content."""
    images = message.get("images")
    parts = read_content(images, {}) if isinstance(images, list) else []
    return [part for part in parts if isinstance(part, Media)]


def _calls(message: Mapping[str, Any], response_id: str) -> list[ToolCall]:
    stated = message.get("tool_calls")
    calls = [call for call in stated if isinstance(call, dict)] if isinstance(stated, list) else []
    if isinstance(message.get("function_call"), dict):
        calls.append({"function": message["function_call"]})
    read = []
    for index, call in enumerate(calls):
        function = call.get("function")
        if not isinstance(function, dict):
            continue
        name, arguments = _string(function, "name") or "", function.get("arguments")
        if not isinstance(arguments, str):
            arguments = lenient.dumps({} if arguments is None else arguments).decode()
        if is_placeholder(name, arguments):
            continue
        signature, signer = thinking.read_call_signature(call)
        read.append(
            ToolCall(
                _string(call, "id") or made_id(response_id, str(index)),
                name,
                call_arguments(arguments),
                signature=signature,
                signer=signer,
            )
        )
    return read


def encode_response(response: Response, *, id: str, created: int, model: str) -> bytes:
    """Encode a whole response under this id, at this Unix second."""
    message = _message(response)
    choice = {
        "index": 0,
        "message": message,
        "logprobs": None,
        "finish_reason": write_finish(response.finish, has_calls="tool_calls" in message),
    }
    whole: dict[str, Any] = {
        "id": id,
        "object": "chat.completion",
        "created": created,
        "model": model,
        "choices": [choice],
    }
    if response.usage is not None:
        whole["usage"] = write_usage(response.usage)
        whole.update(tier_member(response.usage))
    return lenient.dumps(whole)


def _message(response: Response) -> dict[str, Any]:
    parts = response.parts
    calls = [_call(part) for part in parts if isinstance(part, ToolCall)]
    content = "".join(text_of_part(part) for part in parts)
    refusal = _refusal(response)
    message: dict[str, Any] = {
        "role": "assistant",
        "content": content if content or not (calls or refusal) else None,
        "refusal": refusal,
    }
    message.update(thinking.members_of(part for part in parts if isinstance(part, Thinking)))
    if calls:
        message["tool_calls"] = calls
    return message


def _refusal(response: Response) -> str | None:
    refusal = "".join(part.text for part in response.parts if isinstance(part, Refusal))
    if not refusal and response.finish == "refusal":
        return response.explanation or None
    return refusal or None


def text_of_part(part: Part) -> str:
    """Return a part's visible text: its text, or a link to its medium."""
    if isinstance(part, Text):
        return part.text
    return markdown(part) if isinstance(part, Media) else ""


def _call(call: ToolCall) -> dict[str, Any]:
    return {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
        **thinking.call_signature(call.signature, call.signer),
    }


def _string(value: Mapping[str, Any], name: str) -> str | None:
    text = value.get(name)
    return text if isinstance(text, str) and text else None
