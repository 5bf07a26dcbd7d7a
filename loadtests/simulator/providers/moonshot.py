"""Moonshot: usage of a stream in its choice, cached tokens beside the other counts."""

from __future__ import annotations

from typing import Any

from loadtests.simulator.answers import Tokens
from loadtests.simulator.dialects.messages import MessagesDialect
from loadtests.simulator.providers.chat_wire import ChatTraits, ProviderChat
from loadtests.simulator.providers.errors import error_event, in_messages
from loadtests.simulator.providers.model import Face, Failure, Listing, Provider

KIND = "invalid_request_error"


def _failure(status: int, message: str, kind: str, **headers: str) -> Failure:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Failure(status=status, body={"error": {"message": message, "type": kind}}, headers=named)


FAILURES = {
    "bad_key": _failure(401, "Invalid Authentication", "invalid_authentication_error"),
    # No 402 here.
    "no_credit": _failure(
        429,
        "Your account org-sim<ak-sim> is suspended, please check your plan and billing details",
        "exceeded_current_quota_error",
    ),
    "forbidden": _failure(
        403, "Your IP address is not in the allow list", "permission_denied_error"
    ),
    "unknown_model": _failure(
        404, "Not found the model {model} or Permission denied", "resource_not_found_error"
    ),
    "bad_parameter": _failure(400, "Invalid request: invalid temperature", KIND),
    "context_too_long": _failure(
        400, "Invalid request: Your request exceeded model token limit: 262144", KIND
    ),
    "content_filter": _failure(
        400, "The request was rejected because it was considered high risk", "content_filter"
    ),
    "rate_limited": _failure(
        429,
        "Your account org-sim<ak-sim> request reached organization max RPM: 3, please try again "
        "after 1 seconds",
        "rate_limit_reached_error",
        retry_after="1",
        x_ratelimit_limit="3",
        x_ratelimit_remaining="0",
        x_ratelimit_reset="1",
    ),
    "too_busy": _failure(
        429, "The engine is currently overloaded, please try again later", "engine_overloaded_error"
    ),
    "server_error": _failure(500, "Failed to process the request", "server_error"),
}


def _usage(tokens: Tokens) -> dict[str, Any]:
    return {
        "prompt_tokens": tokens.input,
        "completion_tokens": tokens.output,
        "total_tokens": tokens.input + tokens.output,
        "cached_tokens": tokens.cached,
    }


def _entry(model: str) -> dict[str, Any]:
    return {
        "id": model,
        "object": "model",
        "created": 1_763_000_000,
        "owned_by": "moonshot",
        "context_length": 262_144,
        "supports_reasoning": True,
    }


MOONSHOT = Provider(
    name="moonshot",
    sources={
        "errors": "https://platform.kimi.ai/docs/api/errors",
        "bodies": "https://github.com/LLM-Red-Team/kimi-cc/issues/16",
        "limits": "https://www.kimi.com/help/kimi-api/api-rate-limits",
        "streams": "https://platform.kimi.ai/docs/guide/"
        "utilize-the-streaming-output-feature-of-kimi-api",
        "messages": "https://platform.kimi.ai/docs/guide/agent-support",
    },
    headers={"msh-request-id": "5f4ef4a4-sim", "x-ratelimit-remaining": "199"},
    models=("kimi-k3", "kimi-k2.6"),
    listing=Listing(entry=_entry),
    faces=(
        Face(
            path="/v1/chat/completions",
            dialect=ProviderChat(
                ChatTraits(
                    head={"system_fingerprint": "fpv0_sim"},
                    call_id=lambda call: f"functions.{call.name}:{int(call.token[-1], 16)}",
                    usage=_usage,
                    usage_in="choice",
                    is_usage_unasked=True,
                )
            ),
            failures=FAILURES,
            stream_failure=error_event(FAILURES["too_busy"].body),
        ),
        Face(
            path="/anthropic/v1/messages",
            dialect=MessagesDialect(),
            failures=in_messages(FAILURES),
        ),
    ),
)
