"""DashScope in its compatible mode: an id beside each error, 400 for a bill that is not paid."""

from __future__ import annotations

from loadtests.simulator.providers.chat_wire import ChatTraits, ProviderChat
from loadtests.simulator.providers.errors import error_event
from loadtests.simulator.providers.model import Face, Failure, Listing, Provider

KIND = "invalid_request_error"
ID = "5f4ef4a4-0000-9000-8000-000000000sim"


def _failure(status: int, message: str, kind: str, code: str | None) -> Failure:
    error = {"message": message, "type": kind, "param": None, "code": code}
    return Failure(status=status, body={"error": error, "request_id": ID})


FAILURES = {
    "no_key": _failure(401, "You didn't provide an API key.", KIND, None),
    "bad_key": _failure(401, "Incorrect API key provided. ", KIND, "invalid_api_key"),
    "no_credit": _failure(
        400,
        "Access denied, please make sure your account is in good standing.",
        "Arrearage",
        "Arrearage",
    ),
    "forbidden": _failure(403, "Access denied.", "access_denied", "access_denied"),
    "unknown_model": _failure(
        404,
        "The model `{model}` does not exist or you do not have access to it.",
        KIND,
        "model_not_found",
    ),
    "bad_parameter": _failure(
        400,
        "<400> InternalError.Algo.InvalidParameter: Temperature should be in [0.0, 2.0)",
        KIND,
        "invalid_parameter_error",
    ),
    "context_too_long": _failure(
        400,
        "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]",
        KIND,
        "invalid_parameter_error",
    ),
    "content_filter": _failure(
        400,
        "<400> InternalError.Algo.DataInspectionFailed: Input data may contain inappropriate "
        "content.",
        "data_inspection_failed",
        "data_inspection_failed",
    ),
    "rate_limited": _failure(
        429, "You exceeded your current requests list.", "limit_requests", "limit_requests"
    ),
    "quota": _failure(
        429,
        "You exceeded your current quota, please check your plan and billing details.",
        "insufficient_quota",
        "insufficient_quota",
    ),
    "server_error": _failure(
        500,
        "<500> InternalError.Algo: An internal error has occured, please try again later.",
        "internal_error",
        "internal_error",
    ),
    "overloaded": _failure(
        503, "Model serving error, please try again later.", "ModelServingError", None
    ),
}
DASHSCOPE = Provider(
    name="dashscope",
    sources={
        "errors": "https://help.aliyun.com/en/model-studio/error-code-start",
        "streams": "https://help.aliyun.com/zh/model-studio/compatibility-of-openai-with-dashscope",
        "cached": "https://help.aliyun.com/zh/model-studio/context-cache",
    },
    headers={"x-request-id": ID, "req-cost-time": "417"},
    models=("qwen3-max", "qwen-plus"),
    listing=Listing(path="/compatible-mode/v1/models"),
    faces=(
        Face(
            path="/compatible-mode/v1/chat/completions",
            dialect=ProviderChat(
                ChatTraits(
                    head={"system_fingerprint": None, "usage": None},
                    choice={"logprobs": None},
                    first_delta={"content": "", "role": "assistant"},
                    last_delta={"content": ""},
                )
            ),
            failures=FAILURES,
            stream_failure=error_event(FAILURES["server_error"].body),
        ),
    ),
)
