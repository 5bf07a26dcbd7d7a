"""xAI: errors are a code and a text, a wrong key is a 400, reasoning comes on top of completion."""

from __future__ import annotations

from typing import Any

from loadtests.simulator.answers import Tokens
from loadtests.simulator.dialects.messages import MessagesDialect
from loadtests.simulator.dialects.responses import ResponsesDialect
from loadtests.simulator.providers.chat_wire import ChatTraits, ProviderChat
from loadtests.simulator.providers.errors import error_event, in_messages
from loadtests.simulator.providers.model import Face, Failure, Provider, refuses

INVALID = "Client specified an invalid argument"


def _failure(status: int, code: str, text: str, **headers: str) -> Failure:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Failure(status=status, body={"code": code, "error": text}, headers=named)


UNSUPPORTED = _failure(400, INVALID, "Model {model} does not support parameter {param}.")
FAILURES = {
    "no_key": _failure(
        401,
        "Unauthenticated",
        "No credentials were presented. Please provide an API key in the Authorization header.",
    ),
    "bad_key": _failure(
        400,
        INVALID,
        "Incorrect API key provided: wr***ey. You can obtain an API key from https://console.x.ai.",
    ),
    "no_credit": _failure(
        403,
        "The caller does not have permission to execute the specified operation",
        "Your newly created team doesn't have any credits yet. You can purchase credits on "
        "https://console.x.ai/team/sim.",
    ),
    "content_filter": _failure(
        403,
        "The caller does not have permission to execute the specified operation",
        "Content violates usage guidelines.",
    ),
    "unknown_model": _failure(
        404,
        "Some requested entity was not found",
        "The model {model} does not exist or your team does not have access to it.",
    ),
    "bad_parameter": _failure(
        422,
        "Invalid request content",
        "Failed to deserialize the JSON body into the target type: temperature: invalid type",
    ),
    "context_too_long": _failure(
        400,
        INVALID,
        "This model's maximum prompt length is 131072 but the request contains 140000 tokens.",
    ),
    "rate_limited": _failure(
        429,
        "Some resource has been exhausted",
        "Too many requests for team sim and model {model}. Your team's rate limit is Requests per "
        "Minute: 60.",
        retry_after="9",
    ),
    "server_error": _failure(500, "Internal error", "Internal error encountered."),
    "overloaded": _failure(
        503,
        "The service is currently unavailable",
        "The model is at capacity and currently cannot serve this request. Please try again later.",
    ),
}


def _usage(tokens: Tokens) -> dict[str, Any]:
    """Reasoning is not in the completion, and only the total tells."""
    return {
        "prompt_tokens": tokens.input,
        "completion_tokens": tokens.output - tokens.reasoning,
        "total_tokens": tokens.input + tokens.output,
        "prompt_tokens_details": {
            "text_tokens": tokens.input,
            "audio_tokens": 0,
            "image_tokens": 0,
            "cached_tokens": tokens.cached,
        },
        "completion_tokens_details": {"reasoning_tokens": tokens.reasoning, "audio_tokens": 0},
        "num_sources_used": 0,
        "cost_in_usd_ticks": 1330500,
    }


XAI = Provider(
    name="xai",
    sources={
        "errors": "https://docs.x.ai/docs/key-information/debugging",
        "bodies": "https://github.com/i-am-bee/beeai-framework/issues/447",
        "parameters": "https://github.com/open-webui/open-webui/issues/21266",
        "reasoning": "https://docs.x.ai/docs/guides/reasoning",
        "streams": "https://github.com/vercel/ai packages/xai/src/__fixtures__",
    },
    headers={"x-ratelimit-limit-requests": "480", "x-ratelimit-remaining-requests": "479"},
    models=("grok-4.5", "grok-code-fast-1"),
    faces=(
        Face(
            path="/v1/chat/completions",
            dialect=ProviderChat(
                ChatTraits(
                    id_prefix="",
                    head={"system_fingerprint": "fp_2a885414fb"},
                    first_delta=None,
                    every_delta={"role": "assistant"},
                    has_whole_calls=True,
                    has_null_finish=False,
                    call_id=lambda call: f"call_{call.token[:8]}",
                    usage=_usage,
                    is_usage_unasked=True,
                )
            ),
            failures=FAILURES,
            checks=(refuses(UNSUPPORTED, "presence_penalty", "frequency_penalty", "stop"),),
            stream_failure=error_event(FAILURES["server_error"].body),
        ),
        Face(path="/v1/responses", dialect=ResponsesDialect(), failures=FAILURES),
        Face(path="/v1/messages", dialect=MessagesDialect(), failures=in_messages(FAILURES)),
    ),
)
