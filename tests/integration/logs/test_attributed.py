"""Lists and sums of the log by whom calls were for, against a plain list of the same rows."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from itertools import product
from random import Random
from typing import Any

from tornado.escape import parse_qs_bytes

from actors.partitions import build_spans
from channels.conversation import label_of
from gw.api.logs.cursor import CursorSeal, PagePosition
from gw.api.logs.grouping import GROUPS_MAX
from gw.api.logs.list_query import read_list_query
from gw.api.logs.pages import read_page
from gw.api.logs.rows import Rendering
from gw.api.logs.summary import names_of_keys, read_summary_query, read_sums, show_summary
from gw.keys.end_users import EndUserKey
from tests.integration.logs.model import see
from tests.integration.logs.table import NOW, Table, fill
from tests.support.call_log import Row
from tests.support.rows import each

END_USERS = EndUserKey(b"a key for tests only")
SEAL = CursorSeal(b"k" * 32)
DIGEST = END_USERS.digest("acct_a", "ann")


def some_rows(count: int = 400) -> list[Row]:
    """Calls of four days, some of them by nobody."""
    rng = Random(5)
    return [
        Row(
            number=number,
            created_at=NOW - timedelta(seconds=rng.randrange(4 * 86_400)),
            account_id="acct_z" if number % 9 == 0 else "acct_a",
            key_id="key_z" if number % 9 == 0 else rng.choice(("key_a", "key_b")),
            model=rng.choice(("m", "n", "")),
            cost_nano_usd=rng.randrange(3) * 1000,
            input_tokens=rng.randrange(9),
            attribution=rng.choice(
                (
                    None,
                    {"end_user": rng.choice(("ann", "bob, the elder", DIGEST)), "run": "r/1"},
                    {"session": label_of("s1"), "labels": {"team": rng.choice("ab")}},
                    {"run": f"r/{number % 3}", "labels": {"team": "a", "x.y": "1"}},
                )
            ),
        )
        for number in range(1, count)
    ]


async def build_days(table: Table) -> None:
    """Add up the spans that are over, as if so many values had been stored by the ledger."""
    await table.database.execute(
        "INSERT INTO attribution_counts (account_id, day, what, stored)"
        " SELECT DISTINCT account_id, (bucket AT TIME ZONE 'UTC')::date, what, 10000"
        " FROM call_log_attributed ON CONFLICT DO NOTHING"
    )
    assert await build_spans(table.database)


def value_of(row: Row, what: str) -> str | None:
    said = row.attribution or {}
    if what.startswith("label."):
        found: str | None = said.get("labels", {}).get(what[6:])
        return found
    return said.get(what)


async def listed(table: Table, query: str) -> list[int]:
    """The rows of all pages."""
    found: list[int] = []
    asked = parse_qs_bytes(f"{query}&limit=7")
    read = read_list_query(asked, see=see, seal=SEAL, end_users=END_USERS, now=NOW)
    while True:
        page = await read_page(table.database, read)
        found += [row.id for row in page[: read.limit]]
        if len(page) <= read.limit:
            return found
        last = page[read.limit - 1]
        read = replace(read, after=PagePosition(last.created_at, last.id))


@each("are_built", [False, True])
def test_a_list_has_the_rows_that_match_all_filters(table: Table, are_built: bool) -> None:
    async def main() -> None:
        rows = await fill(table.database, some_rows())
        if are_built:
            await build_days(table)
        wanted: Mapping[str, Callable[[Row], bool]] = {
            "end_user=bob, the elder": lambda row: value_of(row, "end_user") == "bob, the elder",
            "end_user=ann": lambda row: value_of(row, "end_user") in ("ann", DIGEST),
            f"end_user={DIGEST}": lambda row: value_of(row, "end_user") == DIGEST,
            "session=s1": lambda row: value_of(row, "session") is not None,
            f"session={label_of('s1')},zz": lambda row: value_of(row, "session") is not None,
            "run=r/0,r/2": lambda row: value_of(row, "run") in ("r/0", "r/2"),
            "label.team=b": lambda row: value_of(row, "label.team") == "b",
            "label.team=a,b&label.x.y=1": lambda row: value_of(row, "label.x.y") == "1",
            "run=r/1&model=m": lambda row: value_of(row, "run") == "r/1" and row.model == "m",
            "run=r/1&end_user=ann&order=asc": (
                lambda row: value_of(row, "end_user") in ("ann", DIGEST)
            ),
            "end_user=nobody": lambda row: False,
            "label.none=1": lambda row: False,
        }
        for query, passes in wanted.items():
            for scope in ("key", "account"):
                found = await listed(table, f"{query}&scope={scope}")
                passing = [
                    row
                    for row in rows
                    if row.account_id == "acct_a"
                    and (scope == "account" or row.key_id == "key_a")
                    and passes(row)
                ]
                is_down = "order=asc" not in query
                passing.sort(key=lambda row: (row.created_at, row.id), reverse=is_down)
                assert found == [row.id for row in passing], (query, scope)

    table.run(main())


def test_a_row_shows_what_its_client_stated_and_nothing_else(table: Table) -> None:
    async def main() -> None:
        said = {"end_user": "ann", "labels": {"team": "a"}}
        rows = some_rows(3)[:2]
        await fill(
            table.database,
            [replace(rows[0], attribution=said), replace(rows[1], attribution=None)],
        )
        asked = parse_qs_bytes("scope=account&order=asc")
        read = read_list_query(asked, see=see, seal=SEAL, end_users=END_USERS, now=NOW)
        page = await read_page(table.database, read)
        rendering = Rendering(credits_per_usd=Decimal(1000), redact=str)
        shown = {row.model: rendering.row(row, with_attempts=False) for row in page}
        by_id = [rendering.row(row, with_attempts=False) for row in page]
        assert shown
        (with_it,) = [one for one in by_id if "end_user" in one]
        (without,) = [one for one in by_id if "end_user" not in one]
        assert (with_it["end_user"], with_it["labels"]) == ("ann", {"team": "a"})
        assert with_it.keys() - without.keys() == {"end_user", "labels"}
        assert not {"session", "run", "attribution"} & with_it.keys()

    table.run(main())


def figures(rows: list[Row]) -> tuple[int, int, int]:
    return (
        len(rows),
        sum(row.cost_nano_usd for row in rows),
        sum(row.input_tokens for row in rows),
    )


GROUPS: Mapping[str, Callable[[Row], Any]] = {
    "end_user": lambda row: value_of(row, "end_user"),
    "session": lambda row: value_of(row, "session"),
    "run": lambda row: value_of(row, "run"),
    "label.team": lambda row: value_of(row, "label.team"),
    "label.x.y": lambda row: value_of(row, "label.x.y"),
    "label.none": lambda row: None,
    "key": lambda row: row.key_id,
    "model": lambda row: row.model or None,
    "user": lambda row: "owner",
}


@each(
    "window, are_built",
    list(
        product(
            (
                "period=today",
                "period=7d",
                "from=2026-10-31T07:20:00Z&to=2026-11-02T13:59:59Z",
                "from=2026-10-31&to=2026-11-01",
            ),
            (False, True),
        )
    ),
)
def test_groups_add_up_to_the_total(table: Table, window: str, are_built: bool) -> None:
    async def main() -> None:
        rows = await fill(table.database, some_rows())
        if are_built:
            await build_days(table)
        for by, group_of in GROUPS.items():
            for scope in ("key", "account"):
                asked = parse_qs_bytes(f"{window}&by={by}&scope={scope}")
                query = read_summary_query(asked, see=see, now=NOW)
                sums = await read_sums(
                    table.database, query.visibility, query.window, NOW, query.by
                )
                groups: dict[Any, list[Row]] = defaultdict(list)
                for row in rows:
                    is_own = row.key_id == "key_a" or scope == "account"
                    if (
                        row.account_id == "acct_a"
                        and is_own
                        and query.window.start <= row.created_at < query.window.end
                    ):
                        groups[group_of(row)].append(row)
                found = {
                    one.name or None: (one.requests, one.cost_nano_usd, one.input_tokens)
                    for one in sums["group"]
                }
                assert found == {name: figures(its) for name, its in groups.items()}, (by, scope)
                order = [(-one.cost_nano_usd, -one.requests) for one in sums["group"]]
                assert order == sorted(order)
                assert sums["rest"] == []

    table.run(main())


def test_the_groups_beyond_the_first_are_one(table: Table) -> None:
    async def main() -> None:
        base = some_rows(2)[0]
        many = [
            replace(
                base,
                number=number,
                cost_nano_usd=1_000_000 * number,
                attribution={"end_user": f"u{number}"},
            )
            for number in range(1, GROUPS_MAX + 4)
        ]
        nobody = replace(base, number=9999, cost_nano_usd=7_000_000_000, attribution=None)
        await fill(table.database, [*many, nobody])
        asked = parse_qs_bytes("by=end_user&scope=account")
        query = read_summary_query(asked, see=see, now=NOW)
        sums = await read_sums(table.database, query.visibility, query.window, NOW, query.by)
        shown = show_summary(query, sums, Decimal(1000))
        groups = shown["by_group"]
        assert len(groups) == GROUPS_MAX + 1
        assert groups[0]["group"] is None
        assert "rest" not in groups[0]
        assert groups[1]["group"] == f"u{GROUPS_MAX + 3}"
        assert {name: groups[-1].get(name) for name in ("group", "rest", "groups", "requests")} == {
            "group": None,
            "rest": True,
            "groups": 4,
            "requests": 4,
        }
        assert sum(Decimal(one["cost"]) for one in groups) == Decimal(shown["total"]["cost"])
        assert shown["by"] == "end_user"
        keys = await names_of_keys(table.database, ["key_a", "gone"])
        assert keys == {"key_a": "name of key_a"}

    table.run(main())
