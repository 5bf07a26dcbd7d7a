"""Mistral: thoughts among the content, and nothing accepted that is not documented."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from loadtests.simulator.answers import Tokens
from loadtests.simulator.ask import Ask
from loadtests.simulator.providers.chat_wire import ChatTraits, ProviderChat
from loadtests.simulator.providers.errors import error_event
from loadtests.simulator.providers.model import Face, Failure, Listing, Provider, only
from loadtests.simulator.providers.thoughts import CONTENT_PARTS

CALL_ID = re.compile(r"[a-zA-Z0-9]{9}")
PARAMETERS = (
    *("model", "messages", "stream", "temperature", "top_p", "max_tokens", "stop", "random_seed"),
    *("metadata", "response_format", "tools", "tool_choice", "presence_penalty", "n"),
    *("frequency_penalty", "prediction", "parallel_tool_calls", "prompt_mode", "safe_prompt"),
    *("reasoning_effort", "prompt_cache_key", "guardrails", "service_tier"),
)
ASSISTANT = frozenset({"role", "content", "tool_calls", "prefix"})
LIMITS = {
    "x-ratelimit-limit-req-minute": "300",
    "x-ratelimit-limit-tokens-minute": "2000000",
    "x-ratelimit-remaining-req-minute": "299",
    "x-ratelimit-remaining-tokens-minute": "1998000",
}


def _failure(
    status: int, message: Any, kind: str, code: str | None = None, **headers: str
) -> Failure:
    body = {"object": "error", "message": message, "type": kind, "param": None, "code": code}
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Failure(status=status, body=body, headers=named)


def _extra(*place: str) -> Failure:
    """A member nobody knows, as a validator of the schema says it."""
    detail = {
        "type": "extra_forbidden",
        "loc": ["body", *place],
        "msg": "Extra inputs are not permitted",
        "input": None,
    }
    return _failure(422, {"detail": [detail]}, "invalid_request_error")


FAILURES = {
    # Of the proxy before the API.
    "bad_key": Failure(status=401, body={"detail": "Unauthorized"}),
    "no_credit": Failure(status=402, body={"detail": "Payment required: check your subscription."}),
    "unknown_model": _failure(400, "Invalid model: {model}", "invalid_model", "1500"),
    "bad_parameter": _extra("{param}"),
    "bad_call_id": _failure(
        400,
        "Tool call id was {param} but must be a-z, A-Z, 0-9, with a length of 9.",
        "invalid_function_call",
        "3280",
    ),
    "context_too_long": _failure(
        400,
        "Prompt contains 140000 tokens and 0 draft tokens, too large for model with 131072 maximum "
        "context length",
        "invalid_request_prompt",
        "3051",
    ),
    "rate_limited": _failure(
        429,
        "Rate limit exceeded",
        "rate_limited",
        "1300",
        retry_after="6",
        x_ratelimit_remaining_req_minute="0",
    ),
    "capacity": _failure(
        429,
        "Service tier capacity exceeded for this model.",
        "service_tier_capacity_exceeded",
        "3505",
    ),
    "server_error": _failure(500, "Internal server error", "internal_server_error", "3000"),
    "overloaded": _failure(503, "Service unavailable.", "unreachable_backend", "1100"),
}


def _known_members(body: Mapping[str, Any], _: Ask) -> tuple[Failure, str] | None:
    """Of the assistant's turns, as other providers' ways to say thoughts are in these."""
    for number, turn in enumerate(body["messages"]):
        if turn["role"] != "assistant":
            continue
        unknown = next((name for name in turn if name not in ASSISTANT), None)
        if unknown is not None:
            return _extra("messages", str(number), "assistant", "{param}"), unknown
    return None


def _call_ids(messages: list[dict[str, Any]]) -> Iterator[str]:
    for turn in messages:
        yield from (call["id"] for call in turn.get("tool_calls") or ())
        if turn["role"] == "tool":
            yield turn["tool_call_id"]


def _good_ids(body: Mapping[str, Any], _: Ask) -> tuple[Failure, str] | None:
    wrong = (one for one in _call_ids(body["messages"]) if not CALL_ID.fullmatch(one))
    found = next(wrong, None)
    return None if found is None else (FAILURES["bad_call_id"], found)


def _usage(tokens: Tokens) -> dict[str, Any]:
    return {
        "prompt_tokens": tokens.input,
        "total_tokens": tokens.input + tokens.output,
        "completion_tokens": tokens.output,
        "prompt_tokens_details": {"cached_tokens": tokens.cached},
        "num_cached_tokens": tokens.cached,
    }


MISTRAL = Provider(
    name="mistral",
    sources={
        "parameters": "https://docs.mistral.ai/api/endpoint/chat",
        "stream_options": "https://github.com/dnakov/anon-kode/issues/53",
        "max_completion_tokens": "https://github.com/editor-code-assistant/eca/issues/231",
        "reasoning_content": "https://github.com/charmbracelet/crush/issues/1590",
        "call ids": "https://github.com/nearai/ironclaw/issues/1241",
        "streams": "https://github.com/vercel/ai packages/mistral/src/__fixtures__",
        "thoughts": "https://docs.mistral.ai/capabilities/reasoning",
    },
    headers=LIMITS,
    models=("mistral-medium-latest", "mistral-small-latest"),
    listing=Listing(
        entry=lambda model: {
            "id": model,
            "object": "model",
            "created": 1_769_088_912,
            "owned_by": "mistralai",
            "capabilities": {"completion_chat": True, "function_calling": True},
        },
    ),
    faces=(
        Face(
            path="/v1/chat/completions",
            dialect=ProviderChat(
                ChatTraits(
                    id_prefix="",
                    thoughts=CONTENT_PARTS,
                    message={"tool_calls": None},
                    has_whole_calls=True,
                    has_joint_finish=True,
                    has_call_index=False,
                    call_id=lambda call: call.token[:9],
                    call={},
                    usage=_usage,
                    usage_in="last_chunk",
                    is_usage_unasked=True,
                )
            ),
            failures=FAILURES,
            checks=(only(FAILURES["bad_parameter"], *PARAMETERS), _known_members, _good_ids),
            stream_failure=error_event(FAILURES["server_error"].body),
        ),
    ),
)
