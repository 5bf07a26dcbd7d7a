"""Ark: codes with a part behind a dot, an empty `param`, 429 for servers that are too busy."""

from __future__ import annotations

from loadtests.simulator.dialects.responses import ResponsesDialect
from loadtests.simulator.providers.chat_wire import ChatTraits, ProviderChat
from loadtests.simulator.providers.errors import error_event, openai_error
from loadtests.simulator.providers.model import Face, Failure, Listing, Provider

ID = "Request id: 021763834000000sim"


def _failure(status: int, code: str, kind: str, message: str) -> Failure:
    return openai_error(status, f"{message} {ID}", kind, code, "")


FAILURES = {
    "bad_key": _failure(401, "AuthenticationError", "Unauthorized", "The API key doesn't exist."),
    "no_credit": _failure(
        403,
        "AccountOverdueError",
        "Forbidden",
        "The request failed because your account has an overdue balance.",
    ),
    "forbidden": _failure(
        403,
        "AccessDenied",
        "Forbidden",
        "The request failed because you do not have access to the requested resource.",
    ),
    "unknown_model": _failure(
        404,
        "InvalidEndpointOrModel.NotFound",
        "NotFound",
        "The model or endpoint {model} does not exist or you do not have access to it.",
    ),
    "model_not_open": _failure(
        404,
        "ModelNotOpen",
        "NotFound",
        "Your account 2100000000 has not activated the model {model}. Please activate the model "
        "service in the Ark Console.",
    ),
    "bad_parameter": _failure(
        400,
        "InvalidParameter",
        "BadRequest",
        "The parameter `temperature` specified in the request is not valid.",
    ),
    "context_too_long": _failure(
        400, "OutofContextError", "BadRequest", "The request's input tokens exceed the limit."
    ),
    "content_filter": _failure(
        400,
        "SensitiveContentDetected",
        "BadRequest",
        "The request failed because the input text may contain sensitive information.",
    ),
    "rate_limited": _failure(
        429,
        "RateLimitExceeded.EndpointTPMExceeded",
        "TooManyRequests",
        "The Tokens Per Minute (TPM) limit of the associated endpoint for your account has been "
        "exceeded.",
    ),
    "too_busy": _failure(
        429,
        "ServerOverloaded",
        "TooManyRequests",
        "The service is currently unable to handle additional requests due to server overload.",
    ),
    "server_error": _failure(
        500,
        "InternalServiceError",
        "InternalServerError",
        "The service encountered an unexpected internal error.",
    ),
}
ARK = Provider(
    name="ark",
    sources={
        "errors": "https://www.volcengine.com/docs/82379/1299023",
        "streams": "https://www.volcengine.com/docs/82379/1494384",
        "responses": "https://www.volcengine.com/docs/82379/1569618",
    },
    headers={"x-request-id": "021763834000000sim"},
    models=("doubao-seed-1-6-251015", "ep-20251122-sim"),
    listing=Listing(path="/api/v3/models"),
    faces=(
        Face(
            path="/api/v3/chat/completions",
            dialect=ProviderChat(
                ChatTraits(
                    id_prefix="021763834",
                    head={"service_tier": "default"},
                    choice={"logprobs": None},
                    first_delta=None,
                    every_delta={"role": "assistant"},
                    last_delta={"content": ""},
                )
            ),
            failures=FAILURES,
            stream_failure=error_event(FAILURES["server_error"].body),
        ),
        Face(path="/api/v3/responses", dialect=ResponsesDialect(), failures=FAILURES),
    ),
)
