"""The responses wire: output items, and a stream of named, numbered events.

The number of an event is its place in the stream. There is no `[DONE]`: the stream ends with
`response.completed` or `response.incomplete`, the only event with usage.
"""

from __future__ import annotations

from typing import Any, Final

from loadtests.simulator.answers import Answer, Call, Tokens
from loadtests.simulator.ask import Ask
from loadtests.simulator.dialects.base import (
    EVENT_STREAM,
    Stream,
    argument_pieces,
    bearer,
    encode,
    named,
)
from loadtests.simulator.dialects.openai_errors import error_body, error_type
from loadtests.simulator.dialects.responses_request import read
from loadtests.simulator.exchange import Exchange

INCOMPLETE: Final = {"length": "max_output_tokens", "content_filter": "content_filter"}


class ResponsesDialect:
    """`POST /v1/responses`."""

    name = "responses"
    stream_type = EVENT_STREAM
    uses_crlf = False

    def authenticate(self, exchange: Exchange) -> str:
        return bearer(exchange)

    def read(self, exchange: Exchange) -> Ask:
        return read(exchange.body)

    def plain(self, ask: Ask, answer: Answer) -> bytes:
        return encode(_finished(ask, answer))

    def stream(self, ask: Ask, answer: Answer, *, is_finished: bool) -> Stream:
        writer = _Writer()
        opening = {"response": _response(ask, answer, status="in_progress", output=[])}
        writer.put("response.created", opening)
        writer.put("response.in_progress", opening)
        output = 0
        if _reasons(answer):
            writer.reasoning(answer, output)
            output += 1
        text_end = len(writer.frames)
        place = {"item_id": _message_id(answer), "output_index": output, "content_index": 0}
        if answer.speaks:
            text_end = writer.message(answer, place)
            output += 1
        for call in answer.calls:
            writer.call(answer, call, output)
            output += 1
        if is_finished:
            whole = _finished(ask, answer)
            writer.put(f"response.{whole['status']}", {"response": whole})
        return Stream(
            frames=writer.frames,
            text_end=text_end,
            more=lambda index: named(
                "response.output_text.delta",
                {"sequence_number": index, **place, "delta": "more ", "logprobs": []},
            ),
        )

    def error(self, status: int, message: str) -> bytes:
        return error_body(status, message)

    def error_frames(self, ask: Ask, answer: Answer, index: int, message: str) -> list[bytes]:
        kind, _ = error_type(500)
        told = {"type": kind, "code": kind, "message": message, "param": None}
        failed = _response(ask, answer, status="failed", output=[])
        failed["error"] = {"code": kind, "message": message}
        return [
            named("error", {"sequence_number": index, "error": told}),
            named("response.failed", {"sequence_number": index + 1, "response": failed}),
        ]


class _Writer:
    """Frames with rising numbers."""

    def __init__(self) -> None:
        self.frames: list[bytes] = []

    def put(self, event: str, data: dict[str, Any]) -> None:
        self.frames.append(named(event, {"sequence_number": len(self.frames), **data}))

    def message(self, answer: Answer, place: dict[str, Any]) -> int:
        """The events of the text item; returns the index after its last delta."""
        output = place["output_index"]
        empty = _message_item(answer, status="in_progress", content=[])
        part = _part(answer, "")
        kind = "refusal" if answer.is_declined else "output_text"
        more: dict[str, Any] = {} if answer.is_declined else {"logprobs": []}
        whole_text = {"refusal" if answer.is_declined else "text": answer.text}
        self.put("response.output_item.added", {"output_index": output, "item": empty})
        self.put("response.content_part.added", {**place, "part": part})
        for piece in answer.deltas:
            self.put(f"response.{kind}.delta", {**place, "delta": piece, **more})
        text_end = len(self.frames)
        self.put(f"response.{kind}.done", {**place, **whole_text, **more})
        part = _part(answer, answer.text)
        self.put("response.content_part.done", {**place, "part": part})
        whole = _message_item(answer, status="completed", content=[part])
        self.put("response.output_item.done", {"output_index": output, "item": whole})
        return text_end

    def reasoning(self, answer: Answer, output: int) -> None:
        """The events of the reasoning item; its summary comes in a part of its own."""
        whole = _reasoning_item(answer)
        empty = {**whole, "summary": []}
        self.put("response.output_item.added", {"output_index": output, "item": empty})
        place = {"item_id": whole["id"], "output_index": output, "summary_index": 0}
        for part in whole["summary"]:
            opening = {**place, "part": {**part, "text": ""}}
            self.put("response.reasoning_summary_part.added", opening)
            told = {**place, "delta": part["text"]}
            self.put("response.reasoning_summary_text.delta", told)
            self.put("response.reasoning_summary_text.done", {**place, "text": part["text"]})
            self.put("response.reasoning_summary_part.done", {**place, "part": part})
        self.put("response.output_item.done", {"output_index": output, "item": whole})

    def call(self, answer: Answer, call: Call, output: int) -> None:
        """The events of one function call."""
        place = {"item_id": f"fc_{call.token}", "output_index": output}
        empty = _call_item(call, status="in_progress", arguments="")
        self.put("response.output_item.added", {"output_index": output, "item": empty})
        for piece in argument_pieces(call.arguments):
            self.put("response.function_call_arguments.delta", {**place, "delta": piece})
        done = {**place, "arguments": call.arguments}
        self.put("response.function_call_arguments.done", done)
        whole = _call_item(call, status="completed", arguments=call.arguments)
        self.put("response.output_item.done", {"output_index": output, "item": whole})


def _finished(ask: Ask, answer: Answer) -> dict[str, Any]:
    """The whole response object, completed, or incomplete with its reason."""
    output: list[dict[str, Any]] = []
    if _reasons(answer):
        output.append(_reasoning_item(answer))
    if answer.speaks:
        content = [_part(answer, answer.text)]
        output.append(_message_item(answer, status="completed", content=content))
    output.extend(
        _call_item(call, status="completed", arguments=call.arguments) for call in answer.calls
    )
    reason = INCOMPLETE.get(answer.finish)
    status = "incomplete" if reason else "completed"
    whole = _response(ask, answer, status=status, output=output)
    whole["incomplete_details"] = {"reason": reason} if reason else None
    whole["usage"] = _usage(answer.usage) if answer.usage is not None else None
    return whole


def _response(
    ask: Ask, answer: Answer, *, status: str, output: list[dict[str, Any]]
) -> dict[str, Any]:
    return {
        "id": f"resp_{answer.id[:48]}",
        "object": "response",
        "created_at": answer.created,
        "status": status,
        "background": False,
        "error": None,
        "incomplete_details": None,
        "model": ask.model,
        "output": output,
        "previous_response_id": None,
        "service_tier": "default",
        "store": False,
        "truncation": "disabled",
        "usage": None,
        "user": None,
        "metadata": {},
        **(ask.echoed or {}),
    }


def _reasons(answer: Answer) -> bool:
    return bool(answer.thinking) or (answer.usage is not None and answer.usage.reasoning > 0)


def _message_id(answer: Answer) -> str:
    return f"msg_{answer.id[:48]}"


def _part(answer: Answer, text: str) -> dict[str, Any]:
    if answer.is_declined:
        return {"type": "refusal", "refusal": text}
    return {"type": "output_text", "annotations": [], "logprobs": [], "text": text}


def _message_item(answer: Answer, *, status: str, content: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": _message_id(answer),
        "type": "message",
        "status": status,
        "content": content,
        "role": "assistant",
    }


def _reasoning_item(answer: Answer) -> dict[str, Any]:
    summary = [{"type": "summary_text", "text": answer.thinking}] if answer.thinking else []
    return {"id": f"rs_{answer.id[:48]}", "type": "reasoning", "summary": summary}


def _call_item(call: Call, *, status: str, arguments: str) -> dict[str, Any]:
    return {
        "id": f"fc_{call.token}",
        "type": "function_call",
        "status": status,
        "arguments": arguments,
        "call_id": call.id("call_"),
        "name": call.name,
    }


def _usage(tokens: Tokens) -> dict[str, Any]:
    return {
        "input_tokens": tokens.input,
        "input_tokens_details": {"cached_tokens": tokens.cached},
        "output_tokens": tokens.output,
        "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
        "total_tokens": tokens.input + tokens.output,
    }
