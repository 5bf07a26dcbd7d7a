"""Every preset against a little server of its provider, told nothing but kind, key and address.

Clients of the preset's own protocols get what the server sent, byte for byte; the others its
translation. They fail as their provider does, which reaches the client in its own shape, costs only
what was delivered, and is tried elsewhere where that may help.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from channels.kinds import KINDS
from channels.registry import NO_AUTH
from loadtests.simulator.answers import Tokens
from loadtests.simulator.dialects.chat import HIDDEN, THINK_TAGS, ChatDialect
from loadtests.simulator.providers.table import PROVIDERS
from tests.acceptance.dialogues.asked import Asked
from tests.acceptance.dialogues.cases import (
    FINISHES,
    PROTOCOLS,
    SAID,
    THOUGHT,
    ZURICH,
    cost_nano_usd,
    stated,
)
from tests.acceptance.presets import (
    STREAMS,
    USAGE,
    WAYS,
    WRONG,
    Way,
    ask,
    at,
    check_error,
    meant,
    presets_house,
    sent_by,
    told_by,
)
from tests.support.client import NANO_PER_USD
from tests.support.covering import covering
from tests.support.house import House
from tests.support.postgres import PostgresForTests
from tests.support.processes import CommandFailed
from tests.support.rows import each
from tests.support.tenants import Tenant

pytestmark = pytest.mark.long

KEYLESS = [way for way in WAYS if way.is_own and KINDS[way.provider.name].auth == NO_AUTH]


@pytest.fixture(scope="module")
def shared(postgres: PostgresForTests) -> Iterator[House]:
    """The house of the presets, which this module has alone."""
    with presets_house(postgres) as built:
        yield built


@pytest.fixture(scope="module")
def payer(shared: House) -> Tenant:
    return shared.tenant(nano_usd=1000 * NANO_PER_USD)


CASES: Mapping[str, tuple[dict[str, Any], Asked]] = {
    "text": ({"text": SAID}, Asked()),
    "calls": ({"tool_calls": stated(ZURICH, ZURICH)}, Asked(has_tools=True)),
    "thoughts": ({"text": SAID, "reasoning_text": THOUGHT}, Asked(thinks=True)),
    "results": ({"text": SAID}, Asked(has_results=True)),
}


def spoken(way: Way, directive: Mapping[str, Any]) -> str:
    """What is to be read of an answer; some do not keep their thoughts apart from it."""
    text: str = directive.get("text", "")
    is_tagged = isinstance(chat := way.face.dialect, ChatDialect) and (
        chat.traits.thoughts == THINK_TAGS
    )
    thought = directive.get("reasoning_text")
    return f"<think>\n{thought}\n</think>\n\n{text}" if is_tagged and thought else text


def shown(way: Way, directive: Mapping[str, Any]) -> str:
    """The thoughts that are to be read of an answer, apart from its text.

    Messages have none that nobody has signed.
    """
    chat = way.face.dialect
    if isinstance(chat, ChatDialect):
        is_unsaid = chat.traits.thoughts in (HIDDEN, THINK_TAGS)
        if is_unsaid or way.client == "messages":
            return ""
    thought: str = directive.get("reasoning_text", "")
    return thought


def counts_reasoning(way: Way) -> bool:
    """Whether the tokens of thoughts are told of apart, by provider and to the client."""
    chat = way.face.dialect
    if "messages" in (way.client, way.upstream):
        return False
    tokens = Tokens(input=9, output=9, cached=0, cache_write=0, reasoning=5)
    return not isinstance(chat, ChatDialect) or "reasoning" in str(chat.traits.usage_of(tokens))


ASKED = covering(
    [(way, case) for way in WAYS for case in CASES],
    lambda row: (row[0].provider.name, row[1]),
    lambda row: (row[0].provider.name, row[0].client),
    lambda row: (row[0].client, row[0].upstream, row[0].form, row[1]),
)


@each("way, case", ASKED)
def test_answer_is_served_and_charged_as_stated(
    h: House, payer: Tenant, way: Way, case: str
) -> None:
    directive, asked = CASES[case]
    cached = 400 if way.face.counts_cached else 0
    ends_by = "calls" if "tool_calls" in directive else "stop"
    h.upstream.fault(at(way.provider.name), usage=USAGE, **directive)
    before = h.balance_nano_usd(payer)
    reply = ask(payer, way, asked)
    assert reply.status == 200, reply
    if way.is_own:
        assert reply.body == sent_by(h, way)
    else:
        told = told_by(way, reply)
        assert told.has_end
        assert told.error is None
        assert told.text == spoken(way, directive)
        stated_calls = directive.get("tool_calls", ())
        assert told.calls == [(one["name"], one["arguments"]) for one in stated_calls]
        assert told.thinking == shown(way, directive)
        assert told.usage == (1000, 100, cached)
        assert told.finish == FINISHES[directive.get("finish_reason", ends_by)][way.client]
        assert told.reasoning == (40 if counts_reasoning(way) else 0)
    row = h.row(reply.trace)
    tokens = (row["input_tokens"], row["output_tokens"], row["cached_tokens"])
    assert (row["status"], tokens) == ("success", (1000, 100, cached))
    cost = cost_nano_usd(1000, 100, cached)
    assert row["cost_nano_usd"] == cost
    assert before - h.balance_nano_usd(payer) == cost
    sent = h.upstream.last_request()
    assert payer.key not in json.dumps(sent)


@each("way", KEYLESS)
def test_server_that_wants_no_key_needs_none(h: House, payer: Tenant, way: Way) -> None:
    reply = ask(payer, way, model_id=f"{way.provider.name}-open")
    assert reply.status == 200, reply
    assert not {"authorization", "x-api-key"} & h.upstream.last_request()["headers"].keys()


def test_probe_lists_the_models_of_each_and_tells_of_wrong_keys(h: House) -> None:
    with pytest.raises(CommandFailed) as raised:  # some keys are wrong
        h.gw("check-config", "--probe")
    probes = {one["channel"]: one for one in raised.value.answer["probes"]}
    for name, provider in PROVIDERS.items():
        if provider.listing is not None:
            assert probes[at(name)]["ok"], probes[at(name)]
            assert probes[at(name)]["models"] == len(provider.models)
            assert not probes[f"{at(name)}-wrong"]["ok"]
            refused = provider.faces[0].failures["bad_key"]
            assert probes[f"{at(name)}-wrong"]["status"] == refused.status
    assert WRONG not in json.dumps(probes)
    assert "key-of-" not in json.dumps(probes)


def test_every_face_of_a_preset_is_there() -> None:
    for name, provider in PROVIDERS.items():
        spoken = set(KINDS[name].protocols) & set(PROTOCOLS)
        assert {face.dialect.name for face in provider.faces} == spoken


# --- Failures ---

# How a body is read depends on the provider and the status, how it is told on the way.
FAILURES = covering(
    [(way, one) for way in WAYS for one in way.face.failures if one != "no_key"],
    lambda row: (row[0].provider.name, meant(row[0].face.failures[row[1]])),
    lambda row: (row[0].client, row[0].upstream, row[0].form),
)
BROKEN = covering(STREAMS, lambda way: way.provider.name, lambda way: (way.client, way.upstream))


def put_back(payer: Tenant, way: Way) -> None:
    """Have a key in use that an earlier test has had set aside: an answered call does that."""
    assert ask(payer, way).status == 200


@each("way, situation", FAILURES)
def test_failure_is_told_in_the_clients_shape_and_costs_nothing(
    h: House, payer: Tenant, way: Way, situation: str
) -> None:
    failure = way.face.failures[situation]
    h.upstream.reset()
    h.upstream.fault(at(way.provider.name), situation=situation)
    before = h.balance_nano_usd(payer)
    reply = ask(payer, way)
    check_error(reply, way, failure)
    stated = failure.headers.get("retry-after") if failure.status in (429, 503) else None
    if "retryDelay" in json.dumps(failure.body):  # of Google, which has no header for it
        stated = "35"
    spoken = reply.headers.get("retry-after")
    assert spoken == stated or (failure.status == 503 and stated is None and spoken == "1")
    row = h.row(reply.trace)
    assert (row["status"], row["cost_nano_usd"]) == ("error", 0)
    assert h.balance_nano_usd(payer) == before
    assert h.held_nano_usd(payer) == 0


@each("way", BROKEN)
def test_stream_that_fails_in_its_middle_is_told_so_and_settled(
    h: House, payer: Tenant, way: Way
) -> None:
    words = "x" * 400
    h.upstream.fault(at(way.provider.name), text=words, usage=USAGE, error_event=40)
    reply = ask(payer, way)
    assert reply.status == 200, reply
    if way.is_own:
        assert reply.body == sent_by(h, way)
    else:
        told = told_by(way, reply)
        assert told.error is not None
        assert not told.has_end
        assert 0 < len(told.text) < len(words)
    row = h.row(reply.trace)
    assert row["status"] == "error"
    assert row["error_message"]
    assert row["cost_nano_usd"] > 0
    assert h.held_nano_usd(payer) == 0


@each("way", BROKEN)
def test_stream_that_fails_at_once_has_sent_nothing(h: House, payer: Tenant, way: Way) -> None:
    h.upstream.reset()
    put_back(payer, way)
    h.upstream.fault(at(way.provider.name), error_event=0)
    reply = ask(payer, way, model_id=f"{way.provider.name}-or-spare")
    assert reply.status == 200, reply
    assert told_by(way, reply).has_end
    row = h.row(reply.trace)
    assert (row["status"], len(row["attempts"])) == ("success", 1)
    alone = ask(payer, way)
    if way.is_own:  # nobody else can be asked: the client's, as it came
        assert (alone.status, alone.body) == (200, sent_by(h, way))
    else:
        assert alone.status == 502
    row = h.row(alone.trace)
    assert (row["status"], row["cost_nano_usd"]) == ("error", 0)
