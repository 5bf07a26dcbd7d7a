"""Gemini: a wrong key is a 400, and when to come back stands in the body of a 429."""

from __future__ import annotations

import re
from typing import Any

from loadtests.simulator.dialects.gemini import GeminiDialect
from loadtests.simulator.providers.model import Face, Failure, Listing, Provider

RPC = "type.googleapis.com/google.rpc."
KEYS = ("x-goog-api-key",)


def _failure(status: int, message: str, name: str, *details: dict[str, Any]) -> Failure:
    error: dict[str, Any] = {"code": status, "message": message, "status": name}
    if details:
        error["details"] = list(details)
    return Failure(status=status, body={"error": error})


FAILURES = {
    "no_key": _failure(
        403,
        "Method doesn't allow unregistered callers (callers without established identity). Please "
        "use API Key or other form of API consumer identity to call this API.",
        "PERMISSION_DENIED",
    ),
    "bad_key": _failure(
        400,
        "API key not valid. Please pass a valid API key.",
        "INVALID_ARGUMENT",
        {
            "@type": RPC + "ErrorInfo",
            "reason": "API_KEY_INVALID",
            "domain": "googleapis.com",
            "metadata": {"service": "generativelanguage.googleapis.com"},
        },
        {"@type": RPC + "DebugInfo", "detail": "Invalid API key: {key}"},
    ),
    "forbidden": _failure(
        403, "Your API key was reported as leaked. Please use another.", "PERMISSION_DENIED"
    ),
    "no_billing": _failure(
        400,
        "User location is not supported for the API use.",
        "FAILED_PRECONDITION",
    ),
    "unknown_model": _failure(
        404,
        "models/{model} is not found for API version v1beta, or is not supported for "
        "generateContent. Call ListModels to see the list of available models and their supported "
        "methods.",
        "NOT_FOUND",
    ),
    "bad_parameter": _failure(
        400,
        "Invalid JSON payload received. Unknown name \"seeds\" at 'generation_config': Cannot find "
        "field.",
        "INVALID_ARGUMENT",
        {
            "@type": RPC + "BadRequest",
            "fieldViolations": [{"field": "generation_config", "description": "Cannot find it."}],
        },
    ),
    "context_too_long": _failure(
        400,
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        "INVALID_ARGUMENT",
    ),
    "rate_limited": _failure(
        429,
        "You exceeded your current quota, please check your plan and billing details.",
        "RESOURCE_EXHAUSTED",
        {
            "@type": RPC + "QuotaFailure",
            "violations": [
                {"quotaId": "GenerateRequestsPerMinutePerProjectPerModel-FreeTier"},
            ],
        },
        {"@type": RPC + "RetryInfo", "retryDelay": "34.4s"},
    ),
    "server_error": _failure(500, "An internal error has occurred.", "INTERNAL"),
    "overloaded": _failure(503, "The model is overloaded. Please try again later.", "UNAVAILABLE"),
    "timeout": _failure(
        504,
        "The request timed out. Please try again.",
        "DEADLINE_EXCEEDED",
    ),
}
GEMINI = Provider(
    name="gemini",
    sources={
        "errors": "https://ai.google.dev/gemini-api/docs/troubleshooting",
        "bodies": "https://github.com/FirebaseExtended/vertexai-sdk-test-data",
        "usage": "https://ai.google.dev/api/generate-content",
        "models": "https://ai.google.dev/api/models",
    },
    headers={"server-timing": "gfet4t7; dur=812"},
    models=("gemini-3-flash", "gemini-3-pro"),
    listing=Listing(
        path="/v1beta/models",
        keys=KEYS,
        entry=lambda model: {
            "name": f"models/{model}",
            "displayName": model,
            "inputTokenLimit": 1048576,
            "supportedGenerationMethods": ["generateContent", "countTokens"],
        },
        whole=lambda entries: {"models": entries},
    ),
    faces=(
        Face(
            path=re.compile(r"/v1beta/models/[^/]+:(generateContent|streamGenerateContent)"),
            dialect=GeminiDialect(),
            keys=KEYS,
            failures=FAILURES,
        ),
    ),
)
