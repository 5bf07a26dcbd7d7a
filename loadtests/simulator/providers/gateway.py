"""Another of these gateways: each protocol in its own words, 402 when its wallet is empty."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from loadtests.simulator.dialects.gemini import GeminiDialect
from loadtests.simulator.dialects.messages import MessagesDialect
from loadtests.simulator.dialects.responses import ResponsesDialect
from loadtests.simulator.providers.chat_wire import ChatTraits, ProviderChat
from loadtests.simulator.providers.model import Face, Failure, Provider

TRACE = {"x-gateway-trace": "0123456789abcdef0123456789abcdef"}
BAD = "invalid_request_error"
# Status, message, then what the error is called: on chat (type, code), on messages, natively.
ERRORS: Mapping[str, tuple[int, str, str, str, str, str, Mapping[str, str]]] = {
    "bad_key": (
        *(401, "This API key is not valid."),
        *("authentication_error", "invalid_api_key", "authentication_error", "UNAUTHENTICATED"),
        {},
    ),
    "no_credit": (
        *(402, "The balance does not cover this call."),
        *("insufficient_quota", "quota_exceeded", "billing_error", "RESOURCE_EXHAUSTED"),
        {},
    ),
    "forbidden": (
        *(403, "This key may not call this endpoint."),
        *("permission_error", "permission_denied", "permission_error", "PERMISSION_DENIED"),
        {},
    ),
    "unknown_model": (
        *(400, "The model '{model}' does not exist."),
        *(BAD, "model_not_found", "not_found_error", "NOT_FOUND"),
        {},
    ),
    "bad_parameter": (
        *(400, "temperature: expected a number, found a string."),
        *(BAD, "invalid_request", BAD, "INVALID_ARGUMENT"),
        {},
    ),
    "rate_limited": (
        *(429, "Too many requests per minute."),
        *("rate_limit_error", "rate_limit_exceeded", "rate_limit_error", "RESOURCE_EXHAUSTED"),
        {"retry-after": "12", "x-ratelimit-limit-requests": "60"},
    ),
    "server_error": (
        *(500, "Something went wrong here."),
        *("server_error", "internal_error", "api_error", "INTERNAL"),
        {},
    ),
    "unreachable": (
        *(502, "The upstream could not be connected to."),
        *("api_error", "upstream_unreachable", "api_error", "UNAVAILABLE"),
        {},
    ),
    "overloaded": (
        *(503, "Every channel of this model is busy at the moment. Try again shortly."),
        *("server_error", "no_channel_available", "overloaded_error", "UNAVAILABLE"),
        {"retry-after": "1"},
    ),
    "timeout": (
        *(504, "The upstream did not answer in time."),
        *("api_error", "upstream_timeout", "api_error", "DEADLINE_EXCEEDED"),
        {},
    ),
}


def _failures(protocol: str) -> dict[str, Failure]:
    found = {}
    for name, (status, message, kind, code, messages, native, headers) in ERRORS.items():
        body: dict[str, Any] = {"error": {"message": message, "type": kind, "code": code}}
        if protocol == "messages":
            body = {"type": "error", "error": {"type": messages, "message": message}}
        elif protocol == "native":
            body = {"error": {"code": status, "message": message, "status": native}}
        found[name] = Failure(status=status, body=body, headers={**TRACE, **headers})
    return found


GATEWAY = Provider(
    name="gateway",
    sources={"protocols": "ops/protocols.md", "errors": "gw/errors.py"},
    headers=TRACE,
    models=("gpt-5", "claude-opus-5"),
    faces=(
        Face(
            path="/v1/chat/completions",
            dialect=ProviderChat(ChatTraits()),
            failures=_failures("chat"),
        ),
        Face(
            path="/v1/messages",
            dialect=MessagesDialect(),
            keys=("x-api-key",),
            failures=_failures("messages"),
        ),
        Face(path="/v1/responses", dialect=ResponsesDialect(), failures=_failures("responses")),
        Face(
            path=re.compile(r"/v1beta/models/[^:]+:(generateContent|streamGenerateContent)"),
            dialect=GeminiDialect(),
            keys=("x-goog-api-key",),
            failures=_failures("native"),
        ),
    ),
)
