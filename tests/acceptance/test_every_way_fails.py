"""Every way through the gateway when the upstream fails: at once, in the middle, or by going away.

The client is told in its own protocol's shape, or finds its stream without an end; it pays for what
was delivered and for nothing else (contract §7: cost of a cut call).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import pytest

from tests.acceptance.dialogues.asked import Asked, body_of, content_bytes, path_of
from tests.acceptance.dialogues.cases import (
    PROTOCOLS,
    SAID,
    USAGE,
    WAYS,
    Way,
    cost_nano_usd,
    settings,
)
from tests.acceptance.dialogues.streamed import read_stream
from tests.support.client import NANO_PER_USD, Reply
from tests.support.covering import covering
from tests.support.house import House
from tests.support.tenants import Tenant

pytestmark = pytest.mark.long

SETTINGS = settings()
STREAMS = [way for way in WAYS if way.form != "whole"]
HELLO = Asked()
Fault = TypeVar("Fault", int, str)

# Events of each wire until two pieces of text, ten characters, are out; and before there is any.
WITH_WORDS = {"chat": 3, "messages": 5, "responses": 6, "native": 2}
OPENING = {"chat": 1, "messages": 3, "responses": 4, "native": 0}
HEARD = SAID[:10]
HEARD_TOKENS = 3  # by the gateway's estimate: four characters are one, rounded up
HEARD_BY_GEMINI = 2  # which counts as it goes; to the simulator five characters are one

# An upstream's status, and what it is called in each shape.
BAD = "invalid_request_error"
STATUSES: dict[int, tuple[tuple[str, str], str, str]] = {
    400: ((BAD, "invalid_request"), BAD, "INVALID_ARGUMENT"),
    403: (("permission_error", "permission_denied"), "permission_error", "PERMISSION_DENIED"),
    404: ((BAD, "not_found"), "not_found_error", "NOT_FOUND"),
    429: (("rate_limit_error", "rate_limit_exceeded"), "rate_limit_error", "RESOURCE_EXHAUSTED"),
    500: (("api_error", "upstream_error"), "api_error", "INTERNAL"),
    503: (("api_error", "upstream_error"), "api_error", "UNAVAILABLE"),
    529: (("api_error", "upstream_error"), "overloaded_error", "UNAVAILABLE"),
}
# A connection lost at once or in the middle of a whole answer, a web page with status 200, bytes
# that are no HTTP.
NO_ANSWER: dict[str, dict[str, Any]] = {
    "lost": {"refuse": True},
    "broken": {"cut_after_bytes": 60},
    "web page": {"malformed": "html"},
    "no HTTP": {"malformed": "http"},
}
UNREACHABLE = (("api_error", "upstream_unreachable"), "api_error", "UNAVAILABLE")
UNUSABLE = (("api_error", "upstream_error"), "api_error", "UNAVAILABLE")
# What an error event in the upstream's stream is called, by who reports it: chat and responses say
# server_error, messages overloaded_error, native UNAVAILABLE.
REPORTED = {
    "chat": (("api_error", "upstream_error"), "api_error", (500, "INTERNAL")),
    "messages": (("api_error", "upstream_error"), "overloaded_error", (503, "UNAVAILABLE")),
    "native": (("api_error", "upstream_error"), "overloaded_error", (503, "UNAVAILABLE")),
    "responses": (("api_error", "upstream_error"), "api_error", (500, "INTERNAL")),
}


def pairwise(rows: Iterable[tuple[Way, Fault]]) -> list[tuple[Way, Fault]]:
    """Every way, and each fault from every upstream and to every client."""
    return covering(
        list(rows),
        lambda row: str(row[0]),
        lambda row: (row[0].client, row[1]),
        lambda row: (row[0].upstream, row[1]),
    )


@pytest.fixture(scope="module")
def payer(shared: House) -> Tenant:
    return shared.tenant(nano_usd=100 * NANO_PER_USD)


def ask(h: House, payer: Tenant, way: Way, **directive: Any) -> Reply:
    h.upstream.fault(way.channel, text=SAID, usage=USAGE, **directive)
    body = body_of(way.client, way.model, way.form, HELLO)
    return payer.client.send("POST", path_of(way.client, way.model, way.form), body)


def check_shape(
    reply: Reply, way: Way, names: tuple[tuple[str, str], str, str], *, says: str = ""
) -> None:
    """The error is exactly what the client's protocol has."""
    chat, messages, gemini = names
    whole = reply.json
    error = whole["error"]
    assert says in error["message"]
    if way.client == "messages":
        assert whole == {"type": "error", "error": {**error, "type": messages}}
        assert set(error) == {"type", "message"}
    elif way.client == "native":
        assert set(whole) == {"error"}
        assert error == {**error, "code": reply.status, "status": gemini}
        assert set(error) == {"code", "message", "status"}
    else:
        assert list(error) == ["message", "type", "code"]
        assert (error["type"], error["code"]) == chat


def check_free(h: House, payer: Tenant, reply: Reply, before: int) -> None:
    row = h.row(reply.trace)
    assert row["status"] == "error"
    assert (row["input_tokens"], row["output_tokens"], row["cost_nano_usd"]) == (0, 0, 0)
    assert h.balance_nano_usd(payer) == before
    assert h.held_nano_usd(payer) == 0


@pytest.mark.parametrize(
    ("way", "status"), pairwise([(way, status) for way in WAYS for status in STATUSES]), ids=str
)
def test_refusal_before_anything(h: House, payer: Tenant, way: Way, status: int) -> None:
    before = h.balance_nano_usd(payer)
    reply = ask(h, payer, way, status=status, message="Not today, says it.", retry_after=7)
    assert reply.status == status
    # What it refused is the translation's wording: the client is told of it here, too.
    refused = way.translation if status < 500 else None
    assert reply.headers.get("x-protocol-translation") == refused
    check_shape(reply, way, STATUSES[status], says="Not today")
    assert reply.headers.get("retry-after") == ("7" if status in (429, 503) else None)
    assert reply.headers["content-type"].startswith("application/json")
    check_free(h, payer, reply, before)


@pytest.mark.parametrize(
    ("way", "how"),
    pairwise(
        (way, how) for way in WAYS for how in NO_ANSWER if how != "broken" or way.form == "whole"
    ),
    ids=str,
)
def test_what_is_no_answer(h: House, payer: Tenant, way: Way, how: str) -> None:
    before = h.balance_nano_usd(payer)
    reply = ask(h, payer, way, **NO_ANSWER[how])
    assert reply.status == 502
    check_shape(reply, way, UNREACHABLE if how == "lost" else UNUSABLE)
    check_free(h, payer, reply, before)


@pytest.mark.parametrize("way", STREAMS, ids=str)
def test_error_event_in_the_middle(h: House, payer: Tenant, way: Way) -> None:
    before = h.balance_nano_usd(payer)
    reply = ask(h, payer, way, error_event=WITH_WORDS[way.upstream], message="It broke.")
    assert reply.status == 200
    told = read_stream(way.client, way.form, reply.body)
    assert told.text == HEARD
    assert told.error is not None
    assert "It broke." in str(told.error)
    if way.translation:
        assert b"server_error" not in reply.body  # an upstream's word, in no shape of ours
        check_event(told.error, way)
    assert told.finish is None
    assert not told.has_end
    check_heard(h, payer, way, reply, before)


def check_event(error: dict[str, Any], way: Way) -> None:
    chat, messages, (code, status) = REPORTED[way.upstream]
    if way.client == "messages":
        assert error == {"type": messages, "message": "It broke."}
    elif way.client == "native":
        assert error == {"code": code, "message": "It broke.", "status": status}
    elif way.client == "responses":
        assert error["error"] == {
            "message": "It broke.",
            "type": chat[0],
            "code": chat[1],
            "param": None,
        }
    else:
        assert error == {"message": "It broke.", "type": chat[0], "code": chat[1]}


@pytest.mark.parametrize(
    ("way", "how"), pairwise([(way, how) for way in STREAMS for how in ("close", "reset")]), ids=str
)
def test_stream_that_breaks_off(h: House, payer: Tenant, way: Way, how: str) -> None:
    before = h.balance_nano_usd(payer)
    reply = ask(h, payer, way, cut_after_events=WITH_WORDS[way.upstream], cut=how)
    assert reply.status == 200
    assert not reply.is_broken, "the body is whole, the protocol's end is what lacks"
    told = read_stream(way.client, way.form, reply.body)
    assert told.text == HEARD
    assert (told.error, told.finish, told.has_end) == (None, None, False)
    check_heard(h, payer, way, reply, before)


@pytest.mark.parametrize("way", STREAMS, ids=str)
def test_client_that_leaves_pays_for_what_it_got(h: House, payer: Tenant, way: Way) -> None:
    before = h.balance_nano_usd(payer)
    h.upstream.fault(way.channel, text=SAID, usage=USAGE, endless=True)
    body = body_of(way.client, way.model, way.form, HELLO)
    call = payer.client.begin("POST", path_of(way.client, way.model, way.form), body)
    call.read_until(b"more ")
    trace = call.begun().headers["x-gateway-trace"]
    call.leave()
    h.upstream.wait(channel=way.channel, cancelled_by_client=1)
    row = h.row(trace)
    assert (row["status"], row["error_code"]) == ("interrupted", "client_disconnected")
    tokens = (row["input_tokens"], row["output_tokens"], row["cached_tokens"])
    assert row["output_tokens"] >= HEARD_BY_GEMINI
    assert row["cost_nano_usd"] == cost_nano_usd(*tokens)
    assert before - h.balance_nano_usd(payer) == row["cost_nano_usd"]
    assert h.held_nano_usd(payer) == 0


@pytest.mark.parametrize("way", STREAMS, ids=str)
def test_stream_without_its_end_is_cut(h: House, payer: Tenant, way: Way) -> None:
    reply = ask(h, payer, way, no_done=True)
    told = read_stream(way.client, way.form, reply.body)
    assert told.text == SAID
    assert not told.has_end
    row = h.row(reply.trace)
    assert (row["status"], row["error_code"]) == ("error", "upstream_error")


@pytest.mark.parametrize("way", STREAMS, ids=str)
def test_error_event_before_any_word(h: House, payer: Tenant, way: Way) -> None:
    """Translated: nothing has gone out yet, so it is an HTTP error. Native: bytes as they came."""
    before = h.balance_nano_usd(payer)
    reply = ask(h, payer, way, error_event=OPENING[way.upstream], message="It broke.")
    if way.translation:
        assert reply.status == 502
        check_shape(reply, way, (("api_error", "upstream_error"), "api_error", "UNAVAILABLE"))
    else:
        assert reply.status == 200
        told = read_stream(way.client, way.form, reply.body)
        assert told.error is not None
        assert (told.text, told.finish, told.has_end) == ("", None, False)
    check_free(h, payer, reply, before)


def check_heard(h: House, payer: Tenant, way: Way, reply: Reply, before: int) -> None:
    """What the upstream had stated by then counts: messages its input, native both."""
    row = h.row(reply.trace)
    assert (row["status"], row["error_code"]) == ("error", "upstream_error")
    if way.upstream == "native":
        told = (USAGE["input"], HEARD_BY_GEMINI, USAGE["cached"])
    elif way.upstream == "messages":
        told = (USAGE["input"], HEARD_TOKENS, USAGE["cached"])
    else:
        size = content_bytes(body_of(way.client, way.model, way.form, HELLO))
        told = (-(-size // 4), HEARD_TOKENS, 0)
    assert (row["input_tokens"], row["output_tokens"], row["cached_tokens"]) == told
    assert row["cost_nano_usd"] == cost_nano_usd(*told)
    assert before - h.balance_nano_usd(payer) == row["cost_nano_usd"]
    assert h.held_nano_usd(payer) == 0


def test_every_protocol_is_an_upstream_of_some_way() -> None:
    assert {way.upstream for way in STREAMS} == set(PROTOCOLS)
