"""MiniMax: errors in a 200 among others with a status, thoughts in the text, traces in headers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loadtests.simulator.answers import Answer, Tokens
from loadtests.simulator.ask import Ask
from loadtests.simulator.dialects.base import encode
from loadtests.simulator.dialects.messages import MessagesDialect
from loadtests.simulator.dialects.responses import ResponsesDialect
from loadtests.simulator.providers.chat_wire import ChatTraits, ProviderChat
from loadtests.simulator.providers.errors import error_event, in_messages
from loadtests.simulator.providers.model import Face, Failure, Provider
from loadtests.simulator.providers.thoughts import THINK_TAGS

TRACE = {"trace-id": "05997465cd2ee4bd50b24b216c911b75"}
GOOD = {"status_code": 0, "status_msg": ""}
# What stands in every answer and says nothing as long as nothing was found.
SENSITIVE = {
    "input_sensitive": False,
    "output_sensitive": False,
    "input_sensitive_type": 0,
    "output_sensitive_type": 0,
    "output_sensitive_int": 0,
}


def _told(status: int, kind: str, message: str) -> Failure:
    """An error with a status of its own."""
    error = {"type": kind, "message": message, "http_code": str(status)}
    body = {"type": "error", "error": error, "request_id": TRACE["trace-id"]}
    return Failure(status=status, body=body, headers=TRACE)


def _within(code: int, message: str) -> Failure:
    """An error in place of the choices, in an answer that is otherwise all there."""
    body = {
        "id": TRACE["trace-id"],
        "choices": None,
        "created": 1_763_000_000,
        "model": "{model}",
        "object": "chat.completion",
        "usage": {"total_tokens": 0, "total_characters": 0},
        **SENSITIVE,
        "base_resp": {"status_code": code, "status_msg": message},
    }
    return Failure(status=200, body=body, headers=TRACE)


COMMON = {
    "bad_key": _told(401, "authorized_error", "invalid api key (2049)"),
    "no_credit": _told(429, "insufficient_balance_error", "insufficient balance (1008)"),
    "unknown_model": _told(400, "bad_request_error", "invalid params, unknown model '{model}'"),
    "bad_parameter": _told(400, "bad_request_error", "invalid params, temperature (2013)"),
    "context_too_long": _told(
        400, "bad_request_error", "invalid params, context window exceeds limit (2013)"
    ),
    "rate_limited": _told(429, "rate_limit_error", "rate limit exceeded(RPM) (1002)"),
    "server_error": _told(500, "api_error", "unknown error, 999 (1000)"),
    "overloaded": _told(529, "overloaded_error", "The server is overloaded (2064)"),
}
WITHIN = {
    "wrong_key_within": _within(1004, "login fail: Please carry the API secret key"),
    "no_credit_within": _within(1008, "insufficient balance"),
    "rate_limited_within": _within(1002, "rate limit exceeded(RPM)"),
    "content_filter": _within(1026, "input new_sensitive"),
    "bad_parameter_within": _within(2013, "invalid params"),
    "timeout_within": _within(1001, "request timeout"),
    "server_error_within": _within(1033, "system error, please retry later"),
}


def _usage(tokens: Tokens) -> dict[str, Any]:
    return {
        "total_tokens": tokens.input + tokens.output,
        "total_characters": 0,
        "prompt_tokens": tokens.input,
        "completion_tokens": tokens.output,
        "prompt_tokens_details": {"cached_tokens": tokens.cached},
        "completion_tokens_details": {"reasoning_tokens": tokens.reasoning},
    }


class _Chat(ProviderChat):
    """What was found in the text, and whether all went well, stands in the last chunk."""

    def plain(self, ask: Ask, answer: Answer) -> bytes:
        ends = encode({**SENSITIVE, "base_resp": GOOD})
        return super().plain(ask, answer)[:-1] + b"," + ends[1:]

    def _last_members(self, answer: Answer, usage: Mapping[str, Any] | None) -> dict[str, Any]:
        found = super()._last_members(answer, usage)
        return {**found, **SENSITIVE, "base_resp": GOOD}


MINIMAX = Provider(
    name="minimax",
    sources={
        "errors": "https://platform.minimax.io/docs/api-reference/errorcode",
        "bodies": "https://github.com/wavetermdev/waveterm/issues/3238",
        "no credit": "https://github.com/modelscope/modelscope/issues/1691",
        "within": "https://github.com/MiniMax-AI/MiniMax-M2.5/issues/18",
        "answers": "https://platform.minimax.io/docs/api-reference/text-chat",
        "thoughts": "https://platform.minimax.io/docs/api-reference/text-openai-api",
        "messages": "https://platform.minimax.io/docs/api-reference/text-anthropic-api",
    },
    headers=TRACE,
    models=("MiniMax-M3", "MiniMax-M2.7"),
    faces=(
        Face(
            path="/v1/chat/completions",
            dialect=_Chat(
                ChatTraits(
                    id_prefix="",
                    first_delta={"role": "assistant", "content": "", "name": "MiniMax AI"},
                    message={"name": "MiniMax AI", "audio_content": ""},
                    thoughts=THINK_TAGS,
                    has_whole_calls=True,
                    usage=_usage,
                    usage_in="last_chunk",
                    is_usage_unasked=True,
                )
            ),
            failures={**COMMON, **WITHIN},
            stream_failure=error_event(WITHIN["server_error_within"].body),
        ),
        Face(path="/v1/responses", dialect=ResponsesDialect(), failures=COMMON),
        Face(
            path="/anthropic/v1/messages", dialect=MessagesDialect(), failures=in_messages(COMMON)
        ),
    ),
)
