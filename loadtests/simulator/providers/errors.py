"""Error bodies that several providers share, as functions that make a `Failure`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from loadtests.simulator.dialects.messages import ERROR_TYPES
from loadtests.simulator.providers.model import Failure

NO_HEADERS: Mapping[str, str] = {}


def openai_error(
    status: int,
    message: str,
    kind: str,
    code: str | int | None = None,
    param: str | None = None,
    headers: Mapping[str, str] = NO_HEADERS,
) -> Failure:
    """`{"error": {"message", "type", "param", "code"}}`."""
    error = {"message": message, "type": kind, "param": param, "code": code}
    return Failure(status=status, body={"error": error}, headers=headers)


def anthropic_error(
    status: int, message: str, kind: str, headers: Mapping[str, str] = NO_HEADERS
) -> Failure:
    """`{"type": "error", "error": {"type", "message"}, "request_id"}`."""
    error = {"type": kind, "message": message}
    body = {"type": "error", "error": error, "request_id": "req_011CSHoEeqs5C35K2UUqR7Fy"}
    return Failure(status=status, body=body, headers=headers)


def in_messages(failures: Mapping[str, Failure]) -> dict[str, Failure]:
    """The same failures as the messages face of a provider says them, in that protocol's form."""
    return {
        name: anthropic_error(
            failure.status,
            _message_of(failure.body),
            ERROR_TYPES.get(failure.status, "api_error"),
            failure.headers,
        )
        for name, failure in failures.items()
    }


def _message_of(body: Any) -> str:
    """The sentence of a failure's body in any of the forms here."""
    while isinstance(body, Mapping):
        body = body.get("error") or body.get("message") or body.get("detail")
    return str(body)


def error_event(body: Any, *, event: str | None = None) -> str:
    """A failure's body as one event of a stream."""
    name = "" if event is None else f"event: {event}\n"
    return f"{name}data: {json.dumps(body, ensure_ascii=False)}\n\n"
