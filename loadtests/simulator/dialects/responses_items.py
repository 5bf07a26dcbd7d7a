"""The output items of a responses answer, whole. How they are streamed is `responses_events.py`.

In order: thinking, what the built-in tools did (a search, a picture), the message, function calls.
"""

from __future__ import annotations

from typing import Any

from loadtests.simulator.answers import ECHO_CHARS, Answer, Call
from loadtests.simulator.ask import Ask, Picture
from loadtests.simulator.media.picture import png_base64

SOURCE = "https://news.invalid/"

Item = dict[str, Any]


def output_items(ask: Ask, answer: Answer) -> list[Item]:
    """All items of a finished answer."""
    items: list[Item] = []
    if answer.thinking or (answer.usage is not None and answer.usage.reasoning > 0):
        items.append(_reasoning_item(answer))
    if ask.searches and not answer.is_withheld:
        items.append(_search_item(ask, answer))
    if ask.picture is not None and not (answer.is_withheld or answer.is_declined):
        items.append(_picture_item(ask, answer, ask.picture))
    if answer.speaks:
        items.append(_message_item(ask, answer))
    items.extend(_call_item(call) for call in answer.calls)
    return items


def _search_item(ask: Ask, answer: Answer) -> Item:
    query = ask.text[:ECHO_CHARS]
    return {
        "id": f"ws_{answer.id[:48]}",
        "type": "web_search_call",
        "status": "completed",
        "action": {
            "type": "search",
            "query": query,
            "queries": [query],
            "sources": [{"type": "url", "url": _source(answer)}],
        },
    }


def _picture_item(ask: Ask, answer: Answer, picture: Picture) -> Item:
    return {
        "id": f"ig_{answer.id[:48]}",
        "type": "image_generation_call",
        "status": "completed",
        "action": "generate",
        "background": "opaque",
        "output_format": "png",
        "quality": "medium",
        "revised_prompt": ask.text[:ECHO_CHARS],
        "size": picture.size,
        "result": png_base64(answer.image_bytes),
    }


def _message_item(ask: Ask, answer: Answer) -> Item:
    if answer.is_declined:
        part: Item = {"type": "refusal", "refusal": answer.text}
    else:
        annotations = []
        if ask.searches and answer.text:
            annotations.append(
                {
                    "type": "url_citation",
                    "start_index": 0,
                    "end_index": len(answer.text),
                    "title": "All the news there is",
                    "url": _source(answer),
                }
            )
        part = {
            "type": "output_text",
            "annotations": annotations,
            "logprobs": [],
            "text": answer.text,
        }
    return {
        "id": f"msg_{answer.id[:48]}",
        "type": "message",
        "status": "completed",
        "content": [part],
        "role": "assistant",
    }


def _reasoning_item(answer: Answer) -> Item:
    summary = [{"type": "summary_text", "text": answer.thinking}] if answer.thinking else []
    return {"id": f"rs_{answer.id[:48]}", "type": "reasoning", "summary": summary}


def _call_item(call: Call) -> Item:
    return {
        "id": f"fc_{call.token}",
        "type": "function_call",
        "status": "completed",
        "arguments": call.arguments,
        "call_id": call.id("call_"),
        "name": call.name,
    }


def _source(answer: Answer) -> str:
    return f"{SOURCE}{answer.id[:12]}"
