"""`Idempotency-Key` over HTTP: every state of the specification's table, and who may do what.

Spec: States, Idempotent submission; Errors, the 409s and rule 3; Limits.
"""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest

from tests.acceptance.submissions import (
    BODY,
    PATH,
    PRICE,
    age_keys,
    begin,
    conflict,
    refusal,
    submit,
)
from tests.acceptance.submissions import SETTINGS as SETTINGS
from tests.support.client import NANO_PER_USD
from tests.support.house import House
from tests.support.raw import RawConnection
from tests.support.tenants import Tenant
from tests.support.waiting import until

# Headers are read by each in its own way.
ON_BOTH_FRONTS = True


def spent(h: House, tenant: Tenant) -> int:
    """What has been paid, once everything is settled."""
    until(lambda: h.held_nano_usd(tenant) == 0, what="every hold released")
    return NANO_PER_USD - h.balance_nano_usd(tenant)


def statuses(h: House, tenant: Tenant) -> list[str]:
    return [row["status"] for row in h.rows(tenant)]


# Stored


def test_same_submission_is_replayed_and_charged_once(h: House, tenant: Tenant) -> None:
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
    assert spent(h, tenant) == PRICE


def test_same_body_in_other_bytes_is_the_same_submission(h: House, tenant: Tenant) -> None:
    first = submit(tenant.client, "k")
    other = b'{ "n":1,\n "prompt": "a \\u0062oat", "model": "picture" }'
    again = tenant.client.send("POST", PATH, other, headers={"Idempotency-Key": "k"})
    assert (again.status, again.body) == (200, first.body)
    assert again.headers["idempotency-replayed"] == "true"


def test_key_is_the_accounts_not_one_api_keys(h: House, tenant: Tenant) -> None:
    first = submit(tenant.client, "k")
    colleague = h.another(tenant, spend_cap_nano_usd=1)
    assert submit(colleague.client, "k").body == first.body
    stranger = h.tenant()
    assert "idempotency-replayed" not in submit(stranger.client, "k").headers
    assert h.upstream.requested("one") == [2]


def test_replay_needs_no_balance_and_anything_else_does(h: House) -> None:
    poor = h.tenant(nano_usd=PRICE)
    first = submit(poor.client, "k")
    assert spent(h, poor) == NANO_PER_USD
    assert submit(poor.client, "k").body == first.body
    assert refusal(submit(poor.client, "k", n=2)) == conflict("key_reuse")
    broke = (402, "insufficient_quota", "quota_exceeded", None)
    assert refusal(submit(poor.client, "new")) == broke
    assert refusal(submit(poor.client, None)) == broke
    assert refusal(submit(poor.client, "not valid")) == broke
    assert h.upstream.requested("one") == [1]


def test_other_body_under_the_key_is_reuse(h: House, tenant: Tenant) -> None:
    submit(tenant.client, "k")
    assert refusal(submit(tenant.client, "k", prompt="a ship")) == conflict("key_reuse")
    assert refusal(submit(tenant.client, "k", n=2)) == conflict("key_reuse")
    assert spent(h, tenant) == PRICE
    assert h.upstream.requested("one") == [1]
    until(lambda: statuses(h, tenant) == ["success", "rejected", "rejected"], what="three rows")


def test_key_is_new_after_seven_days(h: House, tenant: Tenant) -> None:
    first = submit(tenant.client, "k")
    age_keys(h, mins=7 * 24 * 60 - 1)
    assert submit(tenant.client, "k").body == first.body
    age_keys(h, mins=1)
    second = submit(tenant.client, "k", n=2)
    assert second.status == 200
    assert second.trace != first.trace
    assert spent(h, tenant) == 3 * PRICE


def test_answer_too_large_to_keep_is_told_and_not_made_again(h: House, tenant: Tenant) -> None:
    wanted = {"n": 10, "response_format": "b64_json"}
    first = submit(tenant.client, "k", **wanted)
    assert (first.status, len(first.json["data"])) == (200, 10)
    assert refusal(submit(tenant.client, "k", **wanted)) == conflict("response_not_cached")
    assert refusal(submit(tenant.client, "k")) == conflict("key_reuse")
    assert h.upstream.requested("one") == [1]
    assert spent(h, tenant) == 10 * PRICE


def test_rows_tell_the_key(h: House, tenant: Tenant) -> None:
    submit(tenant.client, "order-17")
    submit(tenant.client, "order-17", n=2)
    until(lambda: len(h.rows(tenant)) == 2, what="both rows")
    for row in h.rows(tenant):
        detail = tenant.client.get(f"/v1/logs/{row['id']}").json
        assert {"k": "idempotency_key", "v": "order-17"} in detail["request"]


# Executing


def test_key_is_in_flight_until_ten_minutes_after_its_client_left(h: House, tenant: Tenant) -> None:
    call = begin(tenant.client, "k", sim={"hang": "headers"})
    h.upstream.wait(active=1)
    assert refusal(submit(tenant.client, "k", sim={"hang": "headers"})) == conflict("in_flight")
    assert refusal(submit(tenant.client, "k")) == conflict("key_reuse")
    age_keys(h, mins=11)  # it is still under way
    assert refusal(submit(tenant.client, "k", sim={"hang": "headers"})) == conflict("in_flight")
    call.leave()
    h.upstream.wait(active=0)
    until(lambda: "interrupted" in statuses(h, tenant), what="the row of the cut call")
    assert spent(h, tenant) == 0


def test_key_of_a_client_that_left_frees_itself(h: House, tenant: Tenant) -> None:
    h.upstream.fault("one", hang="headers", times=1)
    call = begin(tenant.client, "k")
    h.upstream.wait(active=1)
    call.leave()
    until(lambda: statuses(h, tenant) == ["interrupted"], what="the row of the cut call")
    age_keys(h, mins=9)
    assert refusal(submit(tenant.client, "k")) == conflict("in_flight")
    age_keys(h, mins=1)
    assert submit(tenant.client, "k").status == 200
    assert spent(h, tenant) == PRICE


# Errors do not consume the key

FAILURES: dict[str, tuple[dict[str, Any], int]] = {
    "the upstream refuses": ({"status": 400}, 400),
    "the upstream fails": ({"status": 503}, 503),
    "the upstream is not there": ({"refuse": True}, 502),
    "the upstream says that it failed": ({"body": {"error": {"message": "no"}}}, 200),
}


@pytest.mark.parametrize(("fault", "status"), FAILURES.values(), ids=FAILURES.keys())
def test_failed_submission_leaves_its_key_free(
    h: House, tenant: Tenant, fault: dict[str, Any], status: int
) -> None:
    h.upstream.fault("one", **fault)
    failed = submit(tenant.client, "k")
    assert failed.status == status
    assert spent(h, tenant) == 0
    h.upstream.heal("one")
    for _ in range(2):
        assert submit(tenant.client, "k", n=2).status == 200
    assert spent(h, tenant) == 2 * PRICE


def test_refused_submission_leaves_its_key_free(h: House) -> None:
    poor = h.tenant(nano_usd=PRICE)
    assert submit(poor.client, "k", n=11).status == 400
    assert submit(poor.client, "k", model="nobody").status == 400
    assert submit(poor.client, "k", n=2).status == 402
    assert submit(poor.client, "k", n=1).status == 200


# The header

BAD_KEYS = {
    "empty": "",
    "a space": "a b",
    "a tab": "a\tb",
    "not ASCII": "clé",
    "too long": "k" * 201,
}


@pytest.mark.parametrize("key", BAD_KEYS.values(), ids=BAD_KEYS.keys())
def test_bad_key_is_refused(h: House, tenant: Tenant, key: str) -> None:
    expected = (400, "invalid_request_error", "invalid_idempotency_key", "Idempotency-Key")
    assert refusal(submit(tenant.client, key)) == expected
    assert h.upstream.requested("one") == [0]
    assert spent(h, tenant) == 0


def test_longest_and_oddest_keys_are_good(h: House, tenant: Tenant) -> None:
    printable = "".join(chr(code) for code in range(0x21, 0x7F))
    for key in ("k" * 200, "0", printable):
        first = submit(tenant.client, key)
        assert first.status == 200
        assert submit(tenant.client, key).headers["idempotency-replayed"] == "true"
    assert h.upstream.requested("one") == [3]


def test_without_the_header_nothing_is_deduplicated(h: House, tenant: Tenant) -> None:
    assert [submit(tenant.client, None).status for _ in range(2)] == [200, 200]
    assert spent(h, tenant) == 2 * PRICE


def test_chat_takes_no_notice_of_it(h: House, tenant: Tenant) -> None:
    for key in ("k", "k", "not valid"):
        reply = tenant.client.chat(headers={"Idempotency-Key": key})
        assert reply.status == 200
        assert "idempotency-replayed" not in reply.headers
    assert h.upstream.requested("one") == [3]


# The official library


def test_library_replays_and_meets_conflicts(h: House, tenant: Tenant) -> None:
    sdk = openai.OpenAI(base_url=f"{h.gateway.url}/v1", api_key=tenant.key, max_retries=0)
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
    assert spent(h, tenant) == PRICE


def test_library_that_sends_a_key_of_its_own_accord_is_never_charged_twice(
    h: House, tenant: Tenant
) -> None:
    """What it does within one call: the same key for every retry."""

    class Retrying(openai.OpenAI):
        def __init__(self, **more: Any) -> None:
            super().__init__(**more)
            self._idempotency_header = "Idempotency-Key"

    sdk = Retrying(base_url=f"{h.gateway.url}/v1", api_key=tenant.key, max_retries=3)
    h.upstream.fault("one", status=503, times=1)
    assert sdk.images.generate(model="picture", prompt="a boat").data
    assert h.upstream.requested("one") == [2]
    keys = h.query("SELECT state FROM idempotency WHERE account_id = %s", tenant.account)
    assert keys == [{"state": "stored"}]
    assert spent(h, tenant) == PRICE


def test_key_stays_here(h: House, tenant: Tenant) -> None:
    submit(tenant.client, "k")
    assert "idempotency-key" not in {name.lower() for name in h.upstream.last_request()["headers"]}


def test_two_keys_in_one_request_are_refused(h: House, tenant: Tenant) -> None:
    body = json.dumps(BODY).encode()
    head = (
        f"POST {PATH} HTTP/1.1\r\nHost: gateway\r\nAuthorization: Bearer {tenant.key}\r\n"
        "Idempotency-Key: a\r\nidempotency-key: b\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with RawConnection(h.gateway.url) as connection:
        connection.send(head.encode() + body)
        answer = connection.answer()
    assert answer is not None
    assert (answer.status, answer.json["error"]["code"]) == (400, "invalid_idempotency_key")
    assert h.upstream.requested("one") == [0]
