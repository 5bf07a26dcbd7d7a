"""What an account's calls have cost, by one of what they have, for operators.

The same sums as the client's summary (`summary.py`), beside the USD that they are of.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal

from msgspec import UNSET, Struct, UnsetType, to_builtins

from actors.store.session import Statements
from actors.wallet.money import format_credits, format_usd
from gw.api.logs.grouping import GROUPINGS, check_grouping, key_ids
from gw.api.logs.parameters import Parameters
from gw.api.logs.summary import (
    CallSums,
    check_length,
    names_of_keys,
    read_sums,
    show_groups,
    total_of,
)
from gw.api.logs.visibility import Visibility
from gw.api.logs.window import Window, read_window
from gw.errors import GatewayError
from gw.instants import format_instant
from gw.nouns.refused import Invalid


class UsageQuery(
    Struct, frozen=True, forbid_unknown_fields=True, rename={"since": "from", "until": "to"}
):
    """What to add up by, and from when until when: dates or RFC 3339 instants, both or neither."""

    by: str | None = None
    since: str | None = None
    until: str | None = None


class UsageSums(Struct, frozen=True, kw_only=True):
    """The sums of some calls; `cost` in credits, as clients see it."""

    requests: int
    cost_usd: str
    cost: str
    input_tokens: int
    output_tokens: int
    cached_tokens: int


class UsageGroup(UsageSums, frozen=True, kw_only=True):
    """The calls that have something in common; null: that have none. Of keys with the name.

    With `rest` all further groups together, which are so many.
    """

    group: str | None
    key_name: str | UnsetType | None = UNSET
    rest: bool | UnsetType = UNSET
    groups: int | UnsetType = UNSET


class AccountUsage(Struct, frozen=True, kw_only=True):
    """The sums of a window. The groups add up to `total`."""

    account_id: str
    by: str
    period_from: str
    period_to: str
    total: UsageSums
    by_group: list[UsageGroup]


def read_usage_query(query: UsageQuery, now: datetime) -> tuple[str, Window]:
    """Return what to group by, and the window. Raises Invalid."""
    if query.by is None:
        raise Invalid(f"by: it is missing; one of {', '.join(GROUPINGS)}")
    named = {"from": query.since, "to": query.until}
    parameters = Parameters({name: [text.encode()] for name, text in named.items() if text})
    try:
        check_grouping(query.by)
        window = read_window(parameters, now)
        check_length(window)
    except GatewayError as refused:
        raise Invalid(refused.message) from None
    return query.by, window


async def read_account_usage(
    database: Statements,
    account_id: str,
    query: UsageQuery,
    *,
    now: datetime,
    credits_per_usd: Decimal,
) -> AccountUsage:
    """Return the sums of an account's calls. Raises Invalid, StoreUnavailable."""
    by, window = read_usage_query(query, now)
    visibility = Visibility("account", account_id, None)
    sums = await read_sums(database, visibility, window, now, by)
    names = await names_of_keys(database, key_ids(by, sums["group"]))

    def figures(one: CallSums) -> UsageSums:
        return UsageSums(
            requests=one.requests,
            cost_usd=format_usd(one.cost_nano_usd),
            cost=format_credits(one.cost_nano_usd, credits_per_usd),
            input_tokens=one.input_tokens,
            output_tokens=one.output_tokens,
            cached_tokens=one.cached_tokens,
        )

    groups = show_groups(by, sums, names, lambda one: to_builtins(figures(one)))
    return AccountUsage(
        account_id=account_id,
        by=by,
        period_from=format_instant(window.start),
        period_to=format_instant(window.end),
        total=figures(total_of(sums)),
        by_group=[UsageGroup(**one) for one in groups],
    )
