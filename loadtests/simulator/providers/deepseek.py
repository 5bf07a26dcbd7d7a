"""DeepSeek: keep-alives before an answer, whole or not; cached tokens under names of its own."""

from __future__ import annotations

from typing import Any

from loadtests.simulator.answers import Tokens
from loadtests.simulator.dialects.messages import MessagesDialect
from loadtests.simulator.providers.chat_wire import ChatTraits, ProviderChat
from loadtests.simulator.providers.errors import error_event, in_messages, openai_error
from loadtests.simulator.providers.model import Face, Listing, Provider

BAD = "invalid_request_error"
FAILURES = {
    "bad_key": openai_error(
        401, "Authentication Fails, Your api key: ****-key is invalid", "authentication_error", BAD
    ),
    "no_credit": openai_error(402, "Insufficient Balance", "unknown_error", BAD),
    "unknown_model": openai_error(
        400,
        "The supported API model names are deepseek-v4-flash or deepseek-v4-pro, but you passed "
        "{model}.",
        BAD,
        BAD,
    ),
    "bad_parameter": openai_error(
        422,
        "Failed to deserialize the JSON body into the target type: temperature: invalid type: "
        "string, expected f32",
        BAD,
        BAD,
    ),
    "context_too_long": openai_error(
        400,
        "This model's maximum context length is 131072 tokens. However, you requested 140000 "
        "tokens. Please reduce the length of the messages or completion.",
        BAD,
        BAD,
    ),
    "content_filter": openai_error(400, "Content Exists Risk", BAD, BAD),
    "rate_limited": openai_error(
        429, "Rate limit reached. Please pace your requests reasonably.", "rate_limit_error", BAD
    ),
    "server_error": openai_error(500, "Internal Server Error", "server_error", "internal_error"),
    "overloaded": openai_error(
        503,
        "Service is too busy. We advise users to temporarily switch to alternative LLM API "
        "service providers.",
        "service_unavailable_error",
        "service_unavailable",
    ),
}


def _usage(tokens: Tokens) -> dict[str, Any]:
    """Without the details of OpenAI, which came later and are not everywhere."""
    return {
        "prompt_tokens": tokens.input,
        "completion_tokens": tokens.output,
        "total_tokens": tokens.input + tokens.output,
        "completion_tokens_details": {"reasoning_tokens": tokens.reasoning},
        "prompt_cache_hit_tokens": tokens.cached,
        "prompt_cache_miss_tokens": tokens.input - tokens.cached,
    }


DEEPSEEK = Provider(
    name="deepseek",
    sources={
        "errors": "https://api-docs.deepseek.com/quick_start/error_codes",
        "bodies": "https://github.com/1Panel-dev/MaxKB/issues/3797",
        "keep-alive": "https://api-docs.deepseek.com/quick_start/rate_limit",
        "usage": "https://api-docs.deepseek.com/api/create-chat-completion",
        "streams": "https://github.com/vercel/ai packages/deepseek/src/chat/__fixtures__",
        "messages": "https://api-docs.deepseek.com/guides/anthropic_api",
    },
    models=("deepseek-v4-flash", "deepseek-v4-pro"),
    listing=Listing(
        entry=lambda model: {"id": model, "object": "model", "owned_by": "deepseek"},
    ),
    faces=(
        Face(
            path="/v1/chat/completions",
            dialect=ProviderChat(
                ChatTraits(
                    id_prefix="",
                    head={"system_fingerprint": "a26a7955944dc5c60445bff77fac9c8e"},
                    choice={"logprobs": None},
                    opening=b": keep-alive\n\n: keep-alive\n\n",
                    whole_opening=b"\n\n\n",
                    first_delta={"role": "assistant", "content": None, "reasoning_content": ""},
                    last_delta={"content": "", "reasoning_content": None},
                    call_id=lambda call: f"call_00_{call.token[:24]}",
                    usage=_usage,
                    usage_in="last_chunk",
                    is_usage_unasked=True,
                )
            ),
            failures=FAILURES,
            stream_failure=error_event(FAILURES["server_error"].body),
        ),
        Face(
            path="/anthropic/v1/messages",
            dialect=MessagesDialect(),
            keys=("x-api-key", "bearer"),
            failures=in_messages(FAILURES),
        ),
    ),
)
