"""Periods of budgets, as the database computes them."""

from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from actors.store.database import Database

ALWAYS = "1900-01-01T00:00:00Z"


async def period(
    database: Database, unit: str, zone: str, at: str, starts: str = ALWAYS
) -> list[str | None]:
    row = await database.fetch_one(
        "SELECT * FROM budget_period(%s, %s, %s::timestamptz, %s::timestamptz)",
        (unit, zone, starts, at),
    )
    assert row is not None
    return [None if one is None else one.astimezone(UTC).strftime("%FT%TZ") for one in row]


CASES = [
    # UTC, and offsets that are no names.
    ("day", "UTC", "2026-03-05T23:59:59.999999Z", "2026-03-05T00:00:00Z", "2026-03-06T00:00:00Z"),
    ("day", "UTC", "2026-03-06T00:00:00Z", "2026-03-06T00:00:00Z", "2026-03-07T00:00:00Z"),
    ("day", "+05:30", "2026-03-05T18:30:00Z", "2026-03-05T18:30:00Z", "2026-03-06T18:30:00Z"),
    ("day", "-00:30", "2026-03-05T00:29:00Z", "2026-03-04T00:30:00Z", "2026-03-05T00:30:00Z"),
    ("day", "-12:00", "2026-03-05T11:59:00Z", "2026-03-04T12:00:00Z", "2026-03-05T12:00:00Z"),
    ("day", "Asia/Kolkata", "2026-03-05T18:29:59Z", "2026-03-04T18:30:00Z", "2026-03-05T18:30:00Z"),
    # Half an hour of summer time.
    ("day", "Australia/Lord_Howe", "2024-10-06T00:00:00Z", "2024-10-05T13:30:00Z",
     "2024-10-06T13:00:00Z"),
    ("day", "Australia/Lord_Howe", "2024-04-06T20:00:00Z", "2024-04-06T13:00:00Z",
     "2024-04-07T13:30:00Z"),
    # Midnight is skipped: the day begins at one o'clock.
    ("day", "America/Sao_Paulo", "2018-11-04T02:59:59Z", "2018-11-03T03:00:00Z",
     "2018-11-04T03:00:00Z"),
    ("day", "America/Sao_Paulo", "2018-11-04T03:00:00Z", "2018-11-04T03:00:00Z",
     "2018-11-05T02:00:00Z"),
    ("day", "Africa/Cairo", "2024-04-25T22:30:00Z", "2024-04-25T22:00:00Z", "2024-04-26T21:00:00Z"),
    ("day", "Asia/Beirut", "2024-03-30T21:59:00Z", "2024-03-29T22:00:00Z", "2024-03-30T22:00:00Z"),
    ("month", "Asia/Amman", "2022-02-10T00:00:00Z", "2022-01-31T22:00:00Z", "2022-02-28T21:00:00Z"),
    # The hour before midnight comes twice: the day has 25 hours.
    ("day", "America/Sao_Paulo", "2018-02-18T02:30:00Z", "2018-02-17T02:00:00Z",
     "2018-02-18T03:00:00Z"),
    ("day", "Asia/Beirut", "2024-10-26T21:30:00Z", "2024-10-25T21:00:00Z", "2024-10-26T22:00:00Z"),
    # Midnight comes twice: the day begins at the first.
    ("day", "America/Havana", "2024-11-03T03:59:59Z", "2024-11-02T04:00:00Z",
     "2024-11-03T04:00:00Z"),
    ("day", "America/Havana", "2024-11-03T04:30:00Z", "2024-11-03T04:00:00Z",
     "2024-11-04T05:00:00Z"),
    # The clock is put back over midnight, from one minute past it: the next day has begun.
    ("day", "America/St_Johns", "2006-10-29T02:30:00Z", "2006-10-29T02:30:00Z",
     "2006-10-30T03:30:00Z"),
    ("day", "America/St_Johns", "2006-10-29T03:00:00Z", "2006-10-29T02:30:00Z",
     "2006-10-30T03:30:00Z"),
    # Half past eleven was followed by half past midnight.
    ("day", "America/Toronto", "1919-03-31T04:30:00Z", "1919-03-31T04:30:00Z",
     "1919-04-01T04:00:00Z"),
    # A date that never was.
    ("day", "Pacific/Apia", "2011-12-30T09:59:59Z", "2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z"),
    ("day", "Pacific/Apia", "2011-12-30T10:00:00Z", "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z"),
    # Weeks begin on Monday, months on the first.
    ("week", "UTC", "2026-11-29T23:59:59Z", "2026-11-23T00:00:00Z", "2026-11-30T00:00:00Z"),
    ("week", "UTC", "2026-11-30T00:00:00Z", "2026-11-30T00:00:00Z", "2026-12-07T00:00:00Z"),
    ("week", "America/New_York", "2026-11-01T12:00:00Z", "2026-10-26T04:00:00Z",
     "2026-11-02T05:00:00Z"),
    ("month", "UTC", "2024-02-29T23:59:59Z", "2024-02-01T00:00:00Z", "2024-03-01T00:00:00Z"),
    ("month", "Europe/Berlin", "2026-12-31T23:00:00Z", "2026-12-31T23:00:00Z",
     "2027-01-31T23:00:00Z"),
]  # fmt: skip


async def test_a_period_begins_at_the_first_instant_of_its_local_date(database_url: str) -> None:
    async with Database(database_url) as database:
        found = [await period(database, unit, zone, at) for unit, zone, at, *_ in CASES]
        assert found == [[since, until] for *_, since, until in CASES]


@pytest.mark.parametrize("zone", ["+05:45", "Europe/Lisbon", "America/Sao_Paulo", "Pacific/Apia"])
async def test_periods_follow_each_other_without_a_gap(database_url: str, zone: str) -> None:
    async with Database(database_url) as database:
        rows = await database.fetch_all(
            "SELECT count(*), count(*) FILTER (WHERE p.period_to <> q.period_from"
            " OR t NOT BETWEEN p.period_from AND p.period_to) FROM generate_series('2010-01-01'"
            "::timestamptz, '2020-01-01'::timestamptz, '30 hours'::interval) t,"
            " budget_period('day', %(zone)s, '-infinity', t) p,"
            " budget_period('day', %(zone)s, '-infinity', p.period_to) q",
            {"zone": zone},
        )
        assert rows == [(2922, 0)]


async def test_the_first_instant_is_the_one_that_a_clock_on_the_wall_shows_first(
    database_url: str,
) -> None:
    """As a search minute by minute finds it."""
    async with Database(database_url) as database:
        for zone in ("America/Havana", "America/Asuncion", "Africa/Cairo", "Europe/Dublin"):
            begins = await database.fetch_all(
                "SELECT d::date, zone_day(d::date, %s) FROM generate_series(timestamp '2023-01-01',"
                " timestamp '2024-12-31', '1 day') d",
                (zone,),
            )
            clock, first, at = (
                ZoneInfo(zone),
                dict[date, datetime](),
                datetime(2022, 12, 30, tzinfo=UTC),
            )
            while at.year < 2026:
                first.setdefault(at.astimezone(clock).date(), at)
                at += timedelta(minutes=15)
            assert {day: first[day] for day, _ in begins} == dict(begins)


async def test_a_total_begins_with_its_node_and_never_ends(database_url: str) -> None:
    async with Database(database_url) as database:
        starts = "2026-03-05T10:20:30Z"
        assert await period(database, "total", "UTC", "2099-01-01T00:00:00Z", starts) == [
            starts,
            None,
        ]
        assert await period(database, "day", "UTC", starts, starts) == [
            "2026-03-05T00:00:00Z",
            "2026-03-06T00:00:00Z",
        ]
        for unit in ("total", "day"):
            assert await period(database, unit, "UTC", "2026-03-05T10:20:29Z", starts) == [
                None,
                None,
            ]
