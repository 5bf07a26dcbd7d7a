"""An upstream's 4xx is the client's: its status and message, our names for it, and no retry.

One of the channel's own credentials is not: another channel is tried (contract §7).
"""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from actors.channel import Lease
from channels.families import ErrorShape
from gw.errors import render
from tests.support.specs import make_channel
from tests.unit.calls import sse
from tests.unit.calls.fake_wire import Script, answer
from tests.unit.calls.world import world


@pytest.fixture(autouse=True)
def key_refusals(expect_log: Callable[..., None]) -> None:
    """An upstream may refuse the channel's key here, which is told."""
    expect_log("channel_key_refused", required=False)


GOOD = answer(sse.whole())
GOOD_STREAM = answer(sse.delta("Hello"), sse.delta(finish="stop"), sse.usage_event(5, 5), sse.DONE)
KEY_OF_A = "api-key-of-a"
SHAPES: tuple[ErrorShape, ...] = (ErrorShape.CHAT, ErrorShape.MESSAGES, ErrorShape.GEMINI)

# Upstream status -> code and type, as the specification's table has them.
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


@pytest.mark.parametrize(("status", "code", "kind"), TABLE)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_refusal_is_passed_on(status: int, code: str, kind: str, stream: bool) -> None:
    script = answer(sse.error_body("because of this"), status=status)
    is_of_key = status in (401, 402, 403)
    async with world({"a": [script]} if is_of_key else {"a": [script], "b": [GOOD]}) as w:
        told = await w.call(stream=stream)
        assert told.error is not None
        assert told.error.http_status == status
        assert (told.error.kind.code, told.error.kind.chat_type) == (code, kind)
        assert told.error.message == "because of this"
        assert told.status == ("error", code)
        assert told.row is not None
        assert told.row["error_message"] == "because of this"
        assert (told.cost, told.tokens, told.attempts) == (0, (0, 0, 0), [])
        assert w.wire.tried == ["a"]
        assert w.verdict("a") == "success"  # the channel works; the request did not
        assert told.writer.blocks == []


REFUSED = {
    401: answer(sse.error_body("bad key"), status=401),
    402: answer(status=402),
    403: answer(sse.error_body("no rights"), status=403),
    429: answer(b'{"error": {"code": "billing_not_active", "message": "unpaid"}}', status=429),
}


@pytest.mark.parametrize("status", REFUSED)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_refused_key_is_the_channels_failure(status: int, stream: bool) -> None:
    async with world(a=[REFUSED[status]], b=[GOOD_STREAM if stream else GOOD]) as w:
        for tried, attempts in ((["a", "b"], [f"upstream_{status}"]), (["a", "b", "b"], [])):
            told = await w.call(stream=stream)
            assert (told.error, told.status) == (None, ("success", None))
            assert (told.attempts, w.wire.tried) == (attempts, tried)  # `a` is aside
        assert (w.channels["a"].spec.ring.is_aside, w.verdict("a")) == (True, "success")


async def test_refused_keys_are_tried_three_times_and_the_last_answer_passes() -> None:
    names = ("bad key", "another", "a third", "never")
    scripts = {name: [answer(sse.error_body(name), status=401)] for name in names}
    given = dict(zip("abcd", scripts.values(), strict=True))
    async with world(given) as w:
        told = await w.call()
        assert told.error is not None
        assert (told.error.http_status, told.error.message) == (401, "a third")
        assert (told.attempts, w.wire.tried) == (["upstream_401"] * 2, ["a", "b", "c"])
        assert (told.cost, told.status) == (0, ("error", "invalid_api_key"))


async def test_refused_key_passes_where_the_others_are_full_or_the_next_fails() -> None:
    refused = answer(sse.error_body("bad key"), status=401)
    async with world(a=[refused], b=[answer(status=500)]) as w:
        lease = [w.channels["b"].try_acquire() for _ in range(10)]
        told = await w.call()
        assert told.error is not None
        assert (told.error.message, told.attempts) == ("bad key", [])
        for one in lease:
            assert isinstance(one, Lease)
            one.release("abandoned")
        w.channels["a"].spec.ring.keys[0].accepted()
        told = await w.call()
        assert told.error is not None
        assert told.error.http_status == 500  # the last one tried decides
        assert told.attempts == ["upstream_401", "upstream_500"]


async def test_channel_with_another_key_is_tried_again_after_the_others() -> None:
    refused, failed = REFUSED[401], answer(status=500)
    channels = [
        make_channel("a", priority=1, api_key="key-1", more_keys=("key-2", "key-3", "key-4")),
        make_channel("b", priority=2),
    ]
    async with world(a=[refused, GOOD], b=[failed], channels=channels) as w:
        told = await w.call()
        assert (told.status, w.wire.tried) == (("success", None), ["a", "b", "a"])
        assert told.attempts == ["upstream_401", "upstream_500"]
        assert w.channels["a"].spec.ring.aside == 1


async def test_retry_after_is_passed_on_with_429_and_with_nothing_else() -> None:
    limited = answer(sse.error_body("slow down"), status=429, retry_after="17")
    refused = answer(sse.error_body("no"), status=400, retry_after="17")
    async with world(a=[limited, refused]) as w:
        told = await w.call()
        assert told.error is not None
        assert told.error.headers == {"Retry-After": "17"}
        told = await w.call()
        assert told.error is not None
        assert told.error.headers == {}


RETRY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "34s"}


@pytest.mark.parametrize("status", [429, 503])
async def test_details_and_param_of_an_upstream_are_passed_on_redacted(status: int) -> None:
    """Client libraries act on them (contract §7: Upstream error members)."""

    stated = {
        "message": "slow down",
        "param": f"key {KEY_OF_A}",
        "details": [RETRY, {"key": KEY_OF_A, "depth": [{"n": 1.5}]}],
    }
    script = answer(json.dumps({"error": stated}).encode(), status=status)
    async with world(a=[script]) as w:
        error = (await w.call()).error
        assert error is not None
        details = [RETRY, {"key": "[redacted]", "depth": [{"n": 1.5}]}]
        shown = {shape.name: json.loads(render(shape, error))["error"] for shape in SHAPES}
        assert shown["MESSAGES"]["details"] == shown["GEMINI"]["details"] == details
        assert shown["CHAT"]["param"] == "key [redacted]"
        assert "details" not in shown["CHAT"]
        assert "param" not in shown["MESSAGES"]


async def test_429_without_retry_after_has_no_headers() -> None:
    """So that it can be told from a limit of the account (spec: Errors, rule 2)."""

    limited = answer(sse.error_body("slow down"), status=429, x_ratelimit_limit_requests="5")
    async with world(a=[limited]) as w:
        told = await w.call()
        assert told.error is not None
        assert told.error.headers == {}


BODIES: dict[str, tuple[Script, str]] = {
    "a flat message": (answer(b'{"message": "flat"}', status=400), "flat"),
    "a detail": (answer(b'{"detail": "in detail"}', status=400), "in detail"),
    "a list, as one vendor sends": (
        answer(b'[{"error": {"message": "listed"}}]', status=400),
        "listed",
    ),
    "plain text": (answer(b"just words", status=400), "just words"),
    "nothing": (answer(status=400), "The upstream refused the request."),
    "a body too large to read": (
        answer(b"x" * 300_000, status=400),
        "The upstream refused the request.",
    ),
}


@pytest.mark.parametrize(("script", "message"), BODIES.values(), ids=BODIES.keys())
async def test_message_is_unwrapped(script: Script, message: str) -> None:
    async with world(a=[script]) as w:
        told = await w.call()
        assert told.error is not None
        assert (told.error.http_status, told.error.message) == (400, message)


async def test_message_gives_nothing_away() -> None:
    leak = "key api-key-of-a is wrong, see http://a.example/keys"
    async with world(a=[answer(sse.error_body(leak), status=401)]) as w:
        told = await w.call()
        assert told.error is not None
        for shown in (told.error.message, str(told.row)):
            assert "api-key-of-a" not in shown
            assert "a.example" not in shown


async def test_redirect_is_no_answer() -> None:
    script = answer(status=302, location="http://elsewhere.example")
    async with world(a=[script], b=[GOOD]) as w:
        told = await w.call()
        assert told.error is not None
        assert (told.error.http_status, told.error.kind.code) == (502, "upstream_error")
        assert told.error.headers == {}
        assert (told.cost, w.wire.tried) == (0, ["a"])


async def test_refusal_after_a_failure_keeps_the_failure_in_its_row() -> None:
    scripts = {
        "a": [answer(status=500)],
        "b": [answer(sse.error_body("no"), status=400)],
        "c": [GOOD],
    }
    async with world(scripts) as w:
        told = await w.call()
        assert told.status == ("error", "invalid_request")
        assert told.attempts == ["upstream_500"]
        assert w.wire.tried == ["a", "b"]
