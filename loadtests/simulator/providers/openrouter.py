"""OpenRouter: comments before the first chunk, errors within a 200, codes that are numbers."""

from __future__ import annotations

from typing import Any

from loadtests.simulator.answers import Tokens
from loadtests.simulator.dialects.messages import MessagesDialect
from loadtests.simulator.dialects.responses import ResponsesDialect
from loadtests.simulator.providers.chat_wire import ChatTraits, ProviderChat, usage_of_openai
from loadtests.simulator.providers.errors import error_event, in_messages
from loadtests.simulator.providers.model import Face, Failure, Listing, Provider
from loadtests.simulator.providers.thoughts import REASONING_DETAILS


def _failure(
    status: int, message: str, *, headers: dict[str, str] | None = None, **meta: Any
) -> Failure:
    error: dict[str, Any] = {"message": message, "code": status}
    if meta:
        error["metadata"] = meta
    return Failure(status=status, body={"error": error}, headers=headers or {})


FAILURES = {
    "no_key": _failure(401, "No auth credentials found"),
    "bad_key": _failure(401, "User not found."),
    "no_credit": _failure(
        402,
        "This request requires more credits, or fewer max_tokens. You requested up to 4000 tokens, "
        "but can only afford 812.",
        limit_source="openrouter_credits",
    ),
    "moderated": _failure(
        403,
        "{model} requires moderation. Your input was flagged for violence.",
        reasons=["violence"],
        flagged_input="Hello",
        provider_name="OpenAI",
        model_slug="{model}",
    ),
    "unknown_model": _failure(400, "{model} is not a valid model ID"),
    "no_endpoints": _failure(404, "No endpoints found for {model}."),
    "bad_parameter": _failure(400, "Provider returned error", raw="temperature out of range"),
    "context_too_long": _failure(
        400,
        "This endpoint's maximum context length is 131072 tokens. However, you requested about "
        "140000 tokens. Please reduce the length of either one.",
    ),
    "timeout": _failure(408, "Your request timed out"),
    "rate_limited": _failure(
        429,
        "Rate limit exceeded: free-models-per-min.",
        headers={
            "x-ratelimit-limit": "20",
            "x-ratelimit-remaining": "0",
            "x-ratelimit-reset": "1795370460000",
            "retry-after": "11",
        },
    ),
    "server_error": _failure(500, "Internal Server Error"),
    "provider_down": _failure(
        502, "Provider returned error", raw="upstream connect error", provider_name="Acme"
    ),
    "overloaded": _failure(
        503,
        "There is no available model provider that meets your routing requirements",
        headers={"retry-after": "4"},
    ),
}
EMPTY_CHOICE = {
    "index": 0,
    "delta": {"role": "assistant", "content": ""},
    "finish_reason": None,
    "native_finish_reason": None,
    "logprobs": None,
}


def _usage(tokens: Tokens) -> dict[str, Any]:
    return {**usage_of_openai(tokens), "cost": 0.00014, "is_byok": False}


OPENROUTER = Provider(
    name="openrouter",
    sources={
        "errors": "https://openrouter.ai/docs/api/reference/errors-and-debugging",
        "streams": "https://openrouter.ai/docs/api/reference/streaming",
        "usage": "https://openrouter.ai/docs/use-cases/usage-accounting",
        "thoughts": "https://openrouter.ai/docs/use-cases/reasoning-tokens",
        "models": "https://openrouter.ai/docs/api/api-reference/models/get-models",
    },
    headers={"x-generation-id": "gen-1795370400-simulated"},
    models=("deepseek/deepseek-v4-flash", "z-ai/glm-5"),
    listing=Listing(
        path="/api/v1/models",
        entry=lambda model: {
            "id": model,
            "canonical_slug": model,
            "name": model,
            "context_length": 131072,
            "pricing": {"prompt": "0.00000025", "completion": "0.000001"},
        },
        whole=lambda entries: {"data": entries},
    ),
    faces=(
        Face(
            path="/api/v1/chat/completions",
            dialect=ProviderChat(
                ChatTraits(
                    id_prefix="gen-1795370400-",
                    head={"provider": "Acme"},
                    choice={"native_finish_reason": None, "logprobs": None},
                    opening=b": OPENROUTER PROCESSING\n\n: OPENROUTER PROCESSING\n\n",
                    every_delta={"role": "assistant", "content": ""},
                    first_delta=None,
                    thoughts=REASONING_DETAILS,
                    usage=_usage,
                    own_chunk_choices=(EMPTY_CHOICE,),
                    is_usage_unasked=True,
                )
            ),
            failures=FAILURES,
            stream_failure=error_event(
                {
                    "id": "gen-1795370400-simulated",
                    "object": "chat.completion.chunk",
                    "created": 1795370400,
                    "model": "{model}",
                    "provider": "Acme",
                    "error": {"code": 502, "message": "Provider disconnected unexpectedly"},
                    "choices": [
                        {
                            "index": 0,
                            "delta": {"role": "assistant", "content": ""},
                            "finish_reason": "error",
                            "native_finish_reason": None,
                        }
                    ],
                }
            ),
        ),
        Face(path="/api/v1/responses", dialect=ResponsesDialect(), failures=FAILURES),
        Face(path="/api/v1/messages", dialect=MessagesDialect(), failures=in_messages(FAILURES)),
    ),
)
