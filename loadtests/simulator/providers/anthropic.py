"""Anthropic: the messages protocol, where no credit and a limit of one's own are a 400."""

from __future__ import annotations

from loadtests.simulator.dialects.messages import MessagesDialect
from loadtests.simulator.providers.errors import anthropic_error, error_event
from loadtests.simulator.providers.model import Face, Listing, Provider

BAD = "invalid_request_error"
LIMITS = {
    "anthropic-ratelimit-requests-limit": "4000",
    "anthropic-ratelimit-requests-remaining": "3999",
    "anthropic-ratelimit-requests-reset": "2026-11-22T18:00:00Z",
    "anthropic-ratelimit-tokens-limit": "480000",
    "anthropic-ratelimit-tokens-remaining": "478000",
    "anthropic-ratelimit-tokens-reset": "2026-11-22T18:00:00Z",
}
FAILURES = {
    "no_key": anthropic_error(401, "x-api-key header is required", "authentication_error"),
    "bad_key": anthropic_error(401, "invalid x-api-key", "authentication_error"),
    "no_credit": anthropic_error(
        400,
        "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing "
        "to upgrade or purchase credits.",
        BAD,
    ),
    "billing": anthropic_error(402, "There is an issue with your billing.", "billing_error"),
    "forbidden": anthropic_error(
        403,
        "Your API key does not have permission to use the specified resource.",
        "permission_error",
    ),
    "unknown_model": anthropic_error(404, "model: {model}", "not_found_error"),
    "bad_parameter": anthropic_error(400, "temperature: range: 0..1", BAD),
    "context_too_long": anthropic_error(
        400, "prompt is too long: 208310 tokens > 200000 maximum", BAD
    ),
    "too_large": anthropic_error(
        413, "Request exceeds the maximum allowed number of bytes.", "request_too_large"
    ),
    "rate_limited": anthropic_error(
        429,
        "This request would exceed your organization's rate limit of 40,000 input tokens per "
        "minute.",
        "rate_limit_error",
        {**LIMITS, "anthropic-ratelimit-tokens-remaining": "0", "retry-after": "18"},
    ),
    "server_error": anthropic_error(500, "Internal server error", "api_error"),
    "timeout": anthropic_error(504, "Request timed out.", "timeout_error"),
    "overloaded": anthropic_error(529, "Overloaded", "overloaded_error"),
}
ANTHROPIC = Provider(
    name="anthropic",
    sources={
        "errors": "https://docs.claude.com/en/api/errors",
        "limits": "https://docs.claude.com/en/api/rate-limits",
        "streams": "https://docs.claude.com/en/docs/build-with-claude/streaming",
        "models": "https://docs.claude.com/en/api/models-list",
    },
    headers={**LIMITS, "request-id": "req_011CSHoEeqs5C35K2UUqR7Fy"},
    models=("claude-sonnet-5", "claude-opus-5"),
    listing=Listing(
        keys=("x-api-key",),
        entry=lambda model: {
            "type": "model",
            "id": model,
            "display_name": model.title(),
            "created_at": "2026-05-22T00:00:00Z",
        },
        whole=lambda entries: {
            "data": entries,
            "has_more": False,
            "first_id": entries[0]["id"],
            "last_id": entries[-1]["id"],
        },
    ),
    faces=(
        Face(
            path="/v1/messages",
            dialect=MessagesDialect(),
            keys=("x-api-key",),
            failures=FAILURES,
            stream_failure=error_event(FAILURES["overloaded"].body, event="error"),
        ),
    ),
)
