"""`retention_months` on a real process: old months of the call log go, the ledger stays proved."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.house import House, house
from tests.support.transactions import transaction

pytestmark = pytest.mark.long

OLD = "2024-03-15 12:00:00+00"


def months(h: House) -> set[str]:
    """The months that have rows."""
    found = h.query("SELECT DISTINCT to_char(created_at, 'YYYY-MM') AS month FROM call_logs")
    return {row["month"] for row in found}


def test_old_months_go_and_the_present_one_stays(database_url: str, tmp_path: Path) -> None:
    with house(database_url, tmp_path) as h:
        trace = h.client.chat().trace
        now = h.row(trace)["created_at"].strftime("%Y-%m")
        # A row of a month that had no partition, as after a long time with the clock wrong.
        with transaction(database_url) as cursor:
            cursor.execute(
                "INSERT INTO call_logs (created_at, submitted_at, account_id, key_id, request_id,"
                " protocol, model, status, latency_ms) VALUES (%(at)s, %(at)s, %(account)s,"
                " 'key_a', gen_random_uuid(), 'chat', 'm', 'rejected', 1)",
                {"at": OLD, "account": h.account},
            )
        assert h.gateway.terminate() == 0
        h.gateway.close()
        h.start()
        assert h.verify()["ok"]
        assert months(h) == {"2024-03", now}
        assert h.gateway.terminate() == 0
        h.gateway.close()
        h.write(retention_months=12)
        h.start()
        event = h.event("month_dropped")  # as the old month is
        assert (event["month"], event["rows"], event["cost_usd"]) == ("2024-03", 1, "0")
        assert months(h) == {now}
        assert h.client.get(f"/v1/logs/{h.row(trace)['id']}").status == 200
        assert h.verify()["ok"]
