"""The checks before an endpoint, in their order, and what a refusal leaves behind."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gw.api.base import INTERNAL_MESSAGE, STORE_MESSAGE
from gw.api.checks import MISSING_KEY, OUT_OF_FUNDS, QUERY_KEY
from gw.api.services import Services
from gw.keys.principal import MESSAGES, KeyRefused, RefusalReason
from tests.support.aio import run
from tests.unit.api.fakes import KEY, MAX_BODY_BYTES, World, make_principal
from tests.unit.api.handlers import make_app
from tests.unit.http.wire import Answer, request, served

ECHO = request("POST", "/v1/echo", "Content-Length: 2")


def ask(world: World, *requests: tuple[str, bytes]) -> list[Answer]:
    async def scene() -> list[Answer]:
        async with served(make_app(world)) as address:
            return [await address.ask(head, body) for head, body in requests]

    return run(scene())


def ask_one(world: World, head: str, body: bytes = b"{}") -> Answer:
    (answer,) = ask(world, (head, body))
    return answer


# --- What costs nothing ---


@pytest.mark.parametrize("remembers", [True, False], ids=["from memory", "asked for"])
def test_reading_from_a_billed_endpoint_needs_no_money_and_leaves_no_row(remembers: bool) -> None:
    world = World()
    world.money.available_nano_usd = 0
    world.keys.remembers = world.money.remembers = remembers
    read, missed = (request("GET", f"/v1/polled{query}") for query in ("", "?no=1"))
    answers = ask(world, (read, b""), (missed, b""))
    assert [answer.status for answer in answers] == [200, 404]
    assert (world.money.asked, world.refusals) == ([], [])
    assert ask_one(world, ECHO).status == 402


def test_reading_from_a_billed_endpoint_counts_for_the_limits() -> None:
    world = World()
    world.keys.known[KEY] = make_principal(rpm_limit=1)
    answers = ask(world, *[(request("GET", "/v1/polled"), b"")] * 2)
    assert [answer.status for answer in answers] == [200, 429]
    assert world.refusals == []


# --- 401 ---


def test_no_key_is_401_and_a_challenge() -> None:
    answer = ask_one(World(), request("POST", "/v1/echo", "Content-Length: 2", key=None))
    assert (answer.status, answer.code) == (401, "invalid_api_key")
    assert answer.json()["error"] == {
        "message": MISSING_KEY,
        "type": "authentication_error",
        "code": "invalid_api_key",
    }
    assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("reason", MESSAGES)
def test_a_refused_key_is_401_with_its_own_message(reason: RefusalReason) -> None:
    world = World()
    world.keys.known[KEY] = KeyRefused(reason)
    answer = ask_one(world, ECHO)
    assert (answer.status, answer.code) == (401, "invalid_api_key")
    assert answer.json()["error"]["message"] == MESSAGES[reason]
    assert world.refusals == []
    assert world.money.asked == []


@pytest.mark.parametrize(
    ("path", "shape"),
    [
        ("/v1/messages", {"type": "error", "error": {"type": "authentication_error"}}),
        ("/v1beta/native", {"error": {"code": 401, "status": "UNAUTHENTICATED"}}),
    ],
)
def test_an_error_has_the_shape_of_its_endpoint(path: str, shape: dict[str, object]) -> None:
    answer = ask_one(World(), request("POST", path, "Content-Length: 2", key=None))
    body = answer.json()
    del body["error"]["message"]
    assert body == shape


def test_a_413_has_the_shape_of_its_endpoint() -> None:
    head = request("POST", "/v1/messages", f"Content-Length: {MAX_BODY_BYTES + 1}")
    answer = ask_one(World(), head, b"")
    assert answer.json()["error"]["type"] == "request_too_large"


def test_the_key_is_taken_from_the_query() -> None:
    world = World()
    head = request("POST", f"/v1/echo?key={KEY}", "Content-Length: 2", key=None)
    assert ask_one(world, head).status == 200
    assert world.keys.uses == [(KEY, True)]


@pytest.mark.parametrize(
    ("changes", "available_nano_usd", "told"),
    [
        ({}, 1, (200, None)),
        ({"rpm_limit": 2}, 1, (200, None)),
        ({"kind": "agent"}, 1, (403, "permission_denied")),
        ({"rpm_limit": 1}, 1, (429, "rate_limit_exceeded")),
        ({"concurrency_limit": 1}, 1, (429, "rate_limit_exceeded")),
        ({}, 0, (402, "quota_exceeded")),
        ({"rpm_limit": 1}, 0, (429, "rate_limit_exceeded")),
        ({"kind": "agent", "rpm_limit": 1}, 0, (403, "permission_denied")),
    ],
)
@pytest.mark.parametrize("remembers", [True, False], ids=["from memory", "asked for"])
def test_the_checks_say_the_same_whether_or_not_they_have_to_wait(
    changes: dict[str, object],
    available_nano_usd: int,
    told: tuple[int, str | None],
    remembers: bool,
) -> None:
    world = World()
    world.keys.known[KEY] = make_principal(**changes)
    world.keys.remembers = world.money.remembers = remembers
    world.money.available_nano_usd = available_nano_usd
    world.limits.try_enter("acct_1", rpm=1, concurrency=None)  # another, still in flight
    answer = ask_one(world, ECHO)
    assert (answer.status, answer.code if told[1] else None) == told
    assert world.keys.uses == [(KEY, True)]
    assert len(world.refusals) == (told[0] != 200)
    assert world.metrics.limits_refused == (
        [] if told[0] != 429 else ["rpm" if "rpm_limit" in changes else "concurrency"]
    )
    if remembers and told[0] == 200:
        assert world.money.asked == []
    assert world.limits.in_flight("acct_1") == 1
    assert len(world.in_flight) == 0


def test_an_endpoint_may_leave_the_last_use_alone() -> None:
    world = World()
    assert ask_one(world, request("GET", "/v1/free"), b"").status == 200
    assert world.keys.uses == [(KEY, False)]


# --- 403, 429, 402, and the order of all of them ---


def agent_world() -> World:
    world = World()
    world.keys.known[KEY] = make_principal(kind="agent", agent_id="agent_1")
    return world


def test_an_agent_key_is_403_where_agents_do_not_speak() -> None:
    world = agent_world()
    answer = ask_one(world, request("GET", "/v1/free"), b"")
    assert (answer.status, answer.code) == (403, "permission_denied")
    assert ask_one(world, request("POST", "/v1/messages", "Content-Length: 2")).status == 200


def test_an_agent_key_is_refused_in_the_endpoints_shape() -> None:
    answer = ask_one(agent_world(), request("POST", "/v1beta/native", "Content-Length: 2"))
    assert answer.json()["error"]["status"] == "PERMISSION_DENIED"


def test_a_limited_account_reads_its_limits_with_every_success() -> None:
    world = World()
    world.keys.known[KEY] = make_principal(rpm_limit=2, concurrency_limit=7)
    first, second, third = ask(world, (ECHO, b"{}"), (ECHO, b"{}"), (ECHO, b"{}"))
    limits = {name: value for name, value in first.headers.items() if "ratelimit" in name}
    assert limits == {
        "x-ratelimit-limit-requests": "2",
        "x-ratelimit-remaining-requests": "1",
        "x-ratelimit-reset-requests": "60",
        "x-ratelimit-limit-concurrency": "7",
        "x-ratelimit-remaining-concurrency": "6",
    }
    assert second.headers["x-ratelimit-remaining-requests"] == "0"
    assert (third.status, third.code) == (429, "rate_limit_exceeded")
    assert third.headers["retry-after"] == "60"
    assert third.headers["x-ratelimit-limit-requests"] == "2"
    assert third.headers["x-ratelimit-remaining-requests"] == "0"
    assert "requests per minute" in third.json()["error"]["message"]


def test_a_full_account_is_429_and_told_of_concurrency() -> None:
    world = World()
    world.keys.known[KEY] = make_principal(concurrency_limit=1)
    taken = run(world.limits.enter("acct_1", rpm=None, concurrency=1))
    answer = ask_one(world, ECHO)
    assert (answer.status, answer.code) == (429, "rate_limit_exceeded")
    assert "concurrency" in answer.json()["error"]["message"]
    assert answer.headers["x-ratelimit-remaining-concurrency"] == "0"
    taken.leave()
    assert [a.status for a in ask(world, (ECHO, b"{}"), (ECHO, b"{}"))] == [200, 200]


def test_an_unlimited_account_reads_no_limits() -> None:
    answer = ask_one(World(), ECHO)
    assert not [name for name in answer.headers if "ratelimit" in name]


def test_an_error_after_admission_carries_no_limits() -> None:
    # With them, a client would take it for the account's limit (spec: Errors, rule 2).
    world = World()
    world.keys.known[KEY] = make_principal(rpm_limit=5)
    world.money.available_nano_usd = 0
    answer = ask_one(world, ECHO)
    assert answer.status == 402
    assert not [name for name in answer.headers if "ratelimit" in name]


def test_a_free_endpoint_does_not_count() -> None:
    world = World()
    world.keys.known[KEY] = make_principal(rpm_limit=0, concurrency_limit=0)
    world.money.available_nano_usd = -5
    assert ask_one(world, request("GET", "/v1/free"), b"").status == 200


@pytest.mark.parametrize("available_nano_usd", [0, -1])
def test_an_empty_balance_is_402(available_nano_usd: int) -> None:
    world = World()
    world.money.available_nano_usd = available_nano_usd
    world.limits.try_enter("acct_1", rpm=1, concurrency=None)  # another, still in flight
    answer = ask_one(world, ECHO)
    assert answer.status == 402
    assert answer.json()["error"] == {
        "message": OUT_OF_FUNDS,
        "type": "insufficient_quota",
        "code": "quota_exceeded",
    }


def test_a_last_nano_dollar_is_let_through() -> None:
    world = World()
    world.money.available_nano_usd = 1
    assert ask_one(world, ECHO).status == 200


def test_the_checks_come_in_the_order_of_the_contract() -> None:
    """Everything is wrong with this request; one fault after the other is put right."""
    world = World()
    world.money.available_nano_usd = 0
    blocker = run(world.limits.enter("acct_1", rpm=None, concurrency=None))
    world.keys.known[KEY] = KeyRefused("revoked")
    head = request("POST", "/v1/echo", f"Content-Length: {MAX_BODY_BYTES + 1}")
    codes = [ask_one(world, head, b"").code]
    world.keys.known[KEY] = make_principal(kind="agent", concurrency_limit=1)
    codes.append(ask_one(world, head, b"").code)
    world.keys.known[KEY] = make_principal(concurrency_limit=1)
    codes.append(ask_one(world, head, b"").code)
    blocker.leave()
    codes.append(ask_one(world, head, b"").code)
    world.money.available_nano_usd = 1
    codes.append(ask_one(world, head, b"").code)
    assert codes == [
        "invalid_api_key",
        "permission_denied",
        "rate_limit_exceeded",
        "quota_exceeded",
        "request_too_large",
    ]
    assert world.limits.in_flight("acct_1") == 0


# --- Rows of refused calls ---


def test_a_refused_billed_call_is_a_row() -> None:
    world = World()
    world.money.available_nano_usd = 0
    answer = ask_one(world, ECHO)
    (refusal,) = world.refusals
    assert refusal.call_id.hex == answer.headers["x-gateway-trace"]
    assert refusal.principal == make_principal()
    assert (refusal.protocol, refusal.model) == ("chat", None)
    assert (refusal.http_status, refusal.error_code) == (402, "quota_exceeded")
    assert refusal.error_message == OUT_OF_FUNDS
    assert refusal.submitted_at == world.clock.now()


def test_a_refusal_without_a_key_or_of_a_free_endpoint_is_no_row() -> None:
    world = World()
    ask(
        world,
        (request("POST", "/v1/echo", key=None), b""),
        (request("POST", "/v1/free"), b""),
        (request("GET", "/v1/echo"), b""),
    )
    ask_one(agent_world(), request("GET", "/v1/free"), b"")
    assert world.refusals == []


# --- Faults before the endpoint ---


def test_a_database_away_at_the_balance_check_is_503_and_gives_the_place_back(
    expect_log: Callable[..., None],
) -> None:
    expect_log("request_failed")
    world = World()
    world.money.is_down = True
    answer = ask_one(world, ECHO)
    assert (answer.status, answer.code) == (503, "no_channel_available")
    assert answer.headers["retry-after"] == "1"
    assert answer.json()["error"]["message"] == STORE_MESSAGE
    assert world.limits.in_flight("acct_1") == 0


def test_a_fault_before_the_endpoint_is_500_and_tells_nothing(
    expect_log: Callable[..., None],
) -> None:
    expect_log("request_failed")
    world = World()
    world.keys.known[KEY] = RuntimeError("secret of the inside")
    answer = ask_one(world, ECHO)
    assert (answer.status, answer.json()["error"]["message"]) == (500, INTERNAL_MESSAGE)


def test_services_do_not_change_under_a_handler() -> None:
    assert Services.__dataclass_params__.frozen  # type: ignore[attr-defined]


def test_the_query_key_message_says_where_else() -> None:
    assert "x-api-key" in QUERY_KEY
    assert "query" in QUERY_KEY
