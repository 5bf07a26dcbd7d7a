"""An attempt at images has so many seconds (spec: Limits; contract §4).

Here on a real process; on a clock that jumps, the unit tests look at one attempt after the other.
"""

from __future__ import annotations

import pytest

from tests.acceptance import pictures
from tests.acceptance.pictures import generate, refusal
from tests.support.client import NANO_PER_USD
from tests.support.house import House
from tests.support.tenants import Tenant

pytestmark = pytest.mark.long

SETTINGS = {**pictures.SETTINGS, "timeouts": {"image_attempt": 1.0}}


def test_slow_upstream_is_504_and_nobody_else_is_tried(h: House, tenant: Tenant) -> None:
    reply = generate(tenant.client, sim={"hang": "headers"})
    assert refusal(reply) == (504, "api_error", "upstream_timeout", None)
    h.upstream.wait(cancelled=1, active=0)
    assert h.upstream.requested("one", "two") == [1, 0]
    row = h.row(reply.trace)
    assert (row["status"], row["cost_nano_usd"]) == ("interrupted", 0)
    assert row["latency_ms"] >= 900
    assert tenant.client.remaining_nano_usd() == NANO_PER_USD
