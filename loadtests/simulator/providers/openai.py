"""OpenAI, whose wire the others took over: chat, responses and images."""

from __future__ import annotations

from loadtests.simulator.dialects.responses import ResponsesDialect
from loadtests.simulator.providers.chat_wire import ChatTraits, ProviderChat
from loadtests.simulator.providers.errors import error_event, openai_error
from loadtests.simulator.providers.model import Face, Provider, refuses
from loadtests.simulator.providers.thoughts import HIDDEN

KIND = "invalid_request_error"
LIMITS = {
    "x-ratelimit-limit-requests": "10000",
    "x-ratelimit-limit-tokens": "30000000",
    "x-ratelimit-remaining-requests": "9999",
    "x-ratelimit-remaining-tokens": "29999970",
    "x-ratelimit-reset-requests": "6ms",
    "x-ratelimit-reset-tokens": "0s",
}
NO_KEY = openai_error(
    401,
    "You didn't provide an API key. You need to provide your API key in an Authorization header "
    "using Bearer auth (i.e. Authorization: Bearer YOUR_KEY).",
    KIND,
)
NO_MAX_TOKENS = openai_error(
    400,
    "Unsupported parameter: '{param}' is not supported with this model. Use "
    "'max_completion_tokens' instead.",
    KIND,
    "unsupported_parameter",
    "{param}",
)
FAILURES = {
    "no_key": NO_KEY,
    "bad_key": openai_error(
        401,
        "Incorrect API key provided: wrong-***key. You can find your API key at "
        "https://platform.openai.com/account/api-keys.",
        KIND,
        "invalid_api_key",
    ),
    # Which is no 402 here.
    "no_credit": openai_error(
        429,
        "You exceeded your current quota, please check your plan and billing details.",
        "insufficient_quota",
        "insufficient_quota",
    ),
    "forbidden": openai_error(
        403,
        "Country, region, or territory not supported",
        "request_forbidden",
        "unsupported_country_region_territory",
    ),
    "unknown_model": openai_error(
        404,
        "The model `{model}` does not exist or you do not have access to it.",
        KIND,
        "model_not_found",
    ),
    "bad_parameter": openai_error(
        400,
        "Invalid 'temperature': decimal above maximum value. Expected a value <= 2, but got 9.",
        KIND,
        "decimal_above_max_value",
        "temperature",
    ),
    "context_too_long": openai_error(
        400,
        "This model's maximum context length is 128000 tokens. However, your messages resulted in "
        "140006 tokens. Please reduce the length of the messages.",
        KIND,
        "context_length_exceeded",
        "messages",
    ),
    "content_filter": openai_error(
        400,
        "Invalid prompt: your prompt was flagged as potentially violating our usage policy.",
        KIND,
        "invalid_prompt",
    ),
    "rate_limited": openai_error(
        429,
        "Rate limit reached for {model} in organization org-sim on tokens per min (TPM): Limit "
        "30000, Used 29000, Requested 2000. Please try again in 2s.",
        "tokens",
        "rate_limit_exceeded",
        headers={
            **LIMITS,
            "x-ratelimit-remaining-tokens": "1000",
            "x-ratelimit-reset-tokens": "2s",
            "retry-after": "2",
            "retry-after-ms": "2000",
        },
    ),
    "server_error": openai_error(
        500,
        "The server had an error while processing your request. Sorry about that!",
        "server_error",
    ),
    "overloaded": openai_error(
        503,
        "The engine is currently overloaded, please try again later.",
        "server_error",
        "service_unavailable",
    ),
}
OPENAI = Provider(
    name="openai",
    sources={
        "errors": "https://platform.openai.com/docs/guides/error-codes",
        "limits": "https://platform.openai.com/docs/guides/rate-limits",
        "streams": "https://platform.openai.com/docs/api-reference/chat-streaming",
        "max_tokens": "https://platform.openai.com/docs/api-reference/chat/create",
    },
    headers={**LIMITS, "openai-processing-ms": "212", "openai-version": "2020-10-01"},
    models=("gpt-5-mini", "gpt-4.1"),
    faces=(
        Face(
            path="/v1/chat/completions",
            dialect=ProviderChat(
                ChatTraits(
                    thoughts=HIDDEN,
                    head={"service_tier": "default", "system_fingerprint": "fp_44709d6fcb"},
                    choice={"logprobs": None},
                    message={"refusal": None, "annotations": []},
                    first_delta={"role": "assistant", "content": "", "refusal": None},
                )
            ),
            failures=FAILURES,
            checks=(refuses(NO_MAX_TOKENS, "max_tokens", models=("gpt-5-mini",)),),
            stream_failure=error_event(FAILURES["server_error"].body),
        ),
        Face(path="/v1/responses", dialect=ResponsesDialect(), failures=FAILURES),
    ),
)
