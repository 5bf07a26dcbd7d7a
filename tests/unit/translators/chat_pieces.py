"""Pieces of requests that the tables of these tests are made of."""

from __future__ import annotations

from typing import Any

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAAB"
JPEG = "/9j/4AAQSkZJRgABAQAAAQABAAD/"
PDF = "JVBERi0xLjQKJcOkw7zDtsOf"
USER = {"role": "user", "content": "hi"}
ASSISTANT = {"role": "assistant", "content": "hello"}


def tool(name: str = "f", **members: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, **members}}


def call(call_id: str, arguments: str = "{}", name: str = "f") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


def calls(*made: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {"role": "assistant", "tool_calls": list(made), **members}


def result(call_id: str, content: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def use(call_id: str, given: Any = None, name: str = "f") -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": given or {}}


def given(call_id: str, **members: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, **members}


def text(words: str, **members: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **members}


def image(source: dict[str, Any]) -> dict[str, Any]:
    return {"type": "image", "source": source}


def inline(mime_type: str, data: str) -> dict[str, Any]:
    return {"type": "base64", "media_type": mime_type, "data": data}


CACHED = {"cache_control": {"type": "ephemeral"}}
