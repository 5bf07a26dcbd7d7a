"""A process that stands still while it is believed dead: every answered call costs its real cost.

Real processes, the attacks of `loadtests/attacks/frozen_process.py` at a quarter of the time.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from loadtests.attacks.frozen_process import (
    COST_NANO_USD,
    freeze_under_a_hold,
    freeze_under_calls,
    gateways,
)
from tests.acceptance.submissions import PRICE, SETTINGS, begin, conflict, refusal, spent, submit
from tests.support.client import Client
from tests.support.house import house
from tests.support.waiting import until

pytestmark = pytest.mark.long

CALLS = 20
PACE = 0.25


@pytest.mark.parametrize("host", ["", "elsewhere"], ids=["neighbour", "stranger"])
def test_answers_of_a_process_that_stood_still_cost_what_they_cost(
    host: str, database_url: str, tmp_path: Path
) -> None:
    with house(database_url, tmp_path, is_funded=False) as h:
        found = freeze_under_calls(h, host=host, pace=PACE, calls=CALLS)
        assert (found.answered, found.free) == (CALLS, 0)
        assert found.rows == {("success", COST_NANO_USD): CALLS}
        assert found.verified
        corrected = h.query(
            "SELECT cause, row_before ->> 'status' AS was FROM call_log_corrections"
        )
        expected = {"cause": "settled_after_recovery", "was": "interrupted"}
        # Of a neighbour nothing had to be corrected: it was never declared dead.
        assert corrected == ([expected] * CALLS if host else [])


def test_call_whose_hold_was_granted_when_nobody_waited_has_one_row(
    database_url: str, tmp_path: Path
) -> None:
    with house(database_url, tmp_path, is_funded=False) as h:
        found = freeze_under_a_hold(h, pace=PACE)
        assert found.rows == {("rejected", 0): 1}
        assert found.statuses in (Counter([500]), Counter([503]))
        assert found.verified
        (corrected,) = h.query("SELECT cause FROM call_log_corrections")
        assert corrected == {"cause": "refused_after_recovery"}


def test_answer_under_a_key_is_kept_and_charged_once_though_others_had_settled_it(
    database_url: str, tmp_path: Path
) -> None:
    with house(database_url, tmp_path, is_funded=False, **SETTINGS) as h:
        tenant = h.tenant()
        with gateways(h, host="elsewhere", pace=PACE) as victim:
            h.upstream.fault("one", pause="headers")
            call = begin(Client(victim.url, tenant.key), "k")
            h.upstream.wait(paused=1)
            victim.stop()
            until(lambda: h.query("SELECT FROM recovered_calls"), what="the judgement")
            assert refusal(submit(tenant.client, "k")) == conflict("in_flight")
            h.upstream.resume()
            victim.go_on()
            first = call.reply()
            assert first.status == 200
            again = submit(tenant.client, "k")  # in another process
            assert (again.body, again.headers["idempotency-replayed"]) == (first.body, "true")
            assert h.upstream.requested("one") == [1]
            assert spent(h, tenant) == PRICE
            assert h.row(first.trace)["status"] == "success"
