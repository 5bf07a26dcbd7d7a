"""Which model is meant, and whether the key may use it."""

from __future__ import annotations

import pytest

from channels.registry import Registry
from gw.api.chat import resolve_model
from gw.errors import GatewayError
from gw.keys.principal import Principal
from tests.support.rows import cases
from tests.support.specs import make_channel, make_model

REGISTRY = Registry.of(
    [make_channel("a")],
    [
        make_model("a", id="gpt", aliases=("gpt-latest",)),
        make_model("a", id="planned", callable=False),
    ],
)


def principal(allowed: frozenset[str] | None = None) -> Principal:
    return Principal(
        key_id="key_1",
        account_id="acct_1",
        key_name="n",
        key_prefix="p",
        kind="console",
        agent_id=None,
        allowed_models=allowed,
        expires_at=None,
        account_logs=False,
        spend_cap_nano_usd=None,
        rpm_limit=None,
        concurrency_limit=None,
    )


def refusal(model_id: str, allowed: frozenset[str] | None = None) -> GatewayError:
    with pytest.raises(GatewayError) as raised:
        resolve_model(REGISTRY, model_id, principal(allowed))
    return raised.value


@cases("name", "gpt", "gpt-latest")
@cases("allowed", None, frozenset({"gpt"}), frozenset({"gpt", "other"}))
def test_model_is_found_by_id_and_alias(name: str, allowed: frozenset[str] | None) -> None:
    assert resolve_model(REGISTRY, name, principal(allowed)).id == "gpt"


@cases("name", "", "GPT", " gpt", "gpt ", "planned", "x" * 5000)
def test_other_names_and_placeholders_are_not_found(name: str) -> None:
    error = refusal(name)
    assert (error.http_status, error.kind.code, error.param) == (400, "model_not_found", "model")
    assert len(error.message) < 300


@cases("allowed", frozenset(), frozenset({"planned"}), frozenset({"gpt-latest"}))
def test_model_outside_the_keys_allowlist_is_refused(allowed: frozenset[str]) -> None:
    error = refusal("gpt-latest", allowed)
    assert (error.http_status, error.kind.code) == (400, "model_not_allowed")


def test_unknown_model_is_unknown_to_a_key_that_allows_nothing() -> None:
    assert refusal("nothing", frozenset()).kind.code == "model_not_found"
