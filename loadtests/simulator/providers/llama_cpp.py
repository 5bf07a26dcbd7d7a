"""llama.cpp's server: one model under any name, timings beside the usage, numbers as codes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loadtests.simulator.answers import Answer
from loadtests.simulator.dialects.messages import MessagesDialect
from loadtests.simulator.providers.chat_wire import ChatTraits, ProviderChat
from loadtests.simulator.providers.errors import error_event, in_messages
from loadtests.simulator.providers.model import ANYBODY, BEARER, Face, Failure, Listing, Provider
from loadtests.simulator.providers.ollama import usage_without_details

KEYS = (BEARER, ANYBODY)
TIMINGS = {
    "cache_n": 400,
    "prompt_n": 600,
    "prompt_ms": 30.9,
    "predicted_n": 100,
    "predicted_ms": 661.0,
    "predicted_per_second": 52.9,
}


def _failure(status: int, message: str, kind: str, **more: Any) -> Failure:
    return Failure(
        status=status, body={"error": {"code": status, "message": message, "type": kind, **more}}
    )


FAILURES = {
    "bad_key": _failure(401, "Invalid API Key", "authentication_error"),
    "bad_parameter": _failure(400, "Expected 'messages' to be an array", "invalid_request_error"),
    "context_too_long": _failure(
        400,
        "request (4476 tokens) exceeds the available context size (4096 tokens), try increasing it",
        "exceed_context_size_error",
        n_prompt_tokens=4476,
        n_ctx=4096,
    ),
    "unsupported": _failure(501, "This server does not support embeddings.", "not_supported_error"),
    "server_error": _failure(500, "Failed to parse input at pos 12", "server_error"),
    # While it loads its model.
    "overloaded": _failure(503, "Loading model", "unavailable_error"),
}


class _Chat(ProviderChat):
    def _last_members(self, answer: Answer, usage: Mapping[str, Any] | None) -> dict[str, Any]:
        return {**super()._last_members(answer, usage), "timings": TIMINGS}


LLAMA_CPP = Provider(
    name="llama.cpp",
    sources={
        "server": "https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md",
        "errors": "https://github.com/ggml-org/llama.cpp/blob/master/tools/server/"
        "server-common.cpp",
    },
    headers={"server": "llama.cpp"},
    models=("gpt-oss-20b-mxfp4.gguf", "no-such-model"),  # any name will do
    listing=Listing(
        keys=KEYS,
        whole=lambda entries: {
            "models": [{"name": entry["id"], "model": entry["id"]} for entry in entries],
            "object": "list",
            "data": entries,
        },
    ),
    faces=(
        Face(
            path="/v1/chat/completions",
            dialect=_Chat(
                ChatTraits(
                    head={"system_fingerprint": "b7140-sim"},
                    first_delta={"role": "assistant", "content": None},
                    call_id=lambda call: call.token[:32],
                    usage=usage_without_details,
                )
            ),
            keys=KEYS,
            failures=FAILURES,
            stream_failure=error_event(FAILURES["server_error"].body),
            counts_cached=False,
        ),
        Face(
            path="/v1/messages",
            dialect=MessagesDialect(),
            keys=KEYS,
            failures=in_messages(FAILURES),
        ),
    ),
)
