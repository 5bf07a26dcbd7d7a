"""Images requests that chance has spoilt: no 5xx, no hang, and what is paid is what came."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.acceptance import pictures
from tests.acceptance.bad_inputs.chance import ROOMY, spoilt, values
from tests.acceptance.pictures import EACH, generate
from tests.support.house import House
from tests.support.tenants import Tenant

pytestmark = pytest.mark.long

SETTINGS = pictures.SETTINGS
FUNDS_NANO_USD = 10**14
FULL: dict[str, Any] = {
    "model": "picture",
    "prompt": "Ein Schiff, \u2028 🚢",
    "size": "1024x1024",
    "n": 2,
    "image": ["https://a.example/1.png"],
    "response_format": "url",
    "stream": False,
    "seed": 7,
}
BODY = json.dumps(FULL, ensure_ascii=False).encode()
ANYTHING = st.recursive(
    values(["picture", "area", "picture-nano", "2K", "b64_json", "https://a.example"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)
MEMBERS = st.fixed_dictionaries(
    {"model": st.sampled_from(["picture", "area"]), "prompt": st.just("a boat") | ANYTHING},
    optional={
        name: st.just(FULL[name]) | ANYTHING for name in FULL if name not in ("model", "prompt")
    },
)


@pytest.fixture(scope="module")
def rich(shared: House) -> Iterator[Tenant]:
    """An account that chance cannot empty; at the end its books are in order."""
    tenant = shared.tenant(nano_usd=FUNDS_NANO_USD)
    yield tenant
    left_nano_usd = tenant.client.remaining_nano_usd()  # which waits for every settlement
    rows = shared.rows(tenant)
    assert {row["status"] for row in rows} >= {"success", "rejected"}  # chance spoils not all
    assert {row["unit_type"] for row in rows} == {"image"}
    for row in rows:
        if row["status"] != "success":
            assert row["cost_nano_usd"] == 0, row
        elif row["model"] == "picture":
            assert row["cost_nano_usd"] == row["unit_count"] * EACH, row
    spent = sum(row["cost_nano_usd"] for row in rows)
    assert left_nano_usd == FUNDS_NANO_USD - spent
    assert shared.held_nano_usd(tenant) == 0
    assert shared.verify()["ok"]


def check(tenant: Tenant, body: bytes) -> None:
    reply = generate(tenant.client, body)
    assert reply.status == 200 or 400 <= reply.status < 500, reply
    if reply.status != 200:
        assert reply.json["error"]["message"], reply


def test_unspoilt_request_is_answered(rich: Tenant) -> None:
    assert generate(rich.client, BODY).status == 200


@ROOMY
@given(body=spoilt(BODY, len(BODY)))
def test_spoilt_body_is_answered_without_harm(rich: Tenant, body: bytes) -> None:
    check(rich, body)


@ROOMY
@given(members=MEMBERS)
def test_members_of_any_value_are_answered_without_harm(
    rich: Tenant, members: dict[str, Any]
) -> None:
    check(rich, json.dumps(members).encode())
