"""Decisions on real processes, by the official library."""

from typing import Any

from openai import OpenAI

from actors.wallet.money import NANO_PER_USD
from loadtests.rig.deployment import Deployment, channel, model
from loadtests.rig.tenants import Tenant
from tests.support.rows import each

JUDGE: dict[str, Any] = {"endpoint_type": "decisions", "price": {"input": "0.1"}}
TOKEN = 100  # nano-USD
SETTINGS: dict[str, Any] = {
    "channels": [
        channel("one", priority=1, protocols=["chat", "decisions"], on_429="next"),
        channel("two", priority=2, protocols=["decisions"]),
    ],
    "models": [
        model("sim-model", "one"),
        model("judge", {"id": "one", "as": "vendor/judge"}, "two", **JUDGE),
    ],
}
PATH = "/v1/decisions"
PREDICATE = {"type": "predicate", "instructions": "It is good."}
CHOICE = {
    "type": "choice",
    "name": "which",
    "instructions": "Which?",
    "choices": [{"value": "billing"}, {"value": True}],
}
SCORE = {"type": "score", "instructions": "How?", "levels": [{"label": "low"}, {"label": "high"}]}
BODY: dict[str, Any] = {"model": "judge", "input": "otters", "questions": [PREDICATE]}


def spent(tenant: Tenant) -> int:
    return NANO_PER_USD - tenant.client.remaining_nano_usd()


def test_library_gets_an_answer_to_each_question(
    h: Deployment, tenant: Tenant, sdk: OpenAI
) -> None:
    create: Any = sdk.decisions.with_raw_response.create
    response = create(
        model="judge",
        input="otters",
        questions=[PREDICATE, CHOICE, SCORE],
        extra_body={"sim": {"usage": {"input": 1000}}},
    )
    answers = response.parse().answers
    assert [one.type for one in answers] == ["predicate", "choice", "score"]
    assert (answers[0].probability, answers[1].choice, answers[1].name) == (
        0.75,
        "billing",
        "which",
    )
    assert '"vendor/judge"' in h.upstream.last_request()["body"]
    row = h.row(response.headers["x-gateway-trace"])
    assert (row["status"], row["model"], row["protocol"]) == ("success", "judge", "decisions")
    assert (row["input_tokens"], row["unit_type"]) == (1000, None)
    assert row["cost_nano_usd"] == spent(tenant) == 1000 * TOKEN
    assert h.held_nano_usd(tenant) == 0


def test_input_that_nobody_counts_costs_its_estimate(tenant: Tenant) -> None:
    body = {**BODY, "input": "x" * 398, "sim": {"no_usage": True}}
    assert tenant.client.send("POST", PATH, body).status == 200
    assert spent(tenant) == 113 * TOKEN  # of 400 bytes and 51


@each("directive", [{"status": 500}, {"malformed": "json"}, {"status": 401}, {"status": 429}])
def test_failed_channel_is_followed_by_the_next_as_on_chat(
    h: Deployment, directive: dict[str, Any]
) -> None:
    h.upstream.reset()
    tenant = h.tenant()
    h.upstream.fault("one", **directive)
    reply = tenant.client.send("POST", PATH, {**BODY, "sim": {"usage": {"input": 10}}})
    assert (reply.status, spent(tenant)) == (200, 10 * TOKEN)
    assert h.upstream.requested("two") == [1]


@each(
    "changes, status, code",
    [
        ({"questions": []}, 400, "invalid_request"),
        ({"model": "nothing"}, 400, "model_not_found"),
        ({"model": "sim-model"}, 503, "no_channel_available"),
    ],
)
def test_what_is_refused_costs_nothing(
    h: Deployment, changes: dict[str, Any], status: int, code: str
) -> None:
    tenant = h.tenant()
    reply = tenant.client.send("POST", PATH, {**BODY, **changes})
    assert (reply.status, reply.code, spent(tenant)) == (status, code, 0)
