"""What stands before every endpoint: keys, limits, balance, in order."""

from typing import Any

from tornado.httputil import HTTPHeaders

from gw.api.application import GatewayApplication
from gw.api.checks import (
    MISSING_KEY,
    OUT_OF_FUNDS,
)
from gw.api.credentials import AuthMode, find_key, has_query_key
from gw.api.endpoint import Endpoint
from gw.api.failures import INTERNAL_MESSAGE, STORE_MESSAGE
from gw.api.handler import ApiHandler
from gw.api.logs.handlers import LogListHandler
from gw.http.tornado.headers import RequestHeaders
from gw.http.tornado.request import TornadoRequest
from gw.keys.principal import MESSAGES, KeyRefused
from loadtests.rig.response import Response
from tests.support.aio import run, waited
from tests.support.logs import logs
from tests.support.rows import cases, each
from tests.unit.api.fakes import KEY, MAX_BODY_BYTES, World, make_principal
from tests.unit.api.handlers import EchoHandler, billed, make_app
from tests.unit.http.client import request, served

QUERY = {"key": [b"from-query"]}

# mode, headers, query, key
CASES: list[tuple[AuthMode, dict[str, str], dict[str, list[bytes]], str | None]] = [
    ("standard", {}, {}, None),
    ("standard", {"x-api-key": "a"}, {}, "a"),
    ("standard", {"x-alt-api-key": "a"}, {}, "a"),
    ("standard", {"x-goog-api-key": "a"}, {}, "a"),
    ("standard", {}, QUERY, "from-query"),
    ("standard", {"Authorization": "Bearer a"}, {}, "a"),
    # The order: x-api-key, x-alt-api-key and its alias, the query, Bearer.
    ("standard", {"x-api-key": "a", "x-alt-api-key": "b"}, QUERY, "a"),
    ("standard", {"x-alt-api-key": "b", "x-goog-api-key": "c"}, QUERY, "b"),
    ("standard", {"x-goog-api-key": "c", "Authorization": "Bearer d"}, QUERY, "c"),
    ("standard", {"Authorization": "Bearer d"}, QUERY, "from-query"),
    # An empty value is no hit.
    ("standard", {"x-api-key": "", "x-alt-api-key": " ", "Authorization": "Bearer d"}, {}, "d"),
    ("standard", {"Authorization": "Bearer d"}, {"key": [b""]}, "d"),
    ("standard", {"Authorization": "Bearer d"}, {"key": [b"", b"second"]}, "second"),
    ("standard", {"Authorization": "Bearer"}, {}, None),
    ("standard", {"Authorization": "Bearer   "}, {}, None),
    # The first hit decides, however bad.
    ("standard", {"x-api-key": "junk", "Authorization": "Bearer good"}, {}, "junk"),
    # The scheme is a word in any case; another scheme is no hit.
    ("standard", {"Authorization": "bearer a"}, {}, "a"),
    ("standard", {"Authorization": "BEARER   a  "}, {}, "a"),
    ("standard", {"Authorization": "Basic dXNlcjpw"}, {}, None),
    ("standard", {"Authorization": "sk-platform-bare"}, {}, None),
    ("standard", {"Authorization": "Bearerx a"}, {}, None),
    ("standard", {"X-API-KEY": "a"}, {}, "a"),
    ("standard", {}, {"key": [b"\xff\xfe"]}, "\ufffd\ufffd"),
    # Model discovery: two headers, no query.
    ("two_headers", {}, QUERY, None),
    ("two_headers", {"x-api-key": "a", "Authorization": "Bearer d"}, QUERY, "a"),
    ("two_headers", {"Authorization": "Bearer d"}, QUERY, "d"),
    ("two_headers", {"x-alt-api-key": "b", "x-goog-api-key": "c"}, QUERY, None),
    ("two_headers", {"x-goog-api-key": "c", "Authorization": "Bearer d"}, {}, "d"),
]


@each("mode, headers, query, expected", CASES)
def test_the_first_hit_decides(
    mode: AuthMode, headers: dict[str, str], query: dict[str, list[bytes]], expected: str | None
) -> None:
    found = find_key(HTTPHeaders(headers), query, mode)
    assert (found and found[0]) == expected


def test_a_header_sent_twice_is_no_key_and_an_empty_parameter_none() -> None:
    headers = HTTPHeaders()
    headers.add("x-api-key", "a")
    headers.add("x-api-key", "b")
    assert find_key(headers, {}, "standard") == ("a,b", "X-Api-Key")
    result = [has_query_key(query) for query in (QUERY, {"key": [b"", b" "]}, {})]
    assert result == [True, False, False]


ECHO = request("POST", "/v1/echo", "Content-Length: 2")


ECHOES, MODELS = billed("/echo", EchoHandler), billed("/narrow", EchoHandler, auth="two_headers")
LOGS = Endpoint("logs", "/v1/logs", ("GET",), LogListHandler, log_rate=True)


# Heads whose `sk-a` is another key in each request.
KEY_LINES = ["Authorization: Bearer sk-a", "x-api-key: sk-a", "X-GOOG-API-KEY: sk-a", "X: sk-a"]
KEY_LINES += [f"{first}\n{KEY_LINES[0]}" for first in KEY_LINES[1:3]]
KEY_LINES += ["authorization: sk-a", "Authorization: Bearer sk", "x-api-key: Bearer sk-a"]
KEY_LINES += [f"{KEY_LINES[0]}\nx-api-key: {KEY}", f"{KEY_LINES[0]}\nAuthorization: Bearer {KEY}"]


@cases("remembers", True, False)
@cases("path", "/echo", f"/echo?key={KEY}", "/echo?key=", "/narrow", f"/narrow?key={KEY}")
@each("lines", KEY_LINES)
async def test_key_is_that_of_its_own_request_whatever_came_before_on_the_connection(
    path: str, lines: str, remembers: bool
) -> None:
    world = World()
    world.keys.remembers = remembers
    world.keys.known |= {name: make_principal(account_id=name) for name in ("sk-a", "sk-b", "sk")}
    rules = [ECHOES, MODELS]
    heads = [
        request("POST", path, lines.replace("sk-a", one), "Content-Length: 2", key=None)
        for one in ("sk-a", "sk-b", "sk-bad", "sk-b", "sk-a", "sk-a")
    ]
    async with served(GatewayApplication(rules, services=world.services)) as address:
        alone = [(await address.request(head, b"{}")).status for head in heads]
        uses, world.keys.uses = world.keys.uses, []
        async with address.client() as client:
            assert [(await client.request(head, b"{}")).status for head in heads] == alone
    assert world.keys.uses == uses


def ask(world: World, *requests: tuple[str, bytes]) -> list[Response]:
    async def scene() -> list[Response]:
        async with served(make_app(world)) as address:
            return [await address.request(head, body) for head, body in requests]

    return run(scene())


def ask_one(world: World, head: str, body: bytes = b"{}") -> Response:
    (response,) = ask(world, (head, body))
    return response


@cases("remembers", True, False)
def test_reading_from_a_billed_endpoint_needs_no_money_and_leaves_no_row(remembers: bool) -> None:
    world = World()
    world.money.available_nano_usd = 0
    world.keys.remembers = world.money.remembers = remembers
    read, missed = (request("GET", f"/v1/polled{query}") for query in ("", "?no=1"))
    responses = ask(world, (read, b""), (missed, b""))
    assert [response.status for response in responses] == [200, 404]
    assert (world.money.requested, world.refusals) == ([], [])
    assert ask_one(world, ECHO).status == 402


def test_reading_from_a_billed_endpoint_counts_for_the_limits() -> None:
    world = World()
    world.keys.known[KEY] = make_principal(rpm_limit=1)
    responses = ask(world, *[(request("GET", "/v1/polled"), b"")] * 2)
    assert [response.status for response in responses] == [200, 429]
    assert world.refusals == []


@cases(
    "changes, available_nano_usd, result",
    ({}, 1, (200, None)),
    ({"rpm_limit": 2}, 1, (200, None)),
    ({"kind": "agent"}, 1, (403, "permission_denied")),
    ({"rpm_limit": 1}, 1, (429, "rate_limit_exceeded")),
    ({"concurrency_limit": 1}, 1, (429, "rate_limit_exceeded")),
    ({}, 0, (402, "quota_exceeded")),
    ({"rpm_limit": 1}, 0, (429, "rate_limit_exceeded")),
    ({"kind": "agent", "rpm_limit": 1}, 0, (403, "permission_denied")),
)
@cases("remembers", True, False)
def test_the_checks_say_the_same_whether_or_not_they_have_to_wait(
    changes: dict[str, object],
    available_nano_usd: int,
    result: tuple[int, str | None],
    remembers: bool,
) -> None:
    world = World()
    world.keys.known[KEY] = make_principal(**changes)
    world.keys.remembers = world.money.remembers = remembers
    world.money.available_nano_usd = available_nano_usd
    world.limits.enter("acct_1", rpm=1, concurrency=None)  # another, still in flight
    response = ask_one(world, ECHO)
    assert (response.status, response.code if result[1] else None) == result
    assert world.keys.uses == [(KEY, True)]
    assert len(world.refusals) == (result[0] != 200)
    assert world.metrics.limits_refused == (
        [] if result[0] != 429 else ["rpm" if "rpm_limit" in changes else "concurrency"]
    )
    if remembers and result[0] == 200:
        assert world.money.requested == []
    assert world.limits.in_flight("acct_1") == 1
    assert len(world.in_flight) == 0


def keyless(path: str) -> str:
    return request("POST", path, "Content-Length: 2", key=None)


AGENT = {"kind": "agent", "agent_id": "agent_1"}
FREE = request("GET", "/v1/free")
NATIVE = request("POST", "/v1beta/native", "Content-Length: 2")
LARGE = request("POST", "/v1/messages", f"Content-Length: {MAX_BODY_BYTES + 1}")
# What is known of the key, what is left, what is asked; status, and members of the error.
ONE_BY_ONE: list[tuple[dict[str, Any] | Exception, int, str, int, dict[str, Any]]] = [
    ({}, 1, ECHO, 200, {}),  # the last nano-dollar
    ({}, 1, keyless(f"/v1/echo?key={KEY}"), 200, {}),
    ({"rpm_limit": 0, "concurrency_limit": 0}, -5, FREE, 200, {}),
    ({}, 1, keyless("/v1/echo"), 401, {"message": MISSING_KEY, "code": "invalid_api_key"}),
    ({}, 1, keyless("/v1/messages"), 401, {"type": "authentication_error"}),
    ({}, 1, keyless("/v1beta/native"), 401, {"code": 401, "status": "UNAUTHENTICATED"}),
    *(
        (KeyRefused(reason), 1, ECHO, 401, {"message": text, "code": "invalid_api_key"})
        for reason, text in MESSAGES.items()
    ),
    (AGENT, 1, FREE, 403, {"code": "permission_denied"}),
    (AGENT, 1, NATIVE, 403, {"status": "PERMISSION_DENIED"}),
    (AGENT, 1, request("POST", "/v1/messages", "Content-Length: 2"), 200, {}),
    ({}, 1, LARGE, 413, {"type": "request_too_large"}),
    ({}, 0, ECHO, 402, {"message": OUT_OF_FUNDS, "type": "insufficient_quota"}),
    ({"rpm_limit": 5}, -1, ECHO, 402, {"code": "quota_exceeded"}),
    (RuntimeError("secret of the inside"), 1, ECHO, 500, {"message": INTERNAL_MESSAGE}),
]


@logs("request_failed")
@each("key, available, head, status, members", ONE_BY_ONE)
def test_each_check_refuses_by_itself(
    key: dict[str, Any] | Exception, available: int, head: str, status: int, members: dict[str, Any]
) -> None:
    world = World()
    world.keys.known[KEY] = key if isinstance(key, Exception) else make_principal(**key)
    world.money.available_nano_usd = available
    response = ask_one(world, head, b"{}" if "Content-Length: 2" in head else b"")
    assert response.status == status
    if status != 200:
        assert members.items() <= response.json["error"].items()
    # With them, a client would take it for the account's limit (reference 1.4).
    assert not [name for name in response.headers if "ratelimit" in name]
    assert response.headers.get("www-authenticate") == ("Bearer" if status == 401 else None)
    if status == 401:
        assert (world.refusals, world.money.requested) == ([], [])
    if key == {} and status in (200, 402):
        assert world.keys.uses == [(KEY, True)]
    if head is FREE and status == 200:
        assert world.keys.uses == [(KEY, False)]  # an endpoint may leave the last use alone


def test_a_full_account_is_429_with_headers_of_concurrency() -> None:
    world = World()
    world.keys.known[KEY] = make_principal(concurrency_limit=1)
    taken = run(waited(world.limits.enter("acct_1", rpm=None, concurrency=1)))
    response = ask_one(world, ECHO)
    assert (response.status, response.code) == (429, "rate_limit_exceeded")
    assert "concurrency" in response.json["error"]["message"]
    assert response.headers["x-ratelimit-remaining-concurrency"] == "0"
    taken.leave()
    assert [a.status for a in ask(world, (ECHO, b"{}"), (ECHO, b"{}"))] == [200, 200]


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
    assert "requests per minute" in third.json["error"]["message"]


def test_the_checks_come_in_the_documented_order() -> None:
    """Everything is wrong with this request; one fault after the other is put right."""
    world = World()
    world.money.available_nano_usd = 0
    blocker = run(waited(world.limits.enter("acct_1", rpm=None, concurrency=None)))
    world.keys.known[KEY] = KeyRefused("revoked")
    head = request("POST", "/v1/echo", f"Content-Length: {MAX_BODY_BYTES + 1}")
    codes = [ask_one(world, head, b"").code]
    for kind in ("agent", "console"):
        world.keys.known[KEY] = make_principal(kind=kind, concurrency_limit=1)
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


def test_a_refused_billed_call_is_a_row() -> None:
    world = World()
    world.money.available_nano_usd = 0
    response = ask_one(world, ECHO)
    (refusal,) = world.refusals
    assert refusal.call_id.hex == response.headers["x-gateway-trace"]
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
    world.keys.known[KEY] = make_principal(**AGENT)
    ask_one(world, FREE, b"")
    assert world.refusals == []


@logs("request_failed")
def test_a_database_away_at_the_balance_check_is_503_and_gives_the_place_back() -> None:
    world = World()
    world.money.is_down = True
    response = ask_one(world, ECHO)
    assert (response.status, response.code) == (503, "no_channel_available")
    assert response.headers["retry-after"] == "1"
    assert response.json["error"]["message"] == STORE_MESSAGE
    assert world.limits.in_flight("acct_1") == 0


def handler(world: World, endpoint: Endpoint, target: str, key: str) -> ApiHandler:
    fields = {"Host": ["gateway"]} | ({"X-Api-Key": [key]} if key else {})
    request = TornadoRequest("POST", target, "HTTP/1.1", RequestHeaders(fields), "")
    request.read_target()
    one = endpoint.handler(world.application(), request, endpoint=endpoint)
    assert isinstance(one, ApiHandler)
    return one


async def test_only_what_memory_does_not_know_is_read() -> None:
    world = World()
    world.keys.remembers, world.money.remembers = True, False
    one = handler(world, ECHOES, "/", KEY)
    waiting = one.check()
    assert waiting is not None
    await waiting
    assert world.keys.uses == [(KEY, True)]  # once, and the limits counted it once
    assert world.limits.in_flight("acct_1") == 1
    assert world.money.requested == ["available"]
    one.release()
    world.money.remembers = True
    assert handler(world, ECHOES, "/", KEY).check() is None


async def test_paid_submission_asks_again_without_money() -> None:
    class Submits(EchoHandler):
        async def on_submit(self) -> None:
            """Do nothing: the checks are enough."""

    sold = billed("/sold", Submits, sold_by="count")
    world = World()
    world.money.available_nano_usd = 0
    world.kept.known.add(("acct_1", "again"))
    fields = RequestHeaders({"Host": ["gateway"], "X-Api-Key": [KEY], "Idempotency-Key": ["again"]})
    request = TornadoRequest("POST", "/", "HTTP/1.1", fields, "")
    request.read_target()
    waiting = Submits(world.application(), request, sold).check()
    assert waiting is not None
    await waiting
