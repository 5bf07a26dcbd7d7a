"""Every client protocol, on every channel that can serve it, whole and streamed: what the client is
told, what the channel is sent, and what it costs.

The table is `dialogues/cases.py`. Translations are all switched on. A translation is a decoder and
an encoder, so contents are covered pairwise; failures are in `test_providers.py`.
"""

from collections.abc import Iterable
from typing import TypeVar

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

Fault = TypeVar("Fault", int, str)


def pairwise(rows: Iterable[tuple[Way, Fault]]) -> list[tuple[Way, Fault]]:
    """Every pair, and each fault from every upstream and to every client."""
    return covering(
        list(rows),
        lambda row: (row[0].client, row[0].upstream),
        lambda row: (row[0].client, row[0].form),
        lambda row: (row[0].client, row[1]),
        lambda row: (row[0].upstream, row[1]),
    )
