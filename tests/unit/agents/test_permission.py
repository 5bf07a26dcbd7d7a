"""Which model an agent calls, and who may not."""

from typing import Any

import pytest

from channels.registry import Registry
from gw.agents.permission import AgentRefused, model_of
from gw.keys.principal import Agent
from tests.support.rows import cases
from tests.support.specs import make_channel, make_model

REGISTRY = Registry.of(
    [make_channel("a")],
    [
        make_model("a", id="own", aliases=("latest",)),
        make_model("a", id="theirs"),
        make_model("a", id="ours"),
        make_model("a", id="soon", callable=False),
        make_model("a", id="picture", endpoint_type="images_generations"),
    ],
)


def agent(**changes: Any) -> Agent:
    values: dict[str, Any] = {
        "id": "agent_1",
        "user": "owner",
        "system_prompt": b'"p"',
        "model": "own",
        "temperature": None,
        "web_search": False,
        "image_generation": False,
        "kbs": (),
        "enabled": True,
        "default_model": "theirs",
        "allowed_models": None,
    }
    return Agent(**{**values, **changes})


@cases(
    "changes, platform, model",
    ({}, "ours", "own"),
    ({"model": "latest"}, "", "own"),
    ({"model": None}, "ours", "theirs"),
    ({"model": None, "default_model": None}, "ours", "ours"),
    ({"allowed_models": frozenset({"own"})}, "", "own"),
    ({"allowed_models": frozenset({"latest"})}, "", "own"),
)
def test_the_first_model_that_is_set_is_called(changes: Any, platform: str, model: str) -> None:
    assert model_of(agent(**changes), REGISTRY, platform).id == model


@cases(
    "changes, outcome",
    ({"enabled": False, "model": "gone"}, "disabled"),
    ({"model": None, "default_model": None}, "no_model"),
    ({"model": "gone"}, "no_model"),  # and no other in its stead
    ({"model": "soon"}, "no_model"),
    ({"model": "picture"}, "no_model"),
    ({"allowed_models": frozenset()}, "not_allowed"),
    ({"allowed_models": frozenset({"theirs"})}, "not_allowed"),
)
def test_an_agent_is_refused(changes: Any, outcome: str) -> None:
    with pytest.raises(AgentRefused) as caught:
        model_of(agent(**changes), REGISTRY, "")
    assert caught.value.outcome == outcome


def test_a_key_without_an_agent_calls_nothing() -> None:
    with pytest.raises(AgentRefused) as caught:
        model_of(None, REGISTRY, "ours")
    assert caught.value.outcome == "disabled"
