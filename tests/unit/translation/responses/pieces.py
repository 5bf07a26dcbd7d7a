"""Events of a responses stream, as short as a test needs them."""

from typing import Any

USAGE = {
    "input_tokens": 10,
    "input_tokens_details": {"cached_tokens": 4},
    "output_tokens": 5,
    "output_tokens_details": {"reasoning_tokens": 2},
    "total_tokens": 15,
}
CREATED = {"type": "response.created", "response": {"id": "resp_1", "model": "gpt", "output": []}}


def event(kind: str, output: int = 0, **members: Any) -> dict[str, Any]:
    """One event of an item."""
    return {"type": f"response.{kind}", "output_index": output, **members}


def text(delta: str, output: int = 0, content: int = 0) -> dict[str, Any]:
    """More of a text."""
    return event("output_text.delta", output, content_index=content, delta=delta)


def done(output: int = 0, **item: Any) -> dict[str, Any]:
    """An item that is whole."""
    return event("output_item.done", output, item=item)


def message(*content: dict[str, Any]) -> dict[str, Any]:
    """A message item of these parts."""
    return {"type": "message", "role": "assistant", "content": list(content)}


def call(**members: Any) -> dict[str, Any]:
    """A function call item."""
    return {"type": "function_call", "call_id": "call_a", "name": "f", **members}


def completed(*output: Any, status: str = "completed", **members: Any) -> dict[str, Any]:
    """The last event."""
    response = {"id": "resp_1", "status": status, "output": list(output), "usage": USAGE}
    return {"type": f"response.{status}", "response": {**response, **members}}


def citation(start: int, end: int, url: str = "https://a.example") -> dict[str, Any]:
    """A source of a part's text."""
    place = {"start_index": start, "end_index": end}
    return {"type": "url_citation", "url": url, "title": "A", **place}
