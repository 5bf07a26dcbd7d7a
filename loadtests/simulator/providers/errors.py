"""Error bodies that several providers share, as functions that make a `Failure`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

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


def error_event(body: Any, *, event: str | None = None) -> str:
    """A failure's body as one event of a stream."""
    name = "" if event is None else f"event: {event}\n"
    return f"{name}data: {json.dumps(body, ensure_ascii=False)}\n\n"
