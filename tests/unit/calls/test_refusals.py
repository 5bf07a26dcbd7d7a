"""An upstream's 4xx is the client's: its status and message, our names for it, and no retry.

One of the channel's own credentials is not: another channel is tried (reference 10.3).
"""

import json

import pytest

from actors.channel import ChannelLease
from channels.family import ErrorShape
from gw.error_bodies import render
from tests.support.logs import ExpectLog
from tests.support.rows import cases, each
from tests.support.specs import make_channel
from tests.unit.calls import sse
from tests.unit.calls.test_failure_classes import WAYS
from tests.unit.calls.world import SUCCESS, Case, Script, plain, response_of, world


@pytest.fixture(autouse=True)
def key_refusals(expect_log: ExpectLog) -> None:
    """An upstream may refuse the channel's key here, which is told."""
    expect_log("channel_key_refused", required=False)


GOOD = response_of(sse.whole())
GOOD_STREAM = response_of(
    sse.delta("Hello"), sse.delta(finish="stop"), sse.usage_event(5, 5), sse.DONE
)
KEY_OF_A = "api-key-of-a"
INVALID = (400, "invalid_request")
SHAPES: tuple[ErrorShape, ...] = (ErrorShape.CHAT, ErrorShape.MESSAGES, ErrorShape.GEMINI)


def refused(status: int, message: str = "because of this", **headers: str) -> Script:
    return response_of(sse.error_body(message), status=status, **headers)


# Upstream status -> code and type, as reference 1.8 has them.
TABLE = [
    (400, "invalid_request", "invalid_request_error"),
    (401, "invalid_api_key", "authentication_error"),
    (402, "upstream_error", "api_error"),
    (403, "permission_denied", "permission_error"),
    (404, "not_found", "invalid_request_error"),
    (408, "upstream_error", "api_error"),
    (413, "upstream_error", "api_error"),
    (422, "invalid_request", "invalid_request_error"),
    (429, "rate_limit_exceeded", "rate_limit_error"),
]


@each("status, code, kind", TABLE)
@each("stream", [False, True])
async def test_refusal_is_passed_on(status: int, code: str, kind: str, stream: bool) -> None:
    is_of_key = status in (401, 402, 403)
    scripts = {"a": [refused(status)]} | ({} if is_of_key else {"b": [GOOD]})
    async with world(scripts) as w:
        result = await w.call(stream=stream)
        error = result.refusal
        assert (error.http_status, error.kind.code, error.kind.chat_type) == (status, code, kind)
        assert error.message == result.logged["error_message"] == "because of this"
        assert (result.status, result.attempts) == (("error", code), [])
        assert (result.cost, result.tokens, result.writer.blocks) == (0, (0, 0, 0), [])
        assert (w.http.tried, w.verdict("a")) == (["a"], "success")  # the channel works


KEYS = [refused(401, name) for name in ("bad key", "another", "a third", "never")]
LISTED = b'[{"error": {"message": "listed"}}]'  # as one vendor sends
UNSAID = "The upstream refused the request."
ZERO = json.loads(sse.whole("Hello")) | {"base_resp": {"status_code": 0, "status_msg": ""}}
CASES = [
    # Keys are tried three times, and the last answer passes.
    plain(*KEYS, error=(401, "invalid_api_key"), message="a third", tried="abc", cost=0),
    plain(*KEYS, attempts=["upstream_401"] * 2, status=("error", "invalid_api_key")),
    # How long to wait is passed on with 429 alone; without it, a limit has no headers, so that it
    # can be told from one of the account (reference 1.4).
    plain(refused(429, retry_after="17"), headers={"Retry-After": "17"}),
    plain(refused(429, x_ratelimit_limit_requests="5"), headers={}),
    plain(refused(400, retry_after="17"), headers={}),
    plain(response_of(b'{"message": "flat"}', status=400), message="flat", error=INVALID),
    plain(response_of(b'{"detail": "in detail"}', status=400), message="in detail", error=INVALID),
    plain(response_of(LISTED, status=400), message="listed", error=INVALID),
    plain(response_of(b"just words", status=400), message="just words", error=INVALID),
    plain(response_of(status=400), message=UNSAID, error=INVALID),
    plain(response_of(b"x" * 300_000, status=400), message=UNSAID, error=INVALID),
    # A failure before it stays in its row.
    plain(
        response_of(status=500),
        refused(400),
        GOOD,
        error=INVALID,
        attempts=["upstream_500"],
        tried="ab",
    ),
    plain(response_of(json.dumps(ZERO).encode()), error=None, status=SUCCESS),
]


@each("case", CASES)
async def test_refusal_is_passed_on_in_the_upstreams_words(case: Case) -> None:
    await case.check()


REFUSED = {
    401: response_of(sse.error_body("bad key"), status=401),
    402: response_of(status=402),
    403: response_of(sse.error_body("no rights"), status=403),
    429: response_of(b'{"error": {"code": "billing_not_active", "message": "unpaid"}}', status=429),
}


@each("status", REFUSED)
@cases("stream", False, True)
async def test_refused_key_is_the_channels_failure(status: int, stream: bool) -> None:
    async with world(a=[REFUSED[status]], b=[GOOD_STREAM if stream else GOOD]) as w:
        for tried, attempts in ((["a", "b"], [f"upstream_{status}"]), (["a", "b", "b"], [])):
            result = await w.call(stream=stream)
            assert (result.error, result.status) == (None, ("success", None))
            assert (result.attempts, w.http.tried) == (attempts, tried)  # `a` is aside
        assert (w.channels["a"].spec.ring.is_aside, w.verdict("a")) == (True, "success")


async def test_refused_key_passes_where_the_others_are_full_or_the_next_fails() -> None:
    refused = response_of(sse.error_body("bad key"), status=401)
    async with world(a=[refused], b=[response_of(status=500)]) as w:
        lease = [w.channels["b"].acquire() for _ in range(10)]
        result = await w.call()
        assert (result.refusal.message, result.attempts) == ("bad key", [])
        for one in lease:
            assert isinstance(one, ChannelLease)
            one.release("abandoned")
        w.channels["a"].spec.ring.keys[0].confirmed()
        result = await w.call()
        assert result.refusal.http_status == 500  # the last one tried decides
        assert result.attempts == ["upstream_401", "upstream_500"]


async def test_channel_with_another_key_is_tried_again_after_the_others() -> None:
    refused, failed = REFUSED[401], response_of(status=500)
    channels = [
        make_channel("a", priority=1, api_key="key-1", more_keys=("key-2", "key-3", "key-4")),
        make_channel("b", priority=2),
    ]
    async with world(a=[refused, GOOD], b=[failed], channels=channels) as w:
        result = await w.call()
        assert (result.status, w.http.tried) == (("success", None), ["a", "b", "a"])
        assert result.attempts == ["upstream_401", "upstream_500"]
        assert w.channels["a"].spec.ring.aside == 1


RETRY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34s"}


@cases("status", 429, 503)
async def test_details_and_param_of_an_upstream_are_passed_on_redacted(status: int) -> None:
    """Client libraries act on them (reference 1.8)."""

    stated = {
        "message": "slow down",
        "param": f"key {KEY_OF_A}",
        "details": [RETRY, {"key": KEY_OF_A, "depth": [{"n": 1.5}]}],
    }
    script = response_of(json.dumps({"error": stated}).encode(), status=status)
    async with world(a=[script]) as w:
        error = (await w.call()).error
        assert error is not None
        details = [RETRY, {"key": "[redacted]", "depth": [{"n": 1.5}]}]
        shown = {shape.name: json.loads(render(shape, error))["error"] for shape in SHAPES}
        assert shown["MESSAGES"]["details"] == shown["GEMINI"]["details"] == details
        assert shown["CHAT"]["param"] == "key [redacted]"
        assert "details" not in shown["CHAT"]
        assert "param" not in shown["MESSAGES"]


ON_CHAT = [way for way in WAYS if way.rpartition(" ")[2] == "chat"]


def failed(code: object) -> dict[str, object]:
    """What comes instead of an answer; the rest of it is all there."""
    return {
        "id": "04ecb5d9b1921ae0fb0e8da9017a5474",
        "choices": None,
        "created": 1755153113,
        "model": "MiniMax-M2",
        "object": "chat.completion",
        "usage": {"total_tokens": 0, "total_characters": 0},
        "base_resp": {"status_code": code, "status_msg": "It says why."},
    }


def script_of(code: object, form: str) -> Script:
    body = failed(code)
    return response_of(sse.event(body) if form == "an event" else json.dumps(body).encode())


FORMS = [("a body", False), ("a body", True), ("an event", True)]


@each(
    "code, status", [(1002, 429), (1004, 401), (1008, 402), (1026, 400), (2013, 400), ("2049", 401)]
)
@each("form, stream", FORMS)
@each("way", ON_CHAT)
async def test_refusal_is_the_clients_as_with_a_status(
    way: str, form: str, stream: bool, code: object, status: int
) -> None:
    async with world(a=[script_of(code, form)], b=[GOOD]) as w:
        result = await w.call(stream=stream, plan=WAYS[way])
        is_of_key = status in (401, 402)
        if is_of_key:
            assert result.attempts[0] == f"upstream_{status}"
            assert w.http.tried == ["a", "b"]
        else:
            assert (result.refusal.http_status, result.refusal.message) == (status, "It says why.")
            assert (result.cost, result.attempts, result.writer.blocks) == (0, [], [])
            assert w.http.tried == ["a"]
        assert w.verdict("a") == "success"
        assert w.channels["a"].spec.ring.aside == is_of_key


@each("code", [1000, 1001, 1033, 999_999])
@each("form, stream", FORMS)
@each("way", ON_CHAT)
async def test_failure_is_tried_elsewhere(way: str, form: str, stream: bool, code: int) -> None:
    refusing = response_of(sse.error_body("no"), status=400)
    async with world(a=[script_of(code, form)], b=[refusing]) as w:
        result = await w.call(stream=stream, plan=WAYS[way])
        assert result.attempts == ["upstream_error"]
        assert w.http.tried == ["a", "b"]
        assert w.verdict("a") == "failure"
