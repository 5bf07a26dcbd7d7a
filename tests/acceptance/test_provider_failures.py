"""How presets fail, each as its provider does: told in the client's shape, charged for nothing that
was not delivered, tried elsewhere where that may help.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.acceptance.presets import (
    OWN_WHOLE,
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
from tests.support.tenants import Tenant
from tests.support.waiting import until

pytestmark = pytest.mark.long

# How a body is read depends on the provider and the status, how it is told on the way.
FAILURES = [
    pytest.param(way, situation, id=f"{way}-{situation}")
    for way, situation in covering(
        [(way, one) for way in WAYS for one in way.face.failures if one != "no_key"],
        lambda row: (row[0].provider.name, meant(row[0].face.failures[row[1]])),
        lambda row: (row[0].client, row[0].upstream, row[0].form),
    )
]
RETRIED = [
    pytest.param(way, situation, id=f"{way}-{situation}")
    for way, situation in covering(
        [
            (way, situation)
            for way in OWN_WHOLE
            for situation, failure in way.face.failures.items()
            if failure.status >= 500 or situation in ("bad_key", "rate_limited")
        ],
        lambda row: row[0].provider.name,
        lambda row: (row[0].client, row[1]),
    )
]
BROKEN = covering(STREAMS, lambda way: way.provider.name, lambda way: (way.client, way.upstream))
OF_EACH = covering(OWN_WHOLE, lambda way: way.provider.name, lambda way: way.client)


@pytest.fixture(scope="module")
def shared(postgres: PostgresForTests) -> Iterator[House]:
    """The house of the presets, which this module has alone."""
    with presets_house(postgres) as built:
        yield built


@pytest.fixture(scope="module")
def payer(shared: House) -> Tenant:
    return shared.tenant(nano_usd=1000 * NANO_PER_USD)


def put_back(payer: Tenant, way: Way) -> None:
    """Have a key in use that an earlier test has had set aside: an answered call does that."""
    assert ask(payer, way).status == 200


@pytest.mark.parametrize(("way", "situation"), FAILURES)
def test_failure_is_told_in_the_clients_shape_and_costs_nothing(
    h: House, payer: Tenant, way: Way, situation: str
) -> None:
    failure = way.face.failures[situation]
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


@pytest.mark.parametrize(("way", "situation"), RETRIED)
def test_server_errors_and_refused_keys_go_to_the_next_channel_and_other_refusals_do_not(
    h: House, payer: Tenant, way: Way, situation: str
) -> None:
    """Contract §4, §7: a 4xx is the client's, rate limits as well, unless it is for our key."""
    put_back(payer, way)
    failure = way.face.failures[situation]
    h.upstream.fault(at(way.provider.name), situation=situation)
    reply = ask(payer, way, model_id=f"{way.provider.name}-or-spare")
    if situation == "rate_limited":
        check_error(reply, way, failure)
    else:
        assert reply.status == 200, reply
        assert len(h.row(reply.trace)["attempts"]) == 1


@pytest.mark.parametrize("way", BROKEN, ids=str)
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


@pytest.mark.parametrize("way", BROKEN, ids=str)
def test_stream_that_fails_at_once_has_sent_nothing(h: House, payer: Tenant, way: Way) -> None:
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


@pytest.mark.parametrize("way", OF_EACH, ids=str)
def test_wrong_key_and_unknown_model_are_refused_by_the_server_itself(
    h: House, payer: Tenant, way: Way
) -> None:
    wrong = ask(payer, way, model_id=f"{way.provider.name}-wrong")
    check_error(wrong, way, way.face.failures["bad_key"])
    assert WRONG not in wrong.body.decode()

    def set_aside() -> bool:
        refused = [one["channel"] for one in h.events("channel_key_refused")]
        return f"{at(way.provider.name)}-wrong" in refused

    until(set_aside, what="the key set aside")
    if (failure := way.face.failures.get("unknown_model")) is not None:
        unknown = ask(payer, way, model_id=f"{way.provider.name}-unknown")
        assert unknown.status == failure.status
        is_named = "{model}" in json.dumps(failure.body)
        assert ("no-such-model" in unknown.json["error"]["message"]) == is_named
