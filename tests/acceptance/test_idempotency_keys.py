"""`Idempotency-Key` as clients write it: good and bad ones, who takes no notice, the library's own.

Spec: Errors, invalid_idempotency_key; Limits.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai.types import ImagesResponse

from tests.acceptance.submissions import BODY, PATH, PRICE, refusal, spent, submit
from tests.acceptance.submissions import SETTINGS as SETTINGS
from tests.support.house import House
from tests.support.raw import RawConnection
from tests.support.tenants import Tenant

# Headers are read by each in its own way.

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


class Keyed(openai.OpenAI):
    """The library with its idempotency on: a key for each call, the same for every retry."""

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self._idempotency_header = "Idempotency-Key"


@pytest.fixture
def keyed(h: House, tenant: Tenant) -> Iterator[Keyed]:
    with Keyed(base_url=f"{h.gateway.url}/v1", api_key=tenant.key, max_retries=3) as client:
        yield client


@pytest.fixture
def sdk(h: House, tenant: Tenant) -> Iterator[openai.OpenAI]:
    url = f"{h.gateway.url}/v1"
    with openai.OpenAI(base_url=url, api_key=tenant.key, max_retries=0) as client:
        yield client


def test_library_replays_and_meets_conflicts(h: House, tenant: Tenant, sdk: openai.OpenAI) -> None:
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


def test_library_sends_the_key_that_it_is_given(h: House, tenant: Tenant, keyed: Keyed) -> None:
    made = [
        keyed.post(
            "/images/generations",
            cast_to=ImagesResponse,
            body=BODY,
            options={"idempotency_key": "order-2"},
        )
        for _ in range(2)
    ]
    assert made[0] == made[1]
    assert h.upstream.requested("one") == [1]
    assert spent(h, tenant) == PRICE


def test_library_that_sends_a_key_of_its_own_accord_is_never_charged_twice(
    h: House, tenant: Tenant, keyed: Keyed
) -> None:
    h.upstream.fault("one", status=503, times=1)
    assert keyed.images.generate(model="picture", prompt="a boat").data
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
