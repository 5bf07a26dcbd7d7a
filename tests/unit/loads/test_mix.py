"""The mix of calls: what is sent with the simulator upstream and with any other."""

from __future__ import annotations

import json

import pytest

from channels.dialects import chat
from loadtests.locust.mix import KINDS, kinds
from loadtests.simulator.directives import parse


def test_other_upstreams_are_asked_for_nothing_that_only_the_simulator_does() -> None:
    for kind in kinds(has_simulator=False).values():
        assert "sim" not in kind.body("m", has_simulator=False)
        assert kind.statuses == {200}
    assert kinds(has_simulator=True) == KINDS


@pytest.mark.parametrize("name", KINDS)
def test_each_kind_is_a_request_that_both_sides_take(name: str) -> None:
    kind = KINDS[name]
    body = kind.body("m", has_simulator=True)
    request = chat.read_request(json.dumps(body).encode())
    assert (request.model, request.stream) == ("m", kind.is_stream)
    if "sim" in body:
        parse(json.dumps(body["sim"]))
