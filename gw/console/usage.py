"""What an account's calls have cost, by one of what they have, as a page."""

from __future__ import annotations

from urllib.parse import urlencode

from gw.api.logs.filters import ATTRIBUTED, LABEL
from gw.api.logs.grouping import key_ids, read_grouping
from gw.api.logs.summary import check_length, names_of_keys, read_sums, total_of
from gw.api.logs.visibility import Scope, Visibility
from gw.api.logs.window import read_window
from gw.console.pages import ConsoleHandler

# What is offered beside `label.` and a key.
CHOICES = (*ATTRIBUTED, "key", "model", "user")


class UsageHandler(ConsoleHandler):
    """The sums of a window by end user, session, run, label, key, model or user."""

    async def on_get(self, account_id: str) -> None:
        account = await self.account(account_id)
        database = self.services.database

        def see(scope: Scope) -> Visibility:
            return Visibility(scope, account_id, None)

        by = read_grouping(self.parameters, see) or "end_user"
        window = read_window(self.parameters, self.now)
        check_length(window)
        sums = await read_sums(database, see("account"), window, self.now, by)
        period = {name: self.parameters.text(name) or "" for name in ("period", "from", "to")}
        self.page(
            "usage.html",
            account=account,
            by=by,
            choices=CHOICES,
            label=by.removeprefix(LABEL) if by.startswith(LABEL) else "",
            period=period,
            total=total_of(sums),
            groups=[(one, self._calls(by, one.name, period)) for one in sums["group"]],
            rest=sums["rest"],
            key_names=await names_of_keys(database, key_ids(by, sums["group"])),
        )

    def _calls(self, by: str, group: str, period: dict[str, str]) -> str | None:
        """Return the query of the list of a group's calls; None where nothing selects them.

        A list separates its values at commas, but an end user's.
        """
        if not group or by == "user" or ("," in group and by != "end_user"):
            return None
        name = "key_id" if by == "key" else by
        return urlencode({name: group, **{key: one for key, one in period.items() if one}})
