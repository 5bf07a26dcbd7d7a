"""Accounts: all of them, and one with its balance, its spending as plots, and its limits."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from actors.store.queries import load
from actors.wallet.money import format_usd
from gw.accounts import ACCOUNT
from gw.admin import accounts as handled
from gw.api.logs.summary import read_sums
from gw.api.logs.visibility import Visibility
from gw.api.logs.window import Window, read_window
from gw.console.changes import change, in_force
from gw.console.csv_file import PORTION, start_csv, write_csv
from gw.console.pages import ConsoleHandler
from gw.console.plots import days_plot, models_plot
from gw.console.texts import TEXTS
from gw.cursors import Position, write_position
from gw.instants import format_instant, midnight

SQL = load("gw.console", "account.sql", ACCOUNT.sql)
PAGE = 50
DAYS = 30
CREDITS_SHOWN = 20
SPENDERS_SHOWN = 20
# Conversations are no column of the log: their sums are computed from this many rows.
CONVERSATION_CALLS = 5000


class AccountsHandler(ConsoleHandler):
    """Every account, newest first."""

    async def on_get(self) -> None:
        after = self.after()
        search = self.parameters.text("q")
        params = {
            "after_at": after and after[0],
            "after_id": after and after[1],
            "limit": PAGE + 1,
            "search": search and f"%{escaped(search)}%",
        }
        found = await self.services.database.fetch_all(SQL["accounts"], params)
        rows = [ACCOUNT.of_row(row) for row in found]
        more = rows[PAGE - 1] if len(rows) > PAGE else None
        self.page(
            "accounts.html",
            accounts=rows[:PAGE],
            search=search or "",
            form=ACCOUNT.new_form,
            after=write_position(Position(more.created_at, more.id)) if more else None,
        )

    async def on_post(self) -> None:
        async with change(self) as (transaction, actor):
            new = ACCOUNT.new_of_form(self, self.services.current.registry)
            made = await handled.create(transaction, actor, new)
        self.redirect(f"/accounts/{made.id}", status=303)


class AccountHandler(ConsoleHandler):
    """One account: balance, spending, credits, limits."""

    async def on_get(self, account_id: str) -> None:
        account = await self.account(account_id)
        database = self.services.database
        now = self.now
        start = midnight((now - timedelta(days=DAYS - 1)).date())
        visibility = Visibility("account", account_id, None)
        sums = await read_sums(database, visibility, Window(start, now), now)
        newest = {"account": account_id, "limit": CREDITS_SHOWN}
        given = await database.fetch_all(SQL["credits"], newest)
        spenders = await database.fetch_all(
            SQL["spenders"], {"account": account_id, "start": start, "limit": SPENDERS_SHOWN}
        )
        conversations = await database.fetch_all(
            SQL["conversations"],
            {
                "account": account_id,
                "start": start,
                "calls": CONVERSATION_CALLS,
                "limit": SPENDERS_SHOWN,
            },
        )
        ((minute, oldest),) = await database.fetch_all(SQL["last_minute"], (account_id,))
        total = sum(one.cost_nano_usd for one in sums["day"])
        self.page(
            "account.html",
            account=account,
            forms={
                "limits": ACCOUNT.form,
                "topup": handled.TOP_UP.new_form,
                "correct": handled.CORRECTION.new_form,
            },
            total=total,
            days=sorted(sums["day"], key=lambda one: one.name, reverse=True),
            models=sorted(sums["model"], key=lambda one: (-one.cost_nano_usd, one.name)),
            days_plot=days_plot(sums["day"], start.date(), now.date(), TEXTS("account.by_day")),
            models_plot=models_plot(sums["model"], TEXTS("account.by_model")),
            credits=given,
            spenders=spenders,
            conversations=conversations,
            conversation_calls=CONVERSATION_CALLS,
            minute=minute,
            resets_at=oldest and oldest + timedelta(seconds=60),
            since=start,
        )

    async def on_post(self, account_id: str) -> None:
        """Apply an operator's change: credit, correction, limits, whether the keys are enabled."""
        await self.account(account_id)
        act, registry = self.field("act"), self.services.current.registry
        async with change(self) as (transaction, actor):
            if act == "topup":
                top_up = handled.TOP_UP.new_of_form(self, registry)
                await handled.top_up(transaction, actor, account_id, top_up)
            elif act == "correct":
                correction = handled.CORRECTION.new_of_form(self, registry)
                await handled.correct(transaction, actor, account_id, correction)
            elif act == "limits":
                limits = ACCOUNT.of_form(self, ACCOUNT.form, registry)
                await handled.change(transaction, actor, account_id, limits)
            elif act in ("enable", "disable"):
                await handled.change(transaction, actor, account_id, {"enabled": act == "enable"})
            else:
                self.refuse(400, "error.request")
        await in_force(self)
        self.redirect(f"/accounts/{account_id}", status=303)


class StatementHandler(ConsoleHandler):
    """The credits, corrections and charges of an account as CSV: every line once, oldest first."""

    async def on_get(self, account_id: str) -> None:
        account = await self.account(account_id)
        window = read_window(self.parameters, self.now)
        await self.services.settled(account_id)
        start_csv(self, f"statement-{account.id}.csv")
        await write_csv(self, ("at", "kind", "reference", "model", "key", "amount_usd"), [])
        async for rows in self._lines(account_id, window):
            await write_csv(self, None, rows)
        await self.finish()

    async def _lines(self, account_id: str, window: Window) -> AsyncIterator[list[Sequence[Any]]]:
        """Yield credits and calls of the window, merged, in portions."""
        after: tuple[datetime, int, int] = (window.start, -1, -1)
        while True:
            params = {
                "account": account_id,
                "after_at": after[0],
                "after_kind": after[1],
                "after_id": after[2],
                "end": window.end,
                "limit": PORTION,
            }
            rows = await self.services.database.fetch_all(SQL["statement"], params)
            yield [
                (format_instant(at), kind, reference, model, key, format_usd(int(nano)))
                for at, _, _, kind, reference, model, key, nano in rows
            ]
            if len(rows) < PORTION:
                return
            after = rows[-1][:3]


def escaped(text: str) -> str:
    """Escape a text for LIKE."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
