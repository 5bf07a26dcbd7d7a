"""The responses wire: output items, and a stream of named, numbered events.

The number of an event is its place in the stream. There is no `[DONE]`: the stream ends with
`response.completed` or `response.incomplete`, the only event with usage.
"""

from __future__ import annotations

from typing import Any, Final

from loadtests.simulator.answers import Answer, Tokens
from loadtests.simulator.ask import Ask
from loadtests.simulator.dialects.base import (
    EVENT_STREAM,
    Stream,
    bearer,
    encode,
    named,
)
from loadtests.simulator.dialects.openai_errors import error_body, error_type
from loadtests.simulator.dialects.responses_events import EventWriter
from loadtests.simulator.dialects.responses_items import output_items
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
        partial = ask.picture.partial_images if ask.picture is not None else 0
        writer = EventWriter(answer.deltas, partial_images=partial)
        opening = {"response": _response(ask, answer, status="in_progress", output=[])}
        writer.put("response.created", opening)
        writer.put("response.in_progress", opening)
        writer.items(output_items(ask, answer))
        if is_finished:
            whole = _finished(ask, answer)
            writer.put(f"response.{whole['status']}", {"response": whole})
        place = writer.message_place
        return Stream(
            frames=writer.frames,
            text_end=writer.text_end,
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


def _finished(ask: Ask, answer: Answer) -> dict[str, Any]:
    """The whole response object, completed, or incomplete with its reason."""
    reason = INCOMPLETE.get(answer.finish)
    status = "incomplete" if reason else "completed"
    whole = _response(ask, answer, status=status, output=output_items(ask, answer))
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


def _usage(tokens: Tokens) -> dict[str, Any]:
    return {
        "input_tokens": tokens.input,
        "input_tokens_details": {"cached_tokens": tokens.cached},
        "output_tokens": tokens.output,
        "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
        "total_tokens": tokens.input + tokens.output,
    }
