"""An attempt has so many seconds and all of them together so many (spec: Limits; contract §4).

The house's are few, so that a test need not wait long.
"""

from __future__ import annotations

import time

import pytest

from tests.acceptance import pictures
from tests.acceptance.pictures import generate, refusal
from tests.support.client import NANO_PER_USD
from tests.support.house import House
from tests.support.tenants import Tenant

ATTEMPT_SECONDS = 1.0
# Later than this the gateway is not keeping its time, whatever else the machine is doing.
LATE_SECONDS = 3.0
SETTINGS = {
    **pictures.SETTINGS,
    "timeouts": {"image_attempt": ATTEMPT_SECONDS, "image_total": 5},
}


@pytest.mark.parametrize("fault", [{"hang": "headers"}, {"delay_headers_ms": 60_000}])
def test_slow_upstream_is_504_and_nobody_else_is_tried(
    h: House, tenant: Tenant, fault: dict[str, object]
) -> None:
    started = time.monotonic()
    reply = generate(tenant.client, sim=fault)
    assert ATTEMPT_SECONDS * 0.9 < time.monotonic() - started < ATTEMPT_SECONDS + LATE_SECONDS
    assert refusal(reply) == (504, "api_error", "upstream_timeout", None)
    h.upstream.wait(cancelled=1, active=0)
    assert h.upstream.requested("one", "two") == [1, 0]
    row = h.row(reply.trace)
    assert (row["status"], row["cost_nano_usd"]) == ("interrupted", 0)
    assert tenant.client.remaining_nano_usd() == NANO_PER_USD


def test_time_of_one_attempt_is_not_that_of_the_next(h: House, tenant: Tenant) -> None:
    """Two channels fail slowly, together later than one attempt may take; the third answers."""
    for name in ("one", "two"):
        h.upstream.fault(name, status=503, delay_headers_ms=600)
    started = time.monotonic()
    reply = generate(tenant.client)
    assert reply.status == 200
    assert time.monotonic() - started > ATTEMPT_SECONDS
    assert len(h.row(reply.trace)["attempts"]) == 2
