"""vLLM: errors with and without an envelope, numbers as codes, a terminator behind an error."""

from __future__ import annotations

from typing import Any

from loadtests.simulator.answers import Tokens
from loadtests.simulator.dialects.chat import DONE
from loadtests.simulator.dialects.messages import MessagesDialect
from loadtests.simulator.dialects.responses import ResponsesDialect
from loadtests.simulator.providers.chat_wire import ChatTraits, ProviderChat
from loadtests.simulator.providers.errors import error_event, in_messages, openai_error
from loadtests.simulator.providers.model import ANYBODY, BEARER, Face, Failure, Listing, Provider
from loadtests.simulator.providers.thoughts import REASONING

KEYS = (BEARER, ANYBODY)
BAD = "BadRequestError"


def _plain(status: int, message: str, kind: str) -> Failure:
    """As it was before the error got an envelope."""
    body = {"object": "error", "message": message, "type": kind, "param": None, "code": status}
    return Failure(status=status, body=body)


FAILURES = {
    "bad_key": Failure(status=401, body={"error": "Unauthorized"}),
    "unknown_model": openai_error(
        404, "The model `{model}` does not exist.", "NotFoundError", 404, "model"
    ),
    "unknown_model_plain": _plain(404, "The model `{model}` does not exist.", "NotFoundError"),
    "bad_parameter": openai_error(
        400, "temperature must be non-negative, got -1.0.", BAD, 400, "temperature"
    ),
    "bad_parameter_plain": _plain(400, "temperature must be non-negative, got -1.0.", BAD),
    "context_too_long": openai_error(
        400,
        "This model's maximum context length is 32768 tokens. However, your request has 40000 "
        "input tokens. Please reduce the length of the input messages.",
        BAD,
        400,
        "input_tokens",
    ),
    "server_error": openai_error(
        500, "EngineCore encountered an issue.", "InternalServerError", 500
    ),
    "overloaded": openai_error(503, "The server is overloaded.", "ServiceUnavailableError", 503),
}


def _usage(tokens: Tokens) -> dict[str, Any]:
    return {
        "prompt_tokens": tokens.input,
        "total_tokens": tokens.input + tokens.output,
        "completion_tokens": tokens.output,
        "prompt_tokens_details": {"cached_tokens": tokens.cached},
    }


VLLM = Provider(
    name="vllm",
    sources={
        "serving": "https://docs.vllm.ai/en/stable/serving/online_serving",
        "errors": "https://github.com/vllm-project/vllm/tree/main/vllm/entrypoints/openai",
        "thoughts": "https://docs.vllm.ai/en/stable/features/reasoning_outputs",
    },
    models=("Qwen/Qwen3-8B", "lora-a"),
    listing=Listing(
        keys=KEYS,
        entry=lambda model: {
            "id": model,
            "object": "model",
            "created": 1_763_000_000,
            "owned_by": "vllm",
            "root": model,
            "parent": None,
            "max_model_len": 32_768,
            "permission": [{"id": "modelperm-sim", "object": "model_permission"}],
        },
    ),
    faces=(
        Face(
            path="/v1/chat/completions",
            dialect=ProviderChat(
                ChatTraits(
                    choice={"logprobs": None, "stop_reason": None},
                    message={"refusal": None, "annotations": None, "audio": None},
                    thoughts=REASONING,
                    call_id=lambda call: call.id("chatcmpl-tool-"),
                    usage=_usage,
                )
            ),
            keys=KEYS,
            failures=FAILURES,
            stream_failure=error_event(FAILURES["server_error"].body) + DONE.decode(),
        ),
        Face(path="/v1/responses", dialect=ResponsesDialect(), keys=KEYS, failures=FAILURES),
        Face(
            path="/v1/messages",
            dialect=MessagesDialect(),
            keys=KEYS,
            failures=in_messages(FAILURES),
        ),
    ),
)
