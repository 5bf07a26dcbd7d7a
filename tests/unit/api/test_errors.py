"""Errors in the shapes of the protocols."""

import json

from actors.catalogs import CatalogUnavailable
from channels.family import ErrorShape
from channels.redaction import Redactor
from gw import errors as errors
from gw.api.failures import unavailable
from gw.error_bodies import render
from gw.errors import ERROR_TABLE, ErrorKind, GatewayError
from gw.upstream_errors import from_upstream
from tests.support.rows import cases, each

# HTTP | chat type | chat code | messages type | native status, as documented.
SPEC_TABLE = """
400 | invalid_request_error | model_not_found                 | not_found_error       | NOT_FOUND
400 | invalid_request_error | model_not_allowed               | invalid_request_error | INVALID_ARGUMENT
400 | invalid_request_error | invalid_request                 | invalid_request_error | INVALID_ARGUMENT
400 | invalid_request_error | tool_not_supported              | invalid_request_error | INVALID_ARGUMENT
400 | invalid_request_error | invalid_idempotency_key         | invalid_request_error | INVALID_ARGUMENT
409 | invalid_request_error | idempotency_key_reuse           | invalid_request_error | ALREADY_EXISTS
409 | invalid_request_error | idempotency_in_flight           | invalid_request_error | ALREADY_EXISTS
409 | invalid_request_error | idempotency_response_not_cached | invalid_request_error | ALREADY_EXISTS
401 | authentication_error  | invalid_api_key                 | authentication_error  | UNAUTHENTICATED
402 | insufficient_quota    | quota_exceeded                  | billing_error         | RESOURCE_EXHAUSTED
403 | permission_error      | permission_denied               | permission_error      | PERMISSION_DENIED
429 | rate_limit_error      | rate_limit_exceeded             | rate_limit_error      | RESOURCE_EXHAUSTED
500 | server_error          | internal_error                  | api_error             | INTERNAL
502 | api_error             | upstream_unreachable            | api_error             | UNAVAILABLE
503 | server_error          | no_channel_available            | overloaded_error      | UNAVAILABLE
504 | api_error             | upstream_timeout                | api_error             | DEADLINE_EXCEEDED
"""  # noqa: E501

# Of single endpoints and of paths.
BESIDE_THE_TABLE = """
404 | invalid_request_error | not_found                       | not_found_error       | NOT_FOUND
404 | invalid_request_error | log_not_found                   | not_found_error       | NOT_FOUND
405 | invalid_request_error | method_not_allowed              | invalid_request_error | UNIMPLEMENTED
426 | invalid_request_error | upgrade_required                | invalid_request_error | UNIMPLEMENTED
413 | invalid_request_error | request_too_large               | request_too_large     | INVALID_ARGUMENT
429 | rate_limit_error      | logs_rate_limited               | rate_limit_error      | RESOURCE_EXHAUSTED
400 | invalid_request_error | previous_response_not_found     | invalid_request_error | INVALID_ARGUMENT
400 | invalid_request_error | model_no_vision                 | invalid_request_error | INVALID_ARGUMENT
"""  # noqa: E501


def rows(table: str) -> list[tuple[int, str, str, str, str]]:
    found = []
    for line in table.strip().splitlines():
        status, *names = (cell.strip() for cell in line.split("|"))
        chat_type, code, messages_type, gemini_status = names
        found.append((int(status), chat_type, code, messages_type, gemini_status))
    return found


ROWS = rows(SPEC_TABLE) + rows(BESIDE_THE_TABLE)


def kind_of(code: str) -> ErrorKind:
    (kind,) = [kind for kind in ERROR_TABLE if kind.code == code]
    return kind


def test_the_table_is_the_documented_one() -> None:
    ours = [
        (kind.http_status, kind.chat_type, kind.code, kind.messages_type, kind.gemini_status)
        for kind in ERROR_TABLE
    ]
    assert ours == ROWS


def test_every_kind_of_the_module_is_in_the_table() -> None:
    kinds = [value for value in vars(errors).values() if isinstance(value, ErrorKind)]
    assert sorted(kinds, key=repr) == sorted(ERROR_TABLE, key=repr)


@each("status, chat_type, code, messages_type, gemini_status", ROWS)
def test_every_error_is_rendered_in_every_shape(
    status: int, chat_type: str, code: str, messages_type: str, gemini_status: str
) -> None:
    error = GatewayError(kind_of(code), "What happened.", param="size")
    chat = {"message": "What happened.", "type": chat_type, "code": code}
    expected = {
        "chat": {"error": chat},
        "images": {"error": {**chat, "param": "size"}},
        "messages": {
            "type": "error",
            "error": {"type": messages_type, "message": "What happened."},
        },
        "native": {"error": {"code": status, "message": "What happened.", "status": gemini_status}},
    }
    assert error.http_status == status
    rendered = {
        "chat": json.loads(render(ErrorShape.CHAT, error)),
        "images": json.loads(render(ErrorShape.IMAGES, error)),
        "messages": json.loads(render(ErrorShape.MESSAGES, error)),
        "native": json.loads(render(ErrorShape.GEMINI, error)),
    }
    assert rendered == expected


def test_429_says_in_the_native_shape_when_to_come_back() -> None:
    kind, headers = kind_of("rate_limit_exceeded"), {"Retry-After": "7"}
    error = GatewayError(kind, "Slow down.", headers=headers)
    found = json.loads(render(ErrorShape.GEMINI, error))["error"]
    info = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "7s"}
    assert found["details"] == [info]
    assert "details" not in json.loads(render(ErrorShape.MESSAGES, error))["error"]
    result = GatewayError(kind, "Slow down.", headers=headers, details=[{"@type": "own"}])
    assert json.loads(render(ErrorShape.GEMINI, result))["error"]["details"] == [{"@type": "own"}]
    other = GatewayError(kind_of("no_channel_available"), "None.", headers=headers)
    assert "details" not in json.loads(render(ErrorShape.GEMINI, other))["error"]


# status | chat code | chat type | messages type | native status
UPSTREAM_TABLE = """
400 | invalid_request     | invalid_request_error | invalid_request_error | INVALID_ARGUMENT
422 | invalid_request     | invalid_request_error | invalid_request_error | INVALID_ARGUMENT
401 | invalid_api_key     | authentication_error  | authentication_error  | UNAUTHENTICATED
403 | permission_denied   | permission_error      | permission_error      | PERMISSION_DENIED
404 | not_found           | invalid_request_error | not_found_error       | NOT_FOUND
429 | rate_limit_exceeded | rate_limit_error      | rate_limit_error      | RESOURCE_EXHAUSTED
402 | upstream_error      | api_error             | api_error             | RESOURCE_EXHAUSTED
408 | upstream_error      | api_error             | api_error             | UNKNOWN
409 | upstream_error      | api_error             | api_error             | ALREADY_EXISTS
413 | upstream_error      | api_error             | request_too_large     | INVALID_ARGUMENT
418 | upstream_error      | api_error             | api_error             | UNKNOWN
500 | upstream_error      | api_error             | api_error             | INTERNAL
501 | upstream_error      | api_error             | api_error             | UNIMPLEMENTED
502 | upstream_error      | api_error             | api_error             | UNAVAILABLE
503 | upstream_error      | api_error             | api_error             | UNAVAILABLE
504 | upstream_error      | api_error             | api_error             | DEADLINE_EXCEEDED
529 | upstream_error      | api_error             | overloaded_error      | UNAVAILABLE
"""


@each("status, code, chat_type, messages_type, gemini", rows(UPSTREAM_TABLE))
def test_an_upstream_status_passes_with_our_names_for_it(
    status: int, code: str, chat_type: str, messages_type: str, gemini: str
) -> None:
    error = from_upstream(status, "No.", headers={"Retry-After": "7"})
    assert error.http_status == status
    assert error.headers == {"Retry-After": "7"}
    kind = error.kind
    assert (kind.code, kind.chat_type, kind.messages_type, kind.gemini_status) == (
        code,
        chat_type,
        messages_type,
        gemini,
    )
    assert json.loads(render(ErrorShape.GEMINI, error))["error"]["code"] == status


@cases("status", 100, 101, 301, 302, 304, 600, 999)
def test_an_upstream_status_that_is_no_error_becomes_502(status: int) -> None:
    error = from_upstream(status, "Moved.")
    assert (error.http_status, error.kind.code) == (502, "upstream_error")


def test_an_endpoint_may_give_an_error_its_own_status() -> None:
    error = GatewayError(errors.MODEL_NOT_FOUND, "Gone.", http_status=404)
    assert error.http_status == 404
    assert json.loads(render(ErrorShape.GEMINI, error))["error"]["code"] == 404
    assert repr(error) == "<GatewayError 404 model_not_found: Gone.>"


# What a request may be repeated for: time or another process may mend it.
MENDED_BY_TIME = {
    409: {"idempotency_in_flight"},
    429: None,
    500: None,
    502: None,
    503: None,
    504: None,
}


@each("kind", ERROR_TABLE)
def test_every_error_says_whether_to_come_back(kind: ErrorKind) -> None:
    codes = MENDED_BY_TIME.get(kind.http_status, set())
    expected = {} if codes is None or kind.code in codes else {"x-should-retry": "false"}
    if kind.http_status == 503:
        expected = {"Retry-After": "1"}
    assert (
        GatewayError(kind, "No.", headers={"Allow": "GET"}).headers == {"Allow": "GET"} | expected
    )
    known = GatewayError(kind, "Busy.", headers={"Retry-After": "9"})
    assert known.headers == expected | {"Retry-After": "9"}
    if not expected:
        assert GatewayError(kind, "Busy.", http_status=503).headers == {"Retry-After": "1"}


def test_a_list_that_no_channel_has_is_503_not_to_be_repeated() -> None:
    result = unavailable(CatalogUnavailable(None), Redactor([]))
    assert (result.http_status, result.headers) == (503, {"x-should-retry": "false"})
