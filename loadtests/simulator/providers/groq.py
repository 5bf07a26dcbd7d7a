"""Groq: thoughts under `reasoning`, usage of a stream in `x_groq` of its last chunk."""

from __future__ import annotations

from typing import Any

from loadtests.simulator.answers import Tokens
from loadtests.simulator.dialects.responses import ResponsesDialect
from loadtests.simulator.providers.chat_wire import ChatTraits, ProviderChat
from loadtests.simulator.providers.errors import error_event
from loadtests.simulator.providers.model import (
    Face,
    Failure,
    Listing,
    Provider,
    refuses,
    refuses_of_assistants,
)
from loadtests.simulator.providers.thoughts import REASONING

KIND = "invalid_request_error"
FOREIGN = ("reasoning_content", "reasoning_details", "annotations")
LIMITS = {
    "x-ratelimit-limit-requests": "14400",
    "x-ratelimit-limit-tokens": "18000",
    "x-ratelimit-remaining-requests": "14370",
    "x-ratelimit-remaining-tokens": "17997",
    "x-ratelimit-reset-requests": "2m59.56s",
    "x-ratelimit-reset-tokens": "7.66s",
}


def _failure(
    status: int, message: str, kind: str = KIND, code: str | None = None, **headers: str
) -> Failure:
    """`code` is there only where there is one, `param` never."""
    error = {"message": message, "type": kind, **({"code": code} if code else {})}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Failure(status=status, body={"error": error}, headers={**LIMITS, **named})


UNSUPPORTED = _failure(400, "property '{param}' is unsupported")
FOREIGN_THOUGHT = _failure(
    400,
    "'messages.1' : for 'role:assistant' the following must be satisfied[('messages.1' : property "
    "'{param}' is unsupported)]",
)
FAILURES = {
    "bad_key": _failure(401, "Invalid API Key", KIND, "invalid_api_key"),
    "forbidden": _failure(
        403,
        "Access denied. Please check your network settings.",
        "permissions_error",
        "permission_denied",
    ),
    "unknown_model": _failure(
        404,
        "The model `{model}` does not exist or you do not have access to it.",
        KIND,
        "model_not_found",
    ),
    "bad_parameter": _failure(400, "'temperature' : number must be at most 2"),
    "context_too_long": _failure(
        400,
        "Please reduce the length of the messages or completion.",
        KIND,
        "context_length_exceeded",
    ),
    "too_large": _failure(
        413,
        "Request too large for model `{model}` in organization `org_sim` on tokens per minute "
        "(TPM): Limit 6000, Requested 9000, please reduce your message size and try again.",
        "tokens",
        "rate_limit_exceeded",
    ),
    "rate_limited": _failure(
        429,
        "Rate limit reached for model `{model}` in organization `org_sim` on tokens per minute "
        "(TPM): Limit 6000, Used 5900, Requested 400. Please try again in 3s.",
        "tokens",
        "rate_limit_exceeded",
        retry_after="3",
    ),
    "flex_capacity": _failure(
        498,
        "Over capacity. Please try again later.",
        "over_capacity",
        "capacity_exceeded",
    ),
    "server_error": _failure(500, "Internal Server Error", "internal_server_error"),
    "overloaded": _failure(
        503, "{model} is currently over capacity.", "internal_server_error", retry_after="5"
    ),
}
# What a stream ends with whose tool call cannot be read.
BROKEN_CALL = {
    "error": {
        "message": "Failed to call a function. Please adjust your prompt. See 'failed_generation' "
        "for more details.",
        "type": KIND,
        "code": "tool_use_failed",
        "failed_generation": "<function=weather>",
        "status_code": 400,
    }
}


def _usage(tokens: Tokens) -> dict[str, Any]:
    usage: dict[str, Any] = {
        "queue_time": 0.04,
        "prompt_tokens": tokens.input,
        "prompt_time": 0.01,
        "completion_tokens": tokens.output,
        "completion_time": 0.04,
        "total_tokens": tokens.input + tokens.output,
        "total_time": 0.05,
    }
    if tokens.cached:
        usage["prompt_tokens_details"] = {"cached_tokens": tokens.cached}
    if tokens.reasoning:
        usage["completion_tokens_details"] = {"reasoning_tokens": tokens.reasoning}
    return usage


GROQ = Provider(
    name="groq",
    sources={
        "errors": "https://console.groq.com/docs/errors",
        "limits": "https://console.groq.com/docs/rate-limits",
        "parameters": "https://console.groq.com/docs/openai",
        "thoughts": "https://console.groq.com/docs/reasoning",
        "foreign thoughts": "https://github.com/janhq/jan/issues/8136",
        "failing streams": "https://github.com/langchain4j/langchain4j/issues/2585",
        "streams": "https://github.com/vercel/ai packages/groq/src/__fixtures__",
    },
    headers=LIMITS,
    models=("openai/gpt-oss-120b", "llama-3.3-70b-versatile"),
    listing=Listing(path="/openai/v1/models"),
    faces=(
        Face(
            path="/openai/v1/chat/completions",
            dialect=ProviderChat(
                ChatTraits(
                    head={"system_fingerprint": "fp_f8b414701e"},
                    choice={"logprobs": None},
                    thoughts=REASONING,
                    has_whole_calls=True,
                    call_id=lambda call: call.token[:9],
                    usage=_usage,
                    usage_in="x_groq",
                    is_usage_unasked=True,
                )
            ),
            failures=FAILURES,
            checks=(
                refuses(UNSUPPORTED, "logprobs", "logit_bias", "top_logprobs"),
                refuses_of_assistants(FOREIGN_THOUGHT, *FOREIGN),
            ),
            stream_failure=error_event(BROKEN_CALL, event="error"),
        ),
        Face(path="/openai/v1/responses", dialect=ResponsesDialect(), failures=FAILURES),
    ),
)
