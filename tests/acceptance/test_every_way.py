"""Every client protocol, on every channel that can serve it, whole and streamed: what the client is
told, what the channel is sent, and what it costs; and when the upstream fails: at once, in the
middle, or by going away.

The table is `dialogues/cases.py`. Translations are all switched on. A failure has the shape of the
client's own protocol, or its stream has no end; what was delivered is paid for and nothing else
(contract §7: cost of a cut call). A translation is a decoder and an encoder, so contents and
failures are covered pairwise.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import pytest

from tests.acceptance.dialogues.asked import (
    CALLS,
    PICTURE_URL,
    PIXEL,
    RESULTS,
    SYSTEM,
    TOOLS,
    Asked,
    body_of,
    content_bytes,
    path_of,
)
from tests.acceptance.dialogues.cases import (
    APART,
    CASES,
    SAID,
    USAGE,
    WAYS,
    Case,
    Way,
    cost_nano_usd,
    settings,
)
from tests.acceptance.dialogues.sent import read_sent
from tests.acceptance.dialogues.streamed import read_stream
from tests.acceptance.dialogues.told import Told
from tests.acceptance.dialogues.whole import read_whole
from tests.support.client import NANO_PER_USD, Reply
from tests.support.covering import covering
from tests.support.house import House
from tests.support.rows import each
from tests.support.tenants import Tenant

pytestmark = pytest.mark.long

SETTINGS = settings()
CONTENT_TYPES = {
    "whole": "application/json",
    "array": "application/json",
    "stream": "text/event-stream",
}


@pytest.fixture(scope="module")
def payer(shared: House) -> Tenant:
    return shared.tenant(nano_usd=1000 * NANO_PER_USD)


def ask(payer: Tenant, way: Way, case: Case) -> Reply:
    body = body_of(way.client, way.model, way.form, case.asked)
    return payer.client.send("POST", path_of(way.client, way.model, way.form), body)


def read(way: Way, reply: Reply) -> Told:
    if way.form == "whole":
        return read_whole(way.client, reply.json)
    return read_stream(way.client, way.form, reply.body)


# Each content from each upstream, whole and streamed, and in each form of each client.
ANSWERS = covering(
    [(way, case) for way in WAYS for case in CASES if way.client not in case.without],
    lambda row: (row[0].upstream, row[0].form == "whole", row[1].name),
    lambda row: (row[0].client, row[0].form, row[1].name),
    lambda row: str(row[0]),
)


@each("way, case", ANSWERS)
def test_answer(h: House, payer: Tenant, way: Way, case: Case) -> None:
    before = h.balance_nano_usd(payer)
    h.upstream.fault(way.channel, **{"usage": USAGE, **case.directive})
    reply = ask(payer, way, case)
    assert reply.status == 200, reply
    assert reply.headers.get("x-protocol-translation") == way.translation
    assert "x-protocol-warning" not in reply.headers or case.asked != Asked()
    assert reply.headers["content-type"].startswith(CONTENT_TYPES[way.form])
    check_told(read(way, reply), way, case)
    check_sent(h, way, case)
    check_money(h, payer, reply, case, before)


def check_told(told: Told, way: Way, case: Case) -> None:
    assert told.error is None
    assert told.has_end
    assert told.finish == case.finish(way)
    if way.client == way.upstream == "messages":
        assert told.stop_sequence == case.stop_sequence
    check_words(told, way, case)
    assert told.calls == list(case.calls)
    if way.client != way.upstream or way.client != "native":  # native calls need no ids
        assert len(set(told.call_ids)) == len(case.calls)
    usage = {**USAGE, **case.usage}
    assert told.usage == (usage["input"], usage["output"], usage["cached"])
    if "messages" not in (way.client, way.upstream):  # it does not say
        assert told.reasoning == usage["reasoning"]
    # Unsigned thoughts must not come back on messages: they are not shown there.
    shows_thoughts = (way.client, way.upstream) != ("messages", "chat")
    assert told.thinking == (case.thinking if shows_thoughts else "")
    # Messages signs its thoughts, native what was thought about and the first of its calls.
    # Responses proves them where it is asked to, which translations do.
    signs = {"messages": case.thinking, "native": case.thinking or case.calls}
    if way.translation:
        signs["responses"] = case.thinking
    assert bool(told.signatures) == bool(signs.get(way.upstream))


def check_words(told: Told, way: Way, case: Case) -> None:
    """A refusal in the model's own words has a place of its own on some wires."""
    if not case.refusal:
        assert told.text == case.text
    elif way.upstream in APART and way.client in APART:
        assert (told.text, told.refusal) == ("", case.refusal)
    else:
        assert told.text == case.refusal


def check_sent(h: House, way: Way, case: Case) -> None:
    request = h.upstream.last_request()
    assert request["protocol"] == way.upstream
    sent = read_sent(way.upstream, request["body"])
    asked = case.asked
    assert sent.system == SYSTEM
    assert sent.texts == [asked.text]
    assert sent.images == {None: [], "inline": [PIXEL], "url": [PICTURE_URL]}[asked.image]
    assert sent.tools == (list(TOOLS) if asked.has_tools or asked.has_results else [])
    has_stop = asked.stop and way.upstream != "responses"  # which has none, and the client is told
    assert sent.stop == ([asked.stop] if has_stop else [])
    assert sent.max_tokens == asked.max_tokens
    if asked.has_results:
        names = {call_id: name for call_id, name, _ in CALLS}
        assert sent.calls == [(name, arguments) for _, name, arguments in CALLS]
        assert sent.results == [(names[call_id], said) for call_id, said in RESULTS.items()]
    else:
        assert (sent.calls, sent.results) == ([], [])


def check_money(h: House, payer: Tenant, reply: Reply, case: Case, before: int) -> None:
    usage = {**USAGE, **case.usage}
    row = h.row(reply.trace)
    tokens = (row["input_tokens"], row["output_tokens"], row["cached_tokens"])
    assert tokens == (usage["input"], usage["output"], usage["cached"])
    assert row["cost_nano_usd"] == cost_nano_usd(*tokens)
    assert row["status"] == "success"
    assert row["error_code"] is None
    assert before - h.balance_nano_usd(payer) == row["cost_nano_usd"]


@each("way", covering(WAYS, lambda way: (way.client, way.form), lambda way: way.upstream))
def test_usage_that_never_came_is_estimated(h: House, payer: Tenant, way: Way) -> None:
    """Four characters are a token, in and out (contract §3)."""
    before = h.balance_nano_usd(payer)
    h.upstream.fault(way.channel, text=SAID, no_usage=True)
    body = body_of(way.client, way.model, way.form, Asked())
    reply = payer.client.send("POST", path_of(way.client, way.model, way.form), body)
    assert reply.status == 200, reply
    assert read(way, reply).text == SAID
    row = h.row(reply.trace)
    tokens = (-(-content_bytes(body) // 4), -(-len(SAID) // 4), 0)
    assert (row["input_tokens"], row["output_tokens"], row["cached_tokens"]) == tokens
    assert row["cost_nano_usd"] == cost_nano_usd(*tokens)
    assert row["status"] == "success"
    assert before - h.balance_nano_usd(payer) == row["cost_nano_usd"]


# --- The upstream fails ---

STREAMS = [way for way in WAYS if way.form != "whole"]
HELLO = Asked()
Fault = TypeVar("Fault", int, str)

# Events of each wire until two pieces of text, ten characters, are out.
WITH_WORDS = {"chat": 3, "messages": 5, "responses": 6, "native": 2}
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
    """Every pair, and each fault from every upstream and to every client."""
    return covering(
        list(rows),
        lambda row: (row[0].client, row[0].upstream),
        lambda row: (row[0].client, row[0].form),
        lambda row: (row[0].client, row[1]),
        lambda row: (row[0].upstream, row[1]),
    )


def fail(h: House, payer: Tenant, way: Way, **directive: Any) -> Reply:
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


@each("way, status", pairwise((way, status) for way in WAYS for status in STATUSES))
def test_refusal_before_anything(h: House, payer: Tenant, way: Way, status: int) -> None:
    before = h.balance_nano_usd(payer)
    reply = fail(h, payer, way, status=status, message="Not today, says it.", retry_after=7)
    assert reply.status == status
    # What it refused is the translation's wording: the client is told of it here, too.
    refused = way.translation if status < 500 else None
    assert reply.headers.get("x-protocol-translation") == refused
    check_shape(reply, way, STATUSES[status], says="Not today")
    assert reply.headers.get("retry-after") == ("7" if status in (429, 503) else None)
    assert reply.headers["content-type"].startswith("application/json")
    check_free(h, payer, reply, before)


@each(
    "way, how",
    pairwise(
        (way, how) for way in WAYS for how in NO_ANSWER if how != "broken" or way.form == "whole"
    ),
)
def test_what_is_no_answer(h: House, payer: Tenant, way: Way, how: str) -> None:
    before = h.balance_nano_usd(payer)
    reply = fail(h, payer, way, **NO_ANSWER[how])
    assert reply.status == 502
    check_shape(reply, way, UNREACHABLE if how == "lost" else UNUSABLE)
    check_free(h, payer, reply, before)


@each("way", STREAMS)
def test_error_event_in_the_middle(h: House, payer: Tenant, way: Way) -> None:
    before = h.balance_nano_usd(payer)
    reply = fail(h, payer, way, error_event=WITH_WORDS[way.upstream], message="It broke.")
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


@each("way, how", pairwise((way, how) for way in STREAMS for how in ("close", "reset")))
def test_stream_that_breaks_off(h: House, payer: Tenant, way: Way, how: str) -> None:
    before = h.balance_nano_usd(payer)
    reply = fail(h, payer, way, cut_after_events=WITH_WORDS[way.upstream], cut=how)
    assert reply.status == 200
    assert not reply.is_broken, "the body is whole, the protocol's end is what lacks"
    told = read_stream(way.client, way.form, reply.body)
    assert told.text == HEARD
    assert (told.error, told.finish, told.has_end) == (None, None, False)
    check_heard(h, payer, way, reply, before)


@each("way", STREAMS)
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
