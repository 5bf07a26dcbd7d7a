"""What is read of an upstream's error, and how errors show."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from channels.dialects.error_body import (
    DETAILS_BYTES_MAX,
    DETAILS_DEPTH_MAX,
    error_members,
    error_message,
    retry_after_in,
)
from channels.errors import (
    ErrorMembers,
    ErrorReported,
    StepUnfit,
    UnexpectedStatus,
    UpstreamError,
    UpstreamFailed,
)
from tests.support.rows import cases, each


@each(
    "body, expected",
    [
        ({"error": {"message": "No such model.", "type": "x", "code": None}}, "No such model."),
        ({"error": "No such model."}, "No such model."),
        ({"message": "No such model."}, "No such model."),
        ({"detail": "Not Found"}, "Not Found"),
        ({"detail": [{"loc": ["body", "n"], "msg": "field required"}]}, "field required"),
        ([{"error": {"code": 400, "message": "Bad.", "status": "INVALID_ARGUMENT"}}], "Bad."),
        ({"type": "error", "error": {"type": "overloaded_error", "message": "Busy"}}, "Busy"),
        ({"error": {"message": json.dumps({"error": {"message": "inner"}})}}, "inner"),
        ({"error": {"message": '{"odd": 1}'}}, '{"odd": 1}'),
        ({"error": {"message": ""}, "message": "outer"}, "outer"),
        ({"error": {"code": 5}}, None),
        ({"error": None, "msg": "x"}, "x"),
        ({"object": "error", "message": "Too long.", "type": "B", "code": 400}, "Too long."),
        ({"code": 20012, "message": "No such model.", "data": None}, "No such model."),
        ({"base_resp": {"status_code": 1008, "status_msg": "No balance."}}, "No balance."),
        ({"base_resp": {"status_code": 1000, "status_msg": ""}}, None),
        ({"errors": ["first", "second"]}, "first"),
        ({"errors": [{"message": "first"}]}, "first"),
        ({"error_description": "expired"}, "expired"),
        ({"error": {"message": 7}}, None),
        ({"status": 500}, None),
        ({}, None),
        ([], None),
    ],
)
def test_message_is_unwrapped(body: object, expected: str | None) -> None:
    assert error_message(json.dumps(body).encode()) == expected


@cases(
    "body, expected",
    (b"", None),
    (b"  \r\n", None),
    (b"upstream connect error", "upstream connect error"),
    (b" rate limited \n", "rate limited"),
    (b"[Errno 111] Connection refused", "[Errno 111] Connection refused"),
    (b'{"error": {"message": "cut', '{"error": {"message": "cut'),
    (b'"quoted"', "quoted"),
    (b'"quoted" and more', '"quoted" and more'),
    (b"\xef\xbb\xbf" + b'{"message":"marked"}', "marked"),
    (b"<html><body>502 Bad Gateway nginx/1.2</body></html>", None),
    (b"<!DOCTYPE html>\n<html>", None),
    (b"  <?xml version='1.0'?><Error>no</Error>", None),
    (b"Oops <HTML>", None),
    (b"<400> InternalError.Algo: Too long.", "<400> InternalError.Algo: Too long."),
    (json.dumps({"error": {"message": "<html>proxy</html>"}}).encode(), None),
    (b"\x1f\x8b\x08\x00\x00\x00\x00\x00binary", None),
    (b"\x00\x01\x02", None),
    (b'{"error":{"message":"a\\u0000b\\ud800c"}}', "a b c"),
    ('{"message":"模型不存在"}'.encode(), "模型不存在"),
)
def test_other_bodies(body: bytes, expected: str | None) -> None:
    assert error_message(body) == expected


def test_message_is_cut_to_five_hundred_characters() -> None:
    assert error_message(b"x" * 501) == "x" * 499 + "…"
    assert error_message(b"x" * 500) == "x" * 500
    long = json.dumps({"error": {"message": "é" * 20_000}}).encode()
    assert error_message(long) == "é" * 499 + "…"


def test_nesting_without_end_gives_no_message() -> None:
    assert error_message(b"[" * 100_000 + b"]" * 100_000) is not None
    value: object = "deep"
    for _ in range(50):
        value = {"error": value}
    assert error_message(json.dumps(value).encode()) is None


@settings(deadline=None)
@given(st.binary(max_size=80))
def test_no_bytes_raise(data: bytes) -> None:
    message = error_message(data)
    assert message is None or len(message.encode()) > 0


DETAILS = {"error_code": "thread_unsupported_request", "unsupported": []}


@cases(
    "body, expected",
    ({"error": {"message": "m", "details": DETAILS}}, ErrorMembers("m", details=DETAILS)),
    ([{"error": {"message": "m", "details": [1]}}], ErrorMembers("m", details=[1])),
    ({"error": {"message": "m", "param": "messages"}}, ErrorMembers("m", param="messages")),
    ({"error": {"message": "m", "param": None, "details": None}}, ErrorMembers("m")),
    ({"error": {"message": "m", "param": 3, "details": "text"}}, ErrorMembers("m")),
    ({"error": "m", "details": DETAILS}, ErrorMembers("m")),
    ({"message": "m"}, ErrorMembers("m")),
    # What could not be sent on is left out whole.
    ({"error": {"message": "m", "details": {"x": "\ud800"}}}, ErrorMembers("m")),
    ({"error": {"message": "m", "details": [10**30]}}, ErrorMembers("m", details=[10**30])),
    ({"error": {"message": "m", "details": ["x" * DETAILS_BYTES_MAX]}}, ErrorMembers("m")),
    ({"error": {"message": "m", "param": "x" * 257}}, ErrorMembers("m")),
    ({"error": {"message": "m", "param": "\ud800"}}, ErrorMembers("m")),
    ({"error": {"message": "m", "details": [float("nan")]}}, ErrorMembers("m", details=[None])),
)
def test_what_stands_beside_the_message_is_found(body: Any, expected: ErrorMembers) -> None:
    assert error_members(json.dumps(body).encode()) == expected


def test_details_that_nest_too_deep_are_left_out() -> None:
    for depth, is_kept in ((DETAILS_DEPTH_MAX, True), (DETAILS_DEPTH_MAX + 1, False), (900, False)):
        body = b'{"error":{"message":"m","details":' + b"[" * depth + b"]" * depth + b"}}"
        assert (error_members(body).details is not None) is is_kept
    assert error_members(b"").message is None


@cases(
    "delay, expected",
    ("34.4s", "35"),
    ("2s", "2"),
    ("0.1s", "1"),
    ("soon", None),
    (5, None),
    ("1e9s", None),
)
def test_time_to_come_back_is_read_of_googles_details(delay: object, expected: str | None) -> None:
    details = [{"@type": "type.googleapis.com/google.rpc.QuotaFailure"}, {"retryDelay": delay}]
    assert retry_after_in(details) == expected


@cases("details", None, {}, {"retryDelay": "1s"}, ["1s"], [{}])
def test_details_that_tell_no_time(details: object) -> None:
    assert retry_after_in(details) is None


@pytest.mark.parametrize("unit", ["[]", '{"error":[]}', '"\\","'])
def test_error_of_more_values_than_an_error_has_is_a_text(
    monkeypatch: pytest.MonkeyPatch, unit: str
) -> None:
    read: list[int] = []

    def noted(text: str, **options: Any) -> Any:
        read.append(len(text))
        return json.JSONDecoder(**options).decode(text)

    monkeypatch.setattr(json, "loads", noted)
    values = ",".join([unit] * 20_000)
    for body in (f'{{"error":[{values}]}}', json.dumps({"error": f"[{values}]"})):
        assert error_members(body.encode()).message == body[:499] + "…"
    assert read == []


SAYS_MORE = (UnexpectedStatus, UpstreamFailed, ErrorReported, StepUnfit)
PLAIN = [kind for kind in UpstreamError.__subclasses__() if kind not in SAYS_MORE]


@each("kind", PLAIN)
def test_upstream_error_says_its_docstring_and_keeps_the_detail(kind: type[UpstreamError]) -> None:
    error = kind("10.0.0.1", 443)
    assert str(error) == (kind.__doc__ or "").split("\n")[0]
    assert error.detail == "10.0.0.1 443"
    assert repr(error) == f"{kind.__name__}('10.0.0.1 443')"
    assert kind().detail == ""


def test_error_of_the_upstreams_own_says_what_it_was_made_of() -> None:
    members = ErrorMembers("No such size.")
    failed = UpstreamFailed(503, members, retry_after="3")
    assert (str(failed), failed.detail) == ("The upstream answered with a server error.", "503")
    assert (failed.status, failed.members, failed.retry_after) == (503, members, "3")
    reported = ErrorReported(members)
    assert (reported.status, reported.members, reported.retry_after) == (502, members, None)


def test_unexpected_status_says_which() -> None:
    error = UnexpectedStatus(304)
    assert (error.status, error.detail) == (304, "status 304")
