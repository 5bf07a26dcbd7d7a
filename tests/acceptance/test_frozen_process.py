"""A process that stands still while it is believed dead: every answered call costs its real cost.

Real processes, the attacks of `loadtests/attacks/frozen_process.py` at a quarter of the time.
"""

from pathlib import Path

import pytest

from loadtests.attacks.frozen_process import COST_NANO_USD, freeze_under_calls
from loadtests.rig.deployment import deployment

pytestmark = pytest.mark.long

CALLS = 20
PACE = 0.25


@pytest.mark.parametrize("host", ["", "elsewhere"], ids=["neighbour", "stranger"])
def test_answers_of_a_process_that_stood_still_cost_what_they_cost(
    host: str, database_url: str, tmp_path: Path
) -> None:
    with deployment(database_url, tmp_path, is_funded=False) as h:
        found = freeze_under_calls(h, host=host, pace=PACE, calls=CALLS)
        assert (found.served, found.free) == (CALLS, 0)
        assert found.rows == {("success", COST_NANO_USD): CALLS}
        assert found.verified
        corrected = h.query(
            "SELECT cause, row_before ->> 'status' AS was FROM call_log_corrections"
        )
        expected = {"cause": "settled_after_recovery", "was": "interrupted"}
        # Of a neighbour nothing had to be corrected: it was never declared dead.
        assert corrected == ([expected] * CALLS if host else [])
