"""Bad input over raw sockets: a clear error each, and afterwards nothing has moved.

The table is `bad_inputs/`. Everything is thrown at one gateway, whose balance, ledger, upstream,
log and memory are looked at in the end.
"""

from collections.abc import Callable, Iterator

import pytest

from loadtests.rig.connection import Connection
from loadtests.rig.deployment import Deployment
from tests.acceptance.bad_inputs import CASES
from tests.acceptance.bad_inputs.case import (
    CHAT,
    GOOD,
    NO_KEY,
    TOO_LARGE,
    UNKNOWN_MODEL,
    Case,
    chat_json,
    chunked,
    request,
)
from tests.acceptance.bad_inputs.stand import FUNDS_NANO_USD, SETTINGS, Stand
from tests.support.rows import each

__all__ = ["SETTINGS"]

BODY = chat_json(model="no-such-model")


@pytest.fixture(scope="module")
def stand(shared: Deployment) -> Iterator[Stand]:
    """The deployment of this module, which stands at the end as it stood at the beginning."""
    built = Stand(shared)
    yield built
    built.check_quiet()
    built.check_no_fault()
    built.check_rows()


@each("case", CASES)
def test_bad_input_gets_its_one_clear_answer(stand: Stand, case: Case) -> None:
    stand.check(case)


_WHOLE = request(body=BODY)
_HEAD = request("Content-Length: 1000", length=False)
_LEAVES = {
    "at once": b"",
    "in the request line": b"POST /v1/cha",
    "in a header": _WHOLE[:60],
    "before the last line feed of the head": _HEAD[:-1],
    "before the body": _HEAD,
    "in the body": _HEAD + b'{"model":',
    "before the last byte": _WHOLE[:-1],
    "in the size of a chunk": request("Transfer-Encoding: chunked", length=False) + b"5",
    "in a chunk": request("Transfer-Encoding: chunked", length=False) + b"ff\r\n{",
    "before the last chunk": request("Transfer-Encoding: chunked", length=False)
    + chunked(BODY, end=b""),
    "in a chunk of two gigabytes": request("Transfer-Encoding: chunked", length=False)
    + b"7fffffff\r\n{",
    "in the body of a request without a key": request(
        "Content-Length: 99999", key=None, length=False
    )
    + b"{",
    "in a body that is too large": request("Content-Length: 99999999", length=False) + b"{",
    "behind the whole request": _WHOLE,
}


def _close_half(connection: Connection) -> None:
    connection.end_sending()
    connection.rest()  # which the server ends


_WAYS: dict[str, Callable[[Connection], None]] = {
    "closing": Connection.close,
    "resetting": Connection.reset,
    "closing its half": _close_half,
}


@each("way", _WAYS.values())
def test_client_that_leaves_leaves_nothing_behind(
    stand: Stand, way: Callable[[Connection], None]
) -> None:
    for sent in _LEAVES.values():
        with Connection(stand.url) as connection:
            connection.send(stand.wire(sent))
            way(connection)
    stand.check_quiet()


@each("expect", ["100-continue", "100-Continue", "100-CONTINUE"])
def test_client_that_asks_first_may_go_on(stand: Stand, expect: str) -> None:
    with Connection(stand.url) as connection:
        head = request(f"Expect: {expect}", f"Content-Length: {len(BODY)}", length=False)
        connection.send(stand.wire(head))
        assert connection.head().startswith(b"HTTP/1.1 100 ")
        connection.send(BODY)
        stand.check_response(connection.response(), UNKNOWN_MODEL)


@each("expect", ["100-continue", "100-Continue"])
def test_client_that_asks_first_is_refused_before_it_sends(stand: Stand, expect: str) -> None:
    with Connection(stand.url) as connection:
        connection.send(request(f"Expect: {expect}", "Content-Length: 100", key=None, length=False))
        stand.check_response(connection.response(), NO_KEY)
        assert connection.rest() == b""


@each("coding", ["Content-Length: 100000000", "Transfer-Encoding: chunked"])
def test_client_that_is_still_sending_can_read_that_it_is_too_much(
    stand: Stand, coding: str
) -> None:
    with Connection(stand.url) as connection:
        connection.send(stand.wire(request(coding, length=False)))
        for _ in range(25):  # 1.5 MB, of 100
            assert connection.send(chunked(b"x" * 65536, end=b""))
        stand.check_response(connection.response(), TOO_LARGE)


def test_good_calls_are_still_answered_and_bad_ones_never_went_upstream(stand: Stand) -> None:
    upstream = stand.deployment.upstream
    before = upstream.stats()["requests"]
    assert before == 0
    assert stand.deployment.balance_nano_usd(stand.tenant) == FUNDS_NANO_USD
    entries = stand.deployment.query(
        "SELECT kind FROM entries WHERE account_id = %s", stand.tenant.account
    )
    assert entries == [{"kind": "topup"}]
    report = stand.deployment.verify()
    assert report["ok"]
    assert report["counts"]["open_holds"] == 0
    usage = {"input": 10, "output": 5}
    reply = stand.tenant.client.chat(sim={"usage": usage})
    assert reply.status == 200
    streamed = stand.tenant.client.chat(stream=True, sim={"usage": usage})
    assert streamed.is_complete
    assert upstream.stats()["requests"] == 2
    spent = 2 * (10 * 1_000 + 5 * 10_000)
    assert stand.tenant.client.remaining_nano_usd() == FUNDS_NANO_USD - spent


def test_bad_input_leaves_no_memory_behind(stand: Stand) -> None:
    heavy = [case for case in CASES if len(case.wire) > 50_000]
    for case in heavy:
        stand.check(case)
    before = stand.resident_bytes()
    for _ in range(20):
        for case in heavy:
            stand.check(case)
    assert 20 * sum(len(case.wire) for case in heavy) > 100_000_000
    assert stand.resident_bytes() - before < 8_000_000


def test_order_of_answers_does_not_depend_on_who_is_waiting(stand: Stand) -> None:
    """A connection that is stuck in its body holds nobody else up."""
    with Connection(stand.url) as stuck, Connection(stand.url) as other:
        stuck.send(stand.wire(_HEAD))
        other.send(stand.wire(request(method="GET", target="/v1/models")))
        stand.check_response(other.response(), GOOD)
        stuck.send(b" " * 1000)
        response = stuck.response()
        assert (response.status, response.json["error"]["code"]) == (400, "invalid_request")
        assert CHAT.encode() not in response.body
