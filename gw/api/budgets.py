"""`GET /v1/budgets`: the limits that a key's calls meet, and what is left of them (reference 11.2).

Free, and counted by the account's limits. The figures are current: the handler waits for pending
writes of every process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Literal, TypedDict

from msgspec import Meta

from actors.wallet.messages import RUN
from actors.wallet.money import format_usd
from gw.api.handler import ApiHandler
from gw.api.logs.parameters import Parameters, refuse
from gw.api.logs.visibility import of_scope
from gw.api.services import until_settled
from gw.budgets import subject, table
from gw.budgets.budget import BudgetRecord, remaining
from gw.budgets.table import Ceiling, Shown
from gw.error_bodies import dumps
from gw.errors import PERMISSION_DENIED, GatewayError
from gw.instants import format_instant
from gw.keys.end_users import is_digest
from gw.keys.principal import Principal
from gw.nouns.refused import Invalid

_At = {"format": "date-time"}
_NULL = " Null for a scope `every_…` unless the query chooses a value, and before the start."


class ShownBudget(TypedDict):
    """A budget, with what it has counted in its period; amounts are decimal strings in USD."""

    object: Annotated[Literal["budget"], Meta(description="Always `budget`.")]
    id: Annotated[str, Meta(description="The id that a refusal names; `run`: a run's ceiling.")]
    name: Annotated[str, Meta(description="Its name; of a ceiling the run's.")]
    scope: Annotated[str, Meta(description="Which calls it counts.")]
    subject: Annotated[
        str | None, Meta(description="Whose; null: all of the account, or each value by itself.")
    ]
    limit_usd: Annotated[str, Meta(description="What its calls may cost in a period.")]
    period: Annotated[str, Meta(description="`day`, `week`, `month` or `total`.")]
    action: Annotated[str, Meta(description="`refuse`, or `warn`: nothing is refused.")]
    period_from: Annotated[
        str | None,
        Meta(description="When the period began; null before the start.", extra_json_schema=_At),
    ]
    resets_at: Annotated[
        str | None,
        Meta(description="When it counts anew; null: never.", extra_json_schema=_At),
    ]
    spent_usd: Annotated[str | None, Meta(description=f"What its calls have cost.{_NULL}")]
    held_usd: Annotated[str | None, Meta(description=f"What calls under way hold.{_NULL}")]
    remaining_usd: Annotated[str | None, Meta(description=f"What is left.{_NULL}")]


class BudgetList(TypedDict):
    """The budgets that the key sees, the newest first."""

    object: Annotated[Literal["list"], Meta(description="Always `list`.")]
    data: Annotated[list[ShownBudget], Meta(description="The budgets.")]


class BudgetsHandler(ApiHandler):
    """The budgets that the key's calls can meet; with the right to the account's logs, all."""

    async def on_get(self) -> None:
        principal = self.principal
        sees_all = of_scope(principal, "account") is not None
        run, end_user = read_query(self.request.query_arguments, sees_all=sees_all)
        await until_settled(self.services, principal.account_id)
        if end_user is not None and not is_digest(end_user):
            kept = self.services.end_users.kept(principal.account_id, end_user)
            end_user = kept or end_user
        database = self.services.logs.database
        shown = Shown(user=principal.user, end_user=end_user, run=run)
        data = []
        async for page in table.pages(database, principal.account_id, shown):
            data += [_shown(one) for one in page if sees_all or is_seen(one, principal)]
        ceiling = None if run is None else await table.ceiling(database, principal.account_id, run)
        if run is not None and ceiling is not None:
            data.append(_shown_ceiling(run, ceiling))
        self.write(dumps(BudgetList(object="list", data=data)))


def read_query(
    query: Mapping[str, Sequence[bytes]], *, sees_all: bool
) -> tuple[str | None, str | None]:
    """Return the run and the end user whose sums are asked for. Raises GatewayError."""
    parameters = Parameters(query)
    run = _read(parameters, "run", subject.run)
    end_user = _read(parameters, "end_user", subject.end_user)
    if end_user is not None and not sees_all:
        raise GatewayError(
            PERMISSION_DENIED,
            "`end_user` needs a console key whose account-wide log access is switched on.",
            param="end_user",
        )
    return run, end_user


def is_seen(budget: BudgetRecord, principal: Principal) -> bool:
    """Whether a key that may not read its account's logs sees a budget of the account."""
    if budget.scope == "user":
        return budget.subject == principal.user
    if budget.scope == "model":
        allowed = principal.allowed_models
        return allowed is None or budget.subject in allowed
    return budget.scope == "account" or budget.scope in subject.EVERY


def _read(parameters: Parameters, name: str, read: Callable[[str], str]) -> str | None:
    text = parameters.text(name)
    try:
        return None if text is None else read(text)
    except Invalid as error:
        raise refuse(name, f"is malformed: {error}.") from error


def _shown(budget: BudgetRecord) -> ShownBudget:
    current = budget.current
    begun, ends = budget.period_from, budget.resets_at
    return {
        "object": "budget",
        "id": budget.id,
        "name": budget.name,
        "scope": budget.scope,
        "subject": budget.subject,
        "limit_usd": format_usd(budget.limit_nano_usd),
        "period": budget.period,
        "action": budget.action,
        "period_from": None if begun is None else format_instant(begun),
        "resets_at": None if ends is None else format_instant(ends),
        "spent_usd": None if current is None else current.spent_usd,
        "held_usd": None if current is None else current.held_usd,
        "remaining_usd": None if current is None else current.remaining_usd,
    }


def _shown_ceiling(run: str, ceiling: Ceiling) -> ShownBudget:
    limit, spent, held = (
        ceiling.limit_nano_usd,
        ceiling.spent_nano_usd,
        ceiling.held_nano_usd,
    )
    return {
        "object": "budget",
        "id": RUN,
        "name": run,
        "scope": "run",
        "subject": run,
        "limit_usd": format_usd(limit),
        "period": "total",
        "action": "refuse",
        "period_from": format_instant(ceiling.period_from),
        "resets_at": None,
        "spent_usd": format_usd(spent),
        "held_usd": format_usd(held),
        "remaining_usd": format_usd(remaining(limit, spent, held)),
    }
