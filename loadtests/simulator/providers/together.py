"""Together: members of its own in every choice, usage in the last one, a bare list of models."""

from __future__ import annotations

from typing import Any

from loadtests.simulator.answers import Tokens
from loadtests.simulator.providers.chat_wire import ChatTraits, ProviderChat
from loadtests.simulator.providers.errors import error_event
from loadtests.simulator.providers.model import Face, Failure, Listing, Provider
from loadtests.simulator.providers.thoughts import REASONING

BAD = "invalid_request_error"
LIMITS = {
    "x-ratelimit-limit": "10",
    "x-ratelimit-remaining": "9",
    "x-ratelimit-reset": "1",
    "x-tokenlimit-limit": "3000",
    "x-tokenlimit-remaining": "2990",
}


def _failure(
    status: int, message: str, kind: str, code: str | None = None, **headers: str
) -> Failure:
    error = {"message": message, "type": kind, "param": None, "code": code}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Failure(status=status, body={"id": "oNy8vXE-sim", "error": error}, headers=named)


FAILURES = {
    "bad_key": _failure(
        401,
        "Invalid API key provided. You can find your API key at "
        "https://api.together.xyz/settings/api-keys.",
        BAD,
        "invalid_api_key",
    ),
    "no_credit": _failure(
        402,
        "Credit limit exceeded, please navigate to https://api.together.ai/settings/billing.",
        "credit_limit",
    ),
    # Its word for a prompt that is too long.
    "context_too_long": _failure(
        403,
        "Input token count + max_tokens must be less than the context length of the model.",
        BAD,
    ),
    "unknown_model": _failure(
        404,
        "Unable to access model {model}. Please visit https://api.together.ai/models to view the "
        "list of supported models.",
        BAD,
        "model_not_available",
    ),
    "bad_parameter": _failure(
        400, 'Input validation error: `temperature` must be "number"', BAD, "invalid_parameter"
    ),
    "content_filter": _failure(
        422, "The prompt was refused by the safety model.", BAD, "content_filter"
    ),
    "rate_limited": _failure(
        429,
        "You have been rate limited. Your rate limit is 600 queries per minute.",
        "rate_limit",
        x_ratelimit_remaining="0",
        x_ratelimit_reset="3",
        retry_after="3",
    ),
    "server_error": _failure(500, "Internal server error", "server_error"),
    "overloaded": _failure(
        503, "The server is overloaded or not ready yet.", "service_unavailable"
    ),
}


def _usage(tokens: Tokens) -> dict[str, Any]:
    return {
        "prompt_tokens": tokens.input,
        "completion_tokens": tokens.output,
        "total_tokens": tokens.input + tokens.output,
        "cached_tokens": tokens.cached,
    }


TOGETHER = Provider(
    name="together",
    sources={
        "errors": "https://docs.together.ai/docs/error-codes",
        "limits": "https://docs.together.ai/docs/rate-limits",
        "bodies": "https://github.com/harshitv804/LawGPT/issues/4",
        "streams": "https://docs.together.ai/reference/chat-completions-1",
        "thoughts": "https://docs.together.ai/docs/reasoning-overview",
        "models": "https://docs.together.ai/reference/models-1",
    },
    headers=LIMITS,
    models=("zai-org/GLM-5", "openai/gpt-oss-120b"),
    listing=Listing(
        entry=lambda model: {"id": model, "object": "model", "type": "chat", "running": False},
        whole=lambda entries: entries,
    ),
    faces=(
        Face(
            path="/v1/chat/completions",
            dialect=ProviderChat(
                ChatTraits(
                    id_prefix="oNy8vXE-",
                    head={"prompt": []},
                    choice={"logprobs": None, "seed": None, "text": ""},
                    every_delta={"token_id": 1234, "role": "assistant", "tool_calls": None},
                    first_delta=None,
                    last_delta={"content": ""},
                    message={"tool_calls": []},
                    thoughts=REASONING,
                    usage=_usage,
                    usage_in="last_chunk",
                    is_usage_unasked=True,
                )
            ),
            failures=FAILURES,
            stream_failure=error_event(FAILURES["server_error"].body),
        ),
    ),
)
