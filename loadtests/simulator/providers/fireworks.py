"""Fireworks: long names of models, usage in the chunk that finishes, 412 for no more account."""

from __future__ import annotations

from loadtests.simulator.dialects.messages import MessagesDialect
from loadtests.simulator.dialects.responses import ResponsesDialect
from loadtests.simulator.providers.chat_wire import ChatTraits, ProviderChat
from loadtests.simulator.providers.errors import error_event, in_messages
from loadtests.simulator.providers.model import (
    Face,
    Failure,
    Listing,
    Provider,
    refuses_of_assistants,
)

BAD = "invalid_request_error"
LIMITS = {
    "x-ratelimit-limit-requests": "600",
    "x-ratelimit-remaining-requests": "599",
    "x-ratelimit-over-limit": "no",
}


def _failure(status: int, message: str, code: str, kind: str = "error", **headers: str) -> Failure:
    error = {"message": message, "param": None, "code": code, "type": kind}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Failure(status=status, body={"error": error}, headers=named)


EXTRA = _failure(400, "Extra inputs are not permitted, field: 'messages[1].{param}'", BAD, BAD)
FAILURES = {
    "bad_key": _failure(401, "The API key you provided is invalid.", "UNAUTHORIZED"),
    "no_credit": _failure(402, "Payment is required to use this model.", "PAYMENT_REQUIRED"),
    "suspended": _failure(
        412,
        "Account sim is suspended, possibly due to reaching the monthly spending limit or failure "
        "to pay past invoices.",
        "PRECONDITION_FAILED",
    ),
    "forbidden": _failure(403, "Permission denied.", "FORBIDDEN"),
    "unknown_model": _failure(
        404, "Model {model} not found, inaccessible, and/or not deployed", "NOT_FOUND"
    ),
    "bad_parameter": _failure(400, "Extra inputs are not permitted, field: 'x'", BAD, BAD),
    "context_too_long": _failure(
        400, "The prompt is too long: 140000, model maximum context length: 131071", BAD, BAD
    ),
    "too_large": _failure(413, "The input is too large.", "PAYLOAD_TOO_LARGE"),
    "timeout": _failure(408, "The request took too long to complete.", "REQUEST_TIMEOUT"),
    "rate_limited": _failure(
        429,
        "You've exceeded the rate limit of 600 requests per minute.",
        "RATE_LIMIT_EXCEEDED",
        x_ratelimit_remaining_requests="0",
        x_ratelimit_over_limit="yes",
    ),
    "server_error": _failure(500, "Internal server error", "INTERNAL", "internal_server_error"),
    "overloaded": _failure(
        503, "Service overloaded, please try again later", "SERVICE_UNAVAILABLE"
    ),
}
FIREWORKS = Provider(
    name="fireworks",
    sources={
        "errors": "https://docs.fireworks.ai/guides/inference-error-codes",
        "bodies": "https://github.com/pollinations/pollinations/issues/12136",
        "refused members": "https://github.com/earendil-works/pi/issues/4514",
        "limits": "https://docs.fireworks.ai/guides/quotas_usage/rate-limits",
        "usage": "https://docs.fireworks.ai/api-reference/post-chatcompletions",
        "messages": "https://docs.fireworks.ai/tools-sdks/anthropic-compatibility",
    },
    headers={**LIMITS, "fireworks-server-processing-time": "0.2"},
    models=("accounts/fireworks/models/glm-5", "accounts/fireworks/models/gpt-oss-120b"),
    listing=Listing(path="/inference/v1/models"),
    faces=(
        Face(
            path="/inference/v1/chat/completions",
            dialect=ProviderChat(
                ChatTraits(
                    id_prefix="",
                    first_delta={"role": "assistant"},
                    usage_in="last_chunk",
                    is_usage_unasked=True,
                )
            ),
            failures=FAILURES,
            checks=(refuses_of_assistants(EXTRA, "reasoning", "reasoning_details", "annotations"),),
            stream_failure=error_event(FAILURES["server_error"].body),
        ),
        Face(path="/inference/v1/responses", dialect=ResponsesDialect(), failures=FAILURES),
        Face(
            path="/inference/v1/messages",
            dialect=MessagesDialect(),
            failures=in_messages(FAILURES),
        ),
    ),
)
