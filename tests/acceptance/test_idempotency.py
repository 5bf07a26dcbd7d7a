"""`Idempotency-Key` over HTTP: what is replayed, to whom, and what is charged.

Reference 1.10, 1.7.
"""

from collections.abc import Iterator
from typing import Any

import openai
import pytest

from loadtests.rig.deployment import Deployment
from loadtests.rig.tenants import Tenant
from loadtests.rig.waiting import until
from tests.acceptance.pictures import refusal
from tests.acceptance.submissions import PRICE, age_keys, begin, conflict, submit
from tests.acceptance.submissions import SETTINGS as SETTINGS


def statuses(h: Deployment, tenant: Tenant) -> list[str]:
    return [row["status"] for row in h.rows(tenant)]


def test_same_submission_is_replayed_and_charged_once(h: Deployment, tenant: Tenant) -> None:
    first = submit(tenant.client, "k")
    again = submit(tenant.client, "k")
    assert first.status == again.status == 200
    assert "idempotency-replayed" not in first.headers
    assert again.headers["idempotency-replayed"] == "true"
    assert again.body == first.body
    assert again.headers["content-type"] == first.headers["content-type"]
    # The trace leads to the call that was billed; there is no other row.
    assert again.trace == first.trace
    assert [row["request_id"].replace("-", "") for row in h.rows(tenant)] == [first.trace]
    assert h.upstream.requested("one") == [1]
    assert h.spent_nano_usd(tenant) == PRICE


def test_key_is_the_accounts_not_one_api_keys(h: Deployment, tenant: Tenant) -> None:
    first = submit(tenant.client, "k")
    colleague = h.another(tenant, spend_cap_nano_usd=1)
    assert submit(colleague.client, "k").body == first.body
    stranger = h.tenant()
    assert "idempotency-replayed" not in submit(stranger.client, "k").headers
    assert h.upstream.requested("one") == [2]


def test_replay_needs_no_balance_and_anything_else_does(h: Deployment) -> None:
    poor = h.tenant(nano_usd=PRICE)
    first = submit(poor.client, "k")
    assert h.balance_nano_usd(poor) == 0
    assert submit(poor.client, "k").body == first.body
    assert refusal(submit(poor.client, "k", n=2)) == conflict("key_reuse")
    broke = (402, "insufficient_quota", "quota_exceeded", None)
    assert refusal(submit(poor.client, "new")) == broke
    assert refusal(submit(poor.client, None)) == broke
    assert refusal(submit(poor.client, "not valid")) == broke
    assert h.upstream.requested("one") == [1]


def test_rows_tell_the_key(h: Deployment, tenant: Tenant) -> None:
    submit(tenant.client, "order-17")
    submit(tenant.client, "order-17", n=2)
    until(lambda: len(h.rows(tenant)) == 2, what="both rows")
    for row in h.rows(tenant):
        detail = tenant.client.get(f"/v1/logs/{row['id']}").json
        assert {"k": "idempotency_key", "v": "order-17"} in detail["request"]


def test_key_is_in_flight_until_ten_minutes_after_its_client_left(
    h: Deployment, tenant: Tenant
) -> None:
    call = begin(tenant.client, "k", sim={"hang": "headers"})
    h.upstream.wait(active=1)
    assert refusal(submit(tenant.client, "k", sim={"hang": "headers"})) == conflict("in_flight")
    assert refusal(submit(tenant.client, "k")) == conflict("in_flight")  # it may fail yet
    age_keys(h, mins=11)  # it is still under way
    assert refusal(submit(tenant.client, "k", sim={"hang": "headers"})) == conflict("in_flight")
    call.leave()
    h.upstream.wait(active=0)
    until(lambda: "interrupted" in statuses(h, tenant), what="the row of the cut call")
    assert h.spent_nano_usd(tenant) == 0


def test_chat_takes_no_notice_of_it(h: Deployment, tenant: Tenant) -> None:
    for key in ("k", "k", "not valid"):
        reply = tenant.client.chat(headers={"Idempotency-Key": key})
        assert reply.status == 200
        assert "idempotency-replayed" not in reply.headers
    assert h.upstream.requested("one") == [3]


class Keyed(openai.OpenAI):
    """The library with its idempotency on: a key for each call, the same for every retry."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self._idempotency_header = "Idempotency-Key"


@pytest.fixture
def keyed(h: Deployment, tenant: Tenant) -> Iterator[Keyed]:
    with Keyed(base_url=f"{h.gateway.url}/v1", api_key=tenant.key, max_retries=3) as client:
        yield client


def test_library_replays_and_meets_conflicts(
    h: Deployment, tenant: Tenant, sdk: openai.OpenAI
) -> None:
    headers = {"Idempotency-Key": "order-1"}

    def generate(prompt: str) -> Any:
        return sdk.images.with_raw_response.generate(
            model="picture", prompt=prompt, extra_headers=headers
        )

    first, again = generate("a boat"), generate("a boat")
    assert again.headers["Idempotency-Replayed"] == "true"
    assert first.parse() == again.parse()
    with pytest.raises(openai.ConflictError) as conflicted:
        generate("a ship")
    assert conflicted.value.code == "idempotency_key_reuse"
    assert conflicted.value.param == "Idempotency-Key"
    assert h.spent_nano_usd(tenant) == PRICE


def test_library_that_sends_a_key_of_its_own_accord_is_never_charged_twice(
    h: Deployment, tenant: Tenant, keyed: Keyed
) -> None:
    h.upstream.fault("one", status=503, times=1)
    assert keyed.images.generate(model="picture", prompt="a boat").data
    assert h.upstream.requested("one") == [2]
    keys = h.query("SELECT state FROM idempotency WHERE account_id = %s", tenant.account)
    assert keys == [{"state": "stored"}]
    assert h.spent_nano_usd(tenant) == PRICE
