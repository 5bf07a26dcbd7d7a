"""Several keys of one channel."""

import json
from collections import Counter
from dataclasses import replace

import pytest

from channels.dialects.error_body import error_members
from channels.dialects.table import DIALECTS
from channels.errors import ErrorMembers
from channels.http.interfaces import UpstreamRequest
from channels.key_ring import (
    ASIDE_SECONDS,
    ASIDE_UNKNOWN_SECONDS,
    REST_SECONDS,
    REST_SECONDS_MAX,
    REST_SECONDS_MIN,
    KeyRing,
)
from channels.media.exchanges import addressed, send
from channels.media.model import MediaRequest
from channels.redaction import key_spellings, redaction_of
from channels.registry import ChannelSpec
from gw.calls.base_upstream import confirm_key
from loadtests.simulator.providers.table import PROVIDERS, Failure
from tests.support.rows import cases, each
from tests.support.specs import make_channel
from tests.unit.channels.raw_server import OK, Peer, RawServer, new_http

KEYS = ("key-number-1", "key-number-2", "key-number-3")
REFUSED = b"HTTP/1.1 %d X\r\nContent-Length: 2\r\n\r\n{}"


def channel_of_keys(port: int = 1, keys: tuple[str, ...] = KEYS) -> ChannelSpec:
    url = f"http://127.0.0.1:{port}"
    return make_channel("one", base_url=url, api_key=keys[0], more_keys=keys[1:])


def request_of(spec: ChannelSpec) -> UpstreamRequest:
    return DIALECTS["chat"].address.request(
        spec, b"{}", protocol="chat", upstream_model="m", stream=False
    )


def sent_key(request: UpstreamRequest) -> str:
    return dict(request.headers)["Authorization"].removeprefix("Bearer ")


class Time:
    """Seconds that a test sets."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_keys_are_used_in_turn() -> None:
    spec = channel_of_keys()
    assert [sent_key(request_of(spec)) for _ in range(6)] == [*KEYS, *KEYS]


REFUSING = ("no_key", "bad_key", "no_credit", "billing", "suspended", "forbidden")
FAILURES = [
    pytest.param(name, situation, failure, id=f"{name}-{face.dialect.name}-{situation}")
    for name, provider in PROVIDERS.items()
    for face in provider.faces
    for situation, failure in face.failures.items()
    if situation in REFUSING or 400 <= failure.status < 500
]


@each("name, situation, failure", FAILURES)
def test_refusal_of_a_key_is_known_by_each_providers_words(
    name: str, situation: str, failure: Failure
) -> None:
    spec = replace(channel_of_keys(), kind=name)
    body = failure.body if isinstance(failure.body, str) else json.dumps(failure.body)
    members = error_members(body.encode())
    request = request_of(spec)
    request.took_status(failure.status)
    is_of_key = request.took_refusal(failure.status, members)
    assert is_of_key == (situation in REFUSING)
    assert spec.ring.aside == is_of_key


WORDED = [
    (429, {"error": {"code": "billing_not_active"}}, ASIDE_SECONDS),
    (429, {"error": {"code": "insufficient_quota"}}, 0),  # of some a limit of tokens per minute
    (400, {"error": {"details": [{"reason": "API_KEY_INVALID"}]}}, ASIDE_SECONDS),
    (403, {"error": {"type": "permission_error"}}, ASIDE_UNKNOWN_SECONDS),
    (403, {"error": {"type": "invalid_request_error"}}, 0),
    (403, {"error": {"code": "content_policy_violation", "message": "Flagged."}}, 0),
    (403, {}, ASIDE_UNKNOWN_SECONDS),
    (400, {"error": {"code": ["invalid_api_key"], "type": "x" * 65}}, 0),
    (503, {"error": {"code": "invalid_api_key"}}, 0),
]


@each("status, body, seconds", WORDED)
def test_refusal_of_a_key_is_known_by_its_dialects_words(
    status: int, body: object, seconds: float
) -> None:
    (key,) = KeyRing("k").keys
    assert key.seconds_aside(status, error_members(json.dumps(body).encode())) == seconds


def test_channel_is_aside_with_its_last_key_until_one_is_answered() -> None:
    spec = channel_of_keys(keys=KEYS[:2])
    first, second = request_of(spec), request_of(spec)
    first.took_status(401)
    assert not spec.ring.is_aside
    second.took_refusal(403, ErrorMembers())
    assert spec.ring.is_aside
    confirm_key(first)
    assert (spec.ring.is_aside, spec.ring.aside) == (False, 1)


@cases("status", 401, 402)
def test_key_that_is_refused_is_left_out_until_its_time_is_over(status: int) -> None:
    time = Time()
    ring = KeyRing("abc", monotonic=time)
    ring.keys[1].refused(status)
    assert ring.aside == 1
    assert [ring.next_index() for _ in range(4)] == [0, 2, 0, 2]
    time.now += ASIDE_SECONDS
    assert ring.aside == 0
    assert Counter(ring.next_index() for _ in range(3)) == Counter(range(3))


def test_with_every_key_aside_the_one_whose_time_comes_first_is_used() -> None:
    time = Time()
    ring = KeyRing("ab", monotonic=time)
    ring.keys[1].refused(401)
    time.now += 1
    ring.keys[0].refused(401)
    assert [ring.next_index() for _ in range(3)] == [1, 1, 1]


def test_refusal_is_reported_with_whether_the_key_was_in_use() -> None:
    time = Time()
    ring = KeyRing("ab", monotonic=time)
    result: list[tuple[int, int, bool]] = []
    ring.listener = lambda *one: result.append(one)
    ring.keys[1].refused(401)
    ring.keys[1].refused(402)
    time.now += ASIDE_SECONDS
    ring.keys[1].refused(401)
    assert result == [(2, 401, True), (2, 402, False), (2, 401, True)]


@cases("status", 200, 400, 403, 404, 429, 500)
def test_other_statuses_say_nothing_of_the_key(status: int) -> None:
    spec = channel_of_keys()
    request_of(spec).took_status(status)
    assert spec.ring.aside == 0


async def test_media_requests_have_one_key_whose_refusal_counts_over_a_connection() -> None:
    async def script(peer: Peer) -> None:
        for reply in (OK, REFUSED % 402):
            await peer.request()
            await peer.send(reply)

    async with RawServer(script) as server, new_http() as http:
        spec = channel_of_keys(server.port)
        requested = MediaRequest(method="GET", path="/v1/videos/1")
        assert sent_key(addressed(spec, requested)) == KEYS[0]
        for status in (200, 402):
            response = await send(http, spec, requested, 100, now=lambda: 0.0)
            assert response.status == status
        assert all(f"Bearer {KEYS[0]}\r\n".encode() in head for head, _ in server.requests)
        assert spec.ring.aside == 1


def test_every_key_is_masked() -> None:
    spec = channel_of_keys()
    assert key_spellings(spec) == set(KEYS)
    block = " ".join(KEYS).encode()
    assert redaction_of(spec).redacted(block) == b"[redacted] [redacted] [redacted]"
    assert all(key not in repr(spec) for key in KEYS)


def throttle(ring: KeyRing, number: int, retry_after: str | None) -> None:
    ring.keys[number].throttled(retry_after)


RESTS = [
    ("30", 30.0),
    ("1.5", 1.5),
    ("0", REST_SECONDS_MIN),
    ("3600", REST_SECONDS_MAX),
    ("9" * 400, REST_SECONDS),
    ("Wed, 21 Oct 2026 07:28:00 GMT", REST_SECONDS),
    ("-1", REST_SECONDS),
    (None, REST_SECONDS),
]


@each("retry_after, seconds", RESTS)
def test_throttled_key_rests_for_as_long_as_its_upstream_asks(
    retry_after: str | None, seconds: float
) -> None:
    time = Time()
    ring = KeyRing("ab", rests=True, monotonic=time)
    rests: list[tuple[int, float]] = []
    ring.rest_listener = lambda *one: rests.append(one)
    throttle(ring, 0, retry_after)
    throttle(ring, 0, retry_after)
    assert rests == [(1, seconds)]
    assert (ring.aside, ring.is_resting, ring.is_ready) == (0, False, True)
    assert [ring.next_index() for _ in range(3)] == [1, 1, 1]
    assert [ring.next_index(pin) for pin in "xyz"] == [1, 1, 1]
    time.now += seconds
    assert {ring.next_index(f"{n}") for n in range(20)} == {0, 1}


def test_key_is_last_in_turn_after_its_rest() -> None:
    time = Time()
    ring = KeyRing("abc", rests=True, monotonic=time)
    assert [ring.next_index() for _ in range(2)] == [0, 1]
    throttle(ring, 2, "9")
    assert [ring.next_index() for _ in range(2)] == [0, 1]
    time.now += 9  # its turn would be now
    assert [ring.next_index() for _ in range(4)] == [0, 1, 2, 0]


def test_success_does_not_shorten_a_rest_and_a_channel_rests_with_its_last_key() -> None:
    time = Time()
    ring = KeyRing("abc", rests=True, monotonic=time)
    throttle(ring, 0, "30")
    ring.keys[0].confirmed()
    throttle(ring, 1, "20")
    assert not ring.is_resting
    ring.keys[2].refused(401)
    throttle(ring, 0, "40")
    assert (ring.is_resting, ring.is_aside, ring.rests_until) == (True, False, time.now + 20)
    assert ring.next_index() == 1  # rather than one that was refused
    ring.keys[2].confirmed()
    assert (ring.is_resting, ring.next_index()) == (False, 2)


def test_key_of_a_channel_that_leaves_it_to_the_client_never_rests() -> None:
    ring = KeyRing("ab")
    throttle(ring, 0, "30")
    assert [ring.next_index() for _ in range(3)] == [0, 1, 0]
    assert make_channel("one").ring.rests is False
    assert make_channel("one", hops_when_throttled=True).ring.rests is True
