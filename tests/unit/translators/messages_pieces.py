"""Pieces of requests that the tables of these tests are made of."""

from __future__ import annotations

from typing import Any

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAAB"
PDF = "JVBERi0xLjQKJcOkw7zDtsOf"
USER = {"role": "user", "content": "hi"}
ASSISTANT = {"role": "assistant", "content": "hello"}
CACHED = {"cache_control": {"type": "ephemeral"}}


def text(words: str, **members: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **members}


def use(call_id: str, given: Any = None, name: str = "f", **members: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": given or {}, **members}


def given(call_id: str, content: Any = None, **members: Any) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": call_id, **members}
    return block if content is None else {**block, "content": content}


def call(call_id: str, arguments: str = "{}", name: str = "f") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


def result(call_id: str, content: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def image(**source: Any) -> dict[str, Any]:
    return {"type": "image", "source": source}


INLINE = image(type="base64", media_type="image/png", data=PNG)
SHOWN = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
