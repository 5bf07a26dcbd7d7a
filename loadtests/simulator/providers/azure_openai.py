"""Azure OpenAI, by its v1 API and by deployments: what its filter found, and whom it lets in."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from loadtests.simulator.ask import Ask
from loadtests.simulator.dialects.responses import ResponsesDialect
from loadtests.simulator.exchange import Exchange
from loadtests.simulator.providers.chat_wire import ChatTraits, ProviderChat
from loadtests.simulator.providers.errors import error_event
from loadtests.simulator.providers.face import FailureRefusal
from loadtests.simulator.providers.model import Face, Failure, Listing, Provider, refuses
from loadtests.simulator.providers.thoughts import HIDDEN

KEYS = ("api-key",)
CLEAN = {
    name: {"filtered": False, "severity": "safe"}
    for name in ("hate", "self_harm", "sexual", "violence")
}
LIMITS = {
    "x-ratelimit-limit-requests": "1000",
    "x-ratelimit-limit-tokens": "1000000",
    "x-ratelimit-remaining-requests": "999",
    "x-ratelimit-remaining-tokens": "999970",
    "x-ms-region": "East US",
    "apim-request-id": "b8c8a9f0-sim",
}


def _failure(
    status: int,
    code: str | None,
    message: str,
    headers: Mapping[str, str] | None = None,
    **more: Any,
) -> Failure:
    error = {"code": code, "message": message, **more}
    return Failure(status=status, body={"error": error}, headers=headers or {})


NO_MAX_TOKENS = _failure(
    400,
    "unsupported_parameter",
    "Unsupported parameter: '{param}' is not supported with this model. Use "
    "'max_completion_tokens' instead.",
    param="{param}",
    type="invalid_request_error",
)
FAILURES = {
    "bad_key": _failure(
        401,
        "401",
        "Access denied due to invalid subscription key or wrong API endpoint. Make sure to provide "
        "a valid key for an active subscription and use a correct regional API endpoint for your "
        "resource.",
    ),
    "forbidden": _failure(
        403, "AccessDenied", "Access denied due to Virtual Network/Firewall rules."
    ),
    "unknown_model": _failure(
        404,
        "DeploymentNotFound",
        "The API deployment for this resource does not exist. If you created the deployment within "
        "the last 5 minutes, please wait a moment and try again.",
    ),
    "bad_parameter": _failure(
        400, None, "Invalid 'temperature'.", param="temperature", type="invalid_request_error"
    ),
    "context_too_long": _failure(
        400,
        "context_length_exceeded",
        "This model's maximum context length is 128000 tokens.",
        param="messages",
        type="invalid_request_error",
    ),
    "content_filter": _failure(
        400,
        "content_filter",
        "The response was filtered due to the prompt triggering Azure OpenAI's content management "
        "policy. Please modify your prompt and retry.",
        param="prompt",
        type=None,
        innererror={
            "code": "ResponsibleAIPolicyViolation",
            "content_filter_result": {**CLEAN, "violence": {"filtered": True, "severity": "high"}},
        },
    ),
    "rate_limited": _failure(
        429,
        "RateLimitReached",
        "Your requests to {model} for {model} in East US have exceeded the token rate limit for "
        "your current AIServices S0 pricing tier. Please retry after 7 seconds.",
        headers={
            **LIMITS,
            "x-ratelimit-remaining-tokens": "0",
            "retry-after": "7",
            "retry-after-ms": "7000",
        },
    ),
    "server_error": _failure(
        500, "InternalServerError", "Backend returned unexpected response. Please contact Microsoft"
    ),
    "overloaded": _failure(
        503, "ServiceUnavailable", "The service is temporarily unable to process your request."
    ),
}
# A resource that is not there, as the gateway in front says it.
NO_VERSION = _failure(404, "404", "Resource not found")
# What the filter says of the prompt comes before the first chunk, in one without choices.
OPENING = {
    "choices": [],
    "created": 0,
    "id": "",
    "model": "",
    "object": "",
    "prompt_filter_results": [{"prompt_index": 0, "content_filter_results": CLEAN}],
}
TRAITS = ChatTraits(
    thoughts=HIDDEN,
    head={"system_fingerprint": "fp_ec7eab8ec3"},
    choice={"logprobs": None, "content_filter_results": CLEAN},
    opening=error_event(OPENING).encode(),
    first_delta={"role": "assistant", "content": "", "refusal": None},
    message={"refusal": None, "annotations": []},
)


class _DeploymentChat(ProviderChat):
    """The deployment is in the path, and the version of the API in the query."""

    def read(self, exchange: Exchange) -> Ask:
        if not exchange.parameters().get("api-version"):
            raise FailureRefusal(NO_VERSION)
        ask = super().read(exchange)
        return msgspec.structs.replace(ask, model=exchange.path.split("/")[3])


def _entry(model: str) -> dict[str, Any]:
    return {"id": model, "object": "model", "status": "succeeded", "created_at": 1_763_000_000}


SOURCES = {
    "errors": "https://learn.microsoft.com/azure/ai-services/openai/reference",
    "filter": "https://learn.microsoft.com/azure/ai-services/openai/concepts/content-filter",
    "streams": "https://learn.microsoft.com/azure/ai-foundry/openai/concepts/content-streaming",
    "limits": "https://learn.microsoft.com/azure/ai-services/openai/quotas-limits",
    "404": "https://learn.microsoft.com/answers/questions/1299621",
}
CHECKS = (refuses(NO_MAX_TOKENS, "max_tokens"),)
STREAM_FAILURE = error_event(FAILURES["server_error"].body)
AZURE_OPENAI = Provider(
    name="azure-openai",
    sources=SOURCES,
    headers=LIMITS,
    models=("our-gpt", "our-mini"),
    listing=Listing(path="/openai/v1/models", keys=KEYS, entry=_entry),
    faces=(
        Face(
            path="/openai/v1/chat/completions",
            dialect=ProviderChat(TRAITS),
            keys=KEYS,
            failures=FAILURES,
            checks=CHECKS,
            stream_failure=STREAM_FAILURE,
        ),
        Face(
            path="/openai/v1/responses",
            dialect=ResponsesDialect(),
            keys=KEYS,
            failures=FAILURES,
        ),
    ),
)
AZURE_OPENAI_DEPLOYMENTS = Provider(
    name="azure-openai-deployments",
    sources=SOURCES,
    headers=LIMITS,
    models=("our-gpt", "our-mini"),
    listing=Listing(path="/openai/models", keys=KEYS, entry=_entry),
    faces=(
        Face(
            path=re.compile(r"/openai/deployments/[^/]+/chat/completions"),
            dialect=_DeploymentChat(TRAITS),
            keys=KEYS,
            failures=FAILURES,
            checks=CHECKS,
            stream_failure=STREAM_FAILURE,
        ),
    ),
)
