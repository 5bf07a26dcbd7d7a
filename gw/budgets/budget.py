"""What a budget is to operators and owners: its members, each declared once.

A budget is a node: a limit on what a part of an account's calls may cost in a period.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated

from msgspec import Struct

from actors.wallet.attribution import END_USER_CHARACTERS_MAX
from actors.wallet.money import format_usd
from gw.budgets.subject import SCOPES
from gw.nouns import kinds, values
from gw.nouns.member import Kind, Member, Setting
from gw.nouns.noun import Noun

PERIODS = ("day", "week", "month", "total")
REFUSE, WARN = "refuse", "warn"
# Who has made a budget: an operator, or the account's owner in the console.
OPERATOR, OWNER = "operator", "owner"


class Current(Struct, frozen=True):
    """What a budget has counted in a period; amounts are decimal strings in USD.

    `resets_at` is when the next one begins, null for `total`. `excess_usd` is what costs went
    beyond their own holds.
    """

    period_from: values.Instant
    resets_at: values.Instant | None
    spent_usd: str
    held_usd: str
    remaining_usd: str
    excess_usd: str

    @classmethod
    def of(
        cls,
        limit_nano_usd: int,
        *,
        period_from: datetime,
        resets_at: datetime | None,
        spent_nano_usd: int,
        held_nano_usd: int,
        excess_nano_usd: int,
    ) -> Current:
        """Return the figures under a limit."""
        return cls(
            period_from=period_from,
            resets_at=resets_at,
            spent_usd=format_usd(spent_nano_usd),
            held_usd=format_usd(held_nano_usd),
            remaining_usd=format_usd(remaining(limit_nano_usd, spent_nano_usd, held_nano_usd)),
            excess_usd=format_usd(excess_nano_usd),
        )


def remaining(limit_nano_usd: int, spent_nano_usd: int, held_nano_usd: int) -> int:
    """Return what is left of a limit, at least 0."""
    return max(0, limit_nano_usd - spent_nano_usd - held_nano_usd)


_SUBJECT = Kind(json=values.Subject, metavar="X", characters_max=END_USER_CHARACTERS_MAX)
_ZONE = Kind(json=values.Name, parse=values.label, decode=values.label, metavar="ZONE")
_CURRENT = Kind(shown=Current)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewBudget:
    """A new budget. `subject`: of whom, where the scope has one; `starts_at`: null is now."""

    account_id: Annotated[
        str, Member(kinds.ID, "whose spending it limits", option="account", is_noted=False)
    ]
    name: Annotated[str, Setting(kinds.LABEL, "as lists and refusals show it")]
    scope: Annotated[str, Member(kinds.choice(tuple(SCOPES)), "which calls it counts")]
    subject: Annotated[
        str | None,
        Member(
            _SUBJECT,
            "of user, agent, model, end_user and run the one counted, of label KEY=VALUE",
        ),
    ] = None
    limit_nano_usd: Annotated[
        int,
        Setting(
            kinds.USD,
            "what its calls may cost in a period; 0 refuses whatever costs",
            name="limit_usd",
            form="limit",
        ),
    ]
    period: Annotated[str, Member(kinds.choice(PERIODS), "after which it counts anew")]
    time_zone: Annotated[
        str, Member(_ZONE, "whose days it counts by: an IANA name, or an offset such as +05:30")
    ] = "UTC"
    action: Annotated[
        str, Setting(kinds.choice((REFUSE, WARN)), "whether it refuses calls or only says so")
    ] = REFUSE
    warn_at: Annotated[
        list[int],
        Setting(
            kinds.PERCENTS,
            "report when so much of the limit is spent (80); may be repeated",
            none="report none",
        ),
    ] = field(default_factory=lambda: [80])
    made_by: Annotated[str, Member(kinds.TEXT, is_given=False, is_noted=False)] = OPERATOR
    starts_at: Annotated[
        datetime | None,
        Member(kinds.INSTANT, "count from then on", option="starts", none="now"),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetRecord(NewBudget):
    """A budget as shown; amounts are decimal strings in USD.

    `current` is null before `starts_at`, and for a scope `every_…` unless a subject is asked for.
    """

    id: Annotated[str, Member(kinds.ID, before="account_id")]
    created_at: Annotated[datetime, Member(kinds.INSTANT)]
    deleted_at: Annotated[datetime | None, Member(kinds.INSTANT)]
    # Of the period that was asked for; null before the start.
    period_from: Annotated[
        datetime | None, Member(kinds.INSTANT, column="x.period_from", is_shown=False)
    ]
    resets_at: Annotated[
        datetime | None, Member(kinds.INSTANT, column="x.period_to", is_shown=False)
    ]
    # Null where no sum was asked for.
    spent_nano_usd: Annotated[
        int | None, Member(kinds.USD, column="x.spent_nano_usd", is_shown=False)
    ]
    held_nano_usd: Annotated[
        int | None, Member(kinds.USD, column="x.held_nano_usd", is_shown=False)
    ]
    excess_nano_usd: Annotated[
        int | None, Member(kinds.USD, column="x.excess_nano_usd", is_shown=False)
    ]
    exhausted_at: Annotated[
        datetime | None, Member(kinds.INSTANT, column="x.exhausted_at", is_shown=False)
    ]

    @property
    def remaining_nano_usd(self) -> int | None:
        """What is left of the limit; None where no sum was asked for."""
        if self.spent_nano_usd is None or self.held_nano_usd is None:
            return None
        return remaining(self.limit_nano_usd, self.spent_nano_usd, self.held_nano_usd)

    @property
    def current(self) -> Annotated[Current | None, Member(_CURRENT)]:
        """The figures of the period."""
        spent, held, excess = self.spent_nano_usd, self.held_nano_usd, self.excess_nano_usd
        if self.period_from is None or spent is None or held is None or excess is None:
            return None
        return Current.of(
            self.limit_nano_usd,
            period_from=self.period_from,
            resets_at=self.resets_at,
            spent_nano_usd=spent,
            held_nano_usd=held,
            excess_nano_usd=excess,
        )


BUDGET: Noun[NewBudget, BudgetRecord] = Noun(
    "Budget",
    NewBudget,
    BudgetRecord,
    alias="b",
    settings_doc="New settings of a budget; absent members stay. All else is for its life.",
)
