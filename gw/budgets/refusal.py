"""What a client is told, and its row keeps, of a budget that refuses its call (reference 11.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from actors.wallet.messages import RUN, BudgetRefusal
from actors.wallet.money import format_usd
from gw.errors import QUOTA_EXCEEDED, RATE_LIMIT_EXCEEDED, GatewayError
from gw.instants import format_instant, of_seconds

HEADER = "x-gateway-budget"
WARNING_HEADER = "x-gateway-budget-warning"
NEVER = "never"
# How long a client with one run too many is told to wait: others' end when nobody calls in them.
RUNS_RETRY_SECONDS = 60


def over_budget(refused: BudgetRefusal, name: str, cheaper: str) -> GatewayError:
    """Return the error of a call that a budget of this name refuses.

    `cheaper` is the advice of its endpoint, which begins with `or`.
    """
    needed, left = format_usd(refused.needed_nano_usd), format_usd(refused.remaining_nano_usd)
    resets = reset_of(refused)
    what, owner = ("run", "Name a higher ceiling in a new run")
    if refused.budget_id != RUN:
        what, owner = "budget", "Have the limit raised"
    when = "It never resets." if resets == NEVER else f"It resets at {resets}."
    return GatewayError(
        QUOTA_EXCEEDED,
        f'The {what} "{name}" does not cover this request, which needs up to {needed} USD: of its'
        f" limit of {format_usd(refused.limit_nano_usd)} USD, {left} USD are left. {when} A top-up"
        f" of the account does not help. {owner}, {cheaper}",
        headers={HEADER: f"{refused.budget_id}; needed={needed}; remaining={left}; reset={resets}"},
    )


def reset_of(refused: BudgetRefusal) -> str:
    """Return the instant at which a budget begins anew, or `never`."""
    if refused.resets_at is None:
        return NEVER
    return format_instant(of_seconds(refused.resets_at))


def detail_of(refused: BudgetRefusal) -> Mapping[str, Any]:
    """Return the figures for the detail of the row, as the refusing transaction saw them."""
    return {
        "id": refused.budget_id,
        "limit": refused.limit_nano_usd,
        "spent": refused.spent_nano_usd,
        "held": refused.held_nano_usd,
        "needed": refused.needed_nano_usd,
    }


def too_many_runs() -> GatewayError:
    """Return the error of a call that names a run where its account has as many as it may."""
    return GatewayError(
        RATE_LIMIT_EXCEEDED,
        "The account has as many runs as it may. Continue one of them, or leave `x-gateway-run`"
        f" out. Try again in {RUNS_RETRY_SECONDS} s.",
        headers={"Retry-After": str(RUNS_RETRY_SECONDS)},
    )
