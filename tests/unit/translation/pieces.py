"""Pieces of chat and messages requests, for the tables of the tests beside this."""

from typing import Any

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAAB"
JPEG = "/9j/4AAQSkZJRgABAQAAAQABAAD/"
PDF = "JVBERi0xLjQKJcOkw7zDtsOf"
CACHED = {"cache_control": {"type": "ephemeral"}}


def user(content: Any, **members: Any) -> dict[str, Any]:
    return {"role": "user", "content": content, **members}


def assistant(content: Any, **members: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": content, **members}


def system(content: Any, **members: Any) -> dict[str, Any]:
    return {"role": "system", "content": content, **members}


def developer(content: Any, **members: Any) -> dict[str, Any]:
    return {"role": "developer", "content": content, **members}


def text(words: str, **members: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **members}


USER = user("hi")
ASSISTANT = assistant("hello")


def tool(name: str = "f", **members: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, **members}}


def call(call_id: str, arguments: str = "{}", name: str = "f") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


def calls(*made: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {"role": "assistant", "tool_calls": list(made), **members}


def result(call_id: str, content: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def image_url(url: str, **members: Any) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url, **members}}


def file(**members: Any) -> dict[str, Any]:
    return {"type": "file", "file": members}


SHOWN = image_url(f"data:image/png;base64,{PNG}")


def use(call_id: str, given: Any = None, name: str = "f", **members: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": given or {}, **members}


def given(call_id: str, content: Any = None, **members: Any) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": call_id, **members}
    return block if content is None else {**block, "content": content}


def inline(mime_type: str, data: str) -> dict[str, Any]:
    return {"type": "base64", "media_type": mime_type, "data": data}


def image(source: dict[str, Any]) -> dict[str, Any]:
    return {"type": "image", "source": source}


def document(source: dict[str, Any], **members: Any) -> dict[str, Any]:
    return {"type": "document", "source": source, **members}


INLINE = image(inline("image/png", PNG))
