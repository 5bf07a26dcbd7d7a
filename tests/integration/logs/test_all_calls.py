"""The console's page of all calls: every filter, page by page, with a bound of rows looked at."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from gw.api.logs.window import Window
from gw.console import all_calls
from gw.console.all_calls import FILTERS, find_calls, first_id
from gw.instants import EPOCH
from tests.integration.logs.table import NOW, Table, fill
from tests.support.call_log import Row

WHOLE = Window(EPOCH, NOW)
HOUR = timedelta(hours=1)


def rows() -> list[Row]:
    """Forty calls, one an hour, of both accounts, three keys, two models; each fifth failed."""
    keys = (("acct_a", "key_a"), ("acct_a", "key_b"), ("acct_z", "key_z"))
    made = []
    for number in range(40):
        account_id, key_id = keys[number % 3]
        made.append(
            Row(
                number=number,
                created_at=NOW - (40 - number) * HOUR,
                account_id=account_id,
                key_id=key_id,
                model="m" if number % 2 else "n",
                status="success" if number % 5 else "error",
            )
        )
    # One that ended before the one above it, and was settled after it.
    made[31] = replace(made[31], created_at=made[30].created_at - timedelta(minutes=2))
    return made


def dated(start: datetime, end: datetime) -> tuple[dict[str, str], Window]:
    return {"from": "x", "to": "x"}, Window(start, end)


@pytest.mark.parametrize("scanned", [3, 7, 20_000])
def test_pages_hold_each_call_that_passes_once(
    table: Table, monkeypatch: pytest.MonkeyPatch, scanned: int
) -> None:
    monkeypatch.setattr(all_calls, "SCANNED_MAX", scanned)
    monkeypatch.setattr(all_calls, "SHOWN", 4)

    async def main() -> None:
        written = await fill(table.database, rows())
        start, end = written[10].created_at, written[30].created_at
        for filters, window in (
            ({}, WHOLE),
            ({"account": "acct_a"}, WHOLE),
            ({"account": "acct_none"}, WHOLE),
            ({"key_id": "key_b", "status": "error"}, WHOLE),
            ({"key_id": "key_b", "account": "acct_z"}, WHOLE),
            ({"model": "m"}, WHOLE),
            ({"model": "m", "account": "acct_z"}, WHOLE),
            ({"status": "error"}, WHOLE),
            ({"status": "rejected"}, WHOLE),
            ({"channel": "c"}, WHOLE),
            dated(start, end),
            dated(NOW - timedelta(days=900), NOW - timedelta(days=800)),
            ({**dated(start, end)[0], "account": "acct_a", "model": "n"}, Window(start, end)),
            ({"period": "x"}, Window(start, NOW)),
        ):
            by_id = not (filters.get("account") or filters.get("key_id"))
            expected = [
                row.id
                for row in sorted(
                    written,
                    key=lambda row: (EPOCH if by_id else row.created_at, row.id),
                    reverse=True,
                )
                if window.start <= row.created_at < window.end
                and filters.get("account", row.account_id) == row.account_id
                and filters.get("key_id", row.key_id) == row.key_id
                and filters.get("model", row.model) == row.model
                and filters.get("status", row.status) == row.status
                and "channel" not in filters
            ]
            chosen = {name: filters.get(name, "") for name in FILTERS}
            found: list[int] = []
            before = None
            while True:
                page = await find_calls(table.database, chosen, window, before)
                assert len(page.rows) <= 4
                found += [row.id for row in page.rows]
                assert set(page.account_names.values()) <= {"n"}
                before = page.before
                if before is None:
                    break
            assert found == expected, (filters, window)

    table.run(main())


def test_instant_is_found_among_ids(table: Table) -> None:
    async def main() -> None:
        await fill(table.database, [])
        assert await first_id(table.database, NOW) <= 1
        written = await fill(table.database, rows()[:20])
        for row in written:
            found = await first_id(table.database, row.created_at)
            later = [one for one in written if one.created_at >= row.created_at]
            assert [one for one in written if one.id >= found] == later
        assert await first_id(table.database, NOW) == written[-1].id + 1
        assert await first_id(table.database, EPOCH) <= written[0].id

    table.run(main())
