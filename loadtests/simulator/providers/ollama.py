"""Ollama: no key unless it is its cloud's, errors as objects or bare texts, no cached tokens."""

from __future__ import annotations

from typing import Any

from loadtests.simulator.answers import Tokens
from loadtests.simulator.dialects.messages import MessagesDialect
from loadtests.simulator.dialects.responses import ResponsesDialect
from loadtests.simulator.providers.chat_wire import ChatTraits, ProviderChat
from loadtests.simulator.providers.errors import error_event, in_messages, openai_error
from loadtests.simulator.providers.model import ANYBODY, BEARER, Face, Failure, Listing, Provider
from loadtests.simulator.providers.thoughts import REASONING

KEYS = (BEARER, ANYBODY)
KIND = "invalid_request_error"


def _text(status: int, message: str) -> Failure:
    return Failure(status=status, body={"error": message})


FAILURES = {
    "bad_key": _text(401, "unauthorized"),
    "unknown_model": openai_error(404, "model '{model}' not found", "not_found_error"),
    "bad_parameter": openai_error(
        400, "json: cannot unmarshal string into Go struct field .temperature", KIND
    ),
    "context_too_long": openai_error(400, "the input length exceeds the context length", KIND),
    "no_tools": openai_error(400, "{model} does not support tools", KIND),
    "rate_limited": _text(429, "you've reached your hourly usage limit, please upgrade"),
    "server_error": openai_error(500, "llama runner process has terminated: exit 2", "api_error"),
    "overloaded": _text(503, "server busy, please try again.  maximum pending requests exceeded"),
}


BROKEN = {"error": "an error was encountered while running the model"}


def usage_without_details(tokens: Tokens) -> dict[str, Any]:
    """The three counts alone."""
    return {
        "prompt_tokens": tokens.input,
        "completion_tokens": tokens.output,
        "total_tokens": tokens.input + tokens.output,
    }


OLLAMA = Provider(
    name="ollama",
    sources={
        "compatibility": "https://docs.ollama.com/api/openai-compatibility",
        "errors": "https://docs.ollama.com/api/errors",
        "bodies": "https://github.com/ollama/ollama/blob/main/openai/openai.go",
        "thoughts": "https://docs.ollama.com/capabilities/thinking",
    },
    models=("qwen3.8:27b", "gpt-oss:20b"),
    listing=Listing(
        keys=KEYS,
        entry=lambda model: {
            "id": model,
            "object": "model",
            "created": 1_763_000_000,
            "owned_by": "library",
        },
    ),
    faces=(
        Face(
            path="/v1/chat/completions",
            dialect=ProviderChat(
                ChatTraits(
                    head={"system_fingerprint": "fp_ollama"},
                    first_delta=None,
                    every_delta={"role": "assistant", "content": ""},
                    thoughts=REASONING,
                    has_whole_calls=True,
                    usage=usage_without_details,
                )
            ),
            keys=KEYS,
            failures=FAILURES,
            stream_failure=error_event(BROKEN),
            counts_cached=False,
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
