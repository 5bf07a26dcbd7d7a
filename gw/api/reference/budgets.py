"""Budgets, in the reference."""

from __future__ import annotations

from gw import errors
from gw.api import budgets
from gw.api.reference.operation import Operation, answers, in_query

TAG = "Budgets"

LIST = (
    Operation(
        name="list_budgets",
        tag=TAG,
        summary="List the limits that the key's calls meet.",
        description="Budgets of the account, of the key's user, of models that it may use, and of"
        " each user, end user and run; a key that may read the account's logs sees all of them.",
        parameters=(
            in_query("run", "Whose sums budgets of each run show; with the run's ceiling."),
            in_query(
                "end_user",
                "Whose sums budgets of each end user show; needs a console key with account-wide"
                " log access.",
            ),
        ),
        responses=answers(budgets.BudgetList, "The budgets."),
        raises=(errors.INVALID_REQUEST, errors.PERMISSION_DENIED),
    ),
)
