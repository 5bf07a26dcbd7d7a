"""The mix of requests: what is sent with the simulator upstream and with any other."""

from __future__ import annotations

import json
import re

import pytest

from channels.dialects import chat
from gw.app import routes
from loadtests.locust.kinds import Kind
from loadtests.locust.mix import COMPLETIONS, FAMILIES, chosen, kinds_of
from loadtests.simulator.directives import parse

KINDS = {
    f"{family} {name}": kind for family, one in FAMILIES.items() for name, kind in one.kinds.items()
}
# What no user asks for: links that expire, copies, what needs a source, and the public page.
WITHOUT_USERS = {
    r"/api/v1/models/public",
    r"/v1/videos/generations/([^/]+)/content",
    r"/v1/videos/clip-templates/([^/]+)",
    r"/v1/media/([^/]+)",
    r"/api/v1/ext/wiki/pages/([^/]+)/source",
    r"/api/v1/ext/wiki/sources/(.+)",
}


def paths_of(kind: Kind) -> list[str]:
    """Where the requests of a kind go: to its own path, and to what follows from its answer."""
    own = kind.path_with("m").partition("?")[0]
    return [own, *([f"{own}/id"] if kind.is_task or kind.detail_of else [])]


def test_other_upstreams_are_asked_for_what_is_harmless_and_nothing_of_the_simulator() -> None:
    families = chosen([], has_simulator=False, has_agents=False)
    assert families.keys() == {
        *("chat", "messages", "responses", "gemini", "embeddings", "logs", "balance")
    }
    for family in families.values():
        for kind in kinds_of(family, has_simulator=False).values():
            body = kind.body_with("m", has_simulator=False) or {}
            assert "sim" not in body
            assert kind.statuses <= {200, 404, 429}
    assert "agents" in chosen([], has_simulator=False, has_agents=True)
    assert chosen([], has_simulator=True, has_agents=True) == FAMILIES
    assert list(chosen(["music"], has_simulator=True, has_agents=True)) == ["music"]


def test_every_route_has_users() -> None:
    asked = [path for kind in KINDS.values() for path in paths_of(kind)]
    without = {route[0] for route in routes() if not any(re.fullmatch(route[0], p) for p in asked)}
    assert without == WITHOUT_USERS


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.body is not None])
def test_each_kind_is_a_request_that_both_sides_take(name: str) -> None:
    body = KINDS[name].body_with("m", has_simulator=True)
    assert body is not None
    if "sim" in body:
        parse(json.dumps(body["sim"]))
    if KINDS[name].path == COMPLETIONS:
        request = chat.read_request(json.dumps(body).encode())
        assert (request.model, request.stream) == ("m", KINDS[name].stream is not None)
