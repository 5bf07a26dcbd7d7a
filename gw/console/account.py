"""Accounts: all of them, and one with its balance, its spending as plots, and its limits."""

from __future__ import annotations

import csv
import io
from collections.abc import AsyncIterator, Sequence
from datetime import date, datetime, timedelta
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from actors.store.queries import load
from actors.wallet.money import format_usd
from gw.accounts import Account
from gw.admin import accounts as handled
from gw.admin import values
from gw.admin.refusals import Invalid
from gw.api.logs.list_query import (
    Visibility,
    Window,
    midnight,
    of_microseconds,
    read_window,
    show,
    to_microseconds,
)
from gw.api.logs.summary import Sums, read_sums
from gw.console.pages import TEXTS, ConsoleHandler, change, in_force

# Plots as SVG, rendered by the server: spending by day and by model.
#
# The style sheet defines colours and type, by class; every bar has its figure as a title, and the
# page has the same figures as a table.

WIDTH, HEIGHT = 720, 160
BASE = 136  # above the dates
GAP = 2
MODELS_MAX = 8
ROW = 28


def usd_text(nano_usd: int) -> str:
    """Return an amount in full."""
    whole, fraction = divmod(abs(nano_usd), 1_000_000_000)
    sign = "−" if nano_usd < 0 else ""
    return f"{sign}{whole:,}.{f'{fraction:09d}'.rstrip('0').ljust(2, '0')} USD"


def days_plot(days: Sequence[Sums], first: date, last: date, label: str) -> str:
    """Return a bar for each day from `first` to `last`, with days without calls."""
    costs = {one.name: one.cost_nano_usd for one in days}
    count = (last - first).days + 1
    names = [(first + timedelta(days=step)).isoformat() for step in range(count)]
    most = max([costs.get(name, 0) for name in names] + [1])
    width = WIDTH / count
    bars = []
    for index, name in enumerate(names):
        cost = costs.get(name, 0)
        height = max(cost / most * (BASE - 8), 1.5 if cost > 0 else 0)
        bars.append(
            f'<rect x="{index * width + GAP / 2:.1f}" y="{BASE - height:.1f}"'
            f' width="{width - GAP:.1f}" height="{height:.1f}" rx="2" class="bar">'
            f"<title>{name}: {usd_text(cost)}</title></rect>"
        )
    marks = "".join(
        f'<text x="{x}" y="{HEIGHT - 6}" text-anchor="{anchor}" class="mark">{name}</text>'
        for x, anchor, name in ((0, "start", names[0]), (WIDTH, "end", names[-1]))
    )
    line = f'<line x1="0" y1="{BASE}" x2="{WIDTH}" y2="{BASE}" class="axis"/>'
    return _svg(HEIGHT, label, line + "".join(bars) + marks)


def models_plot(models: Sequence[Sums], label: str) -> str:
    """Return a bar for each of the models of the highest cost."""
    shown = sorted(models, key=lambda one: (-one.cost_nano_usd, one.name))[:MODELS_MAX]
    most = max([one.cost_nano_usd for one in shown] + [1])
    rows = []
    for index, one in enumerate(shown):
        y = index * ROW
        width = max(one.cost_nano_usd / most * (WIDTH - 420), 1)
        name = one.name if len(one.name) <= 28 else one.name[:27] + "…"
        rows.append(
            f'<text x="0" y="{y + 19}" class="name">{escape(name)}'
            f"<title>{escape(one.name)}</title></text>"
            f'<rect x="230" y="{y + 6}" width="{width:.1f}" height="18" rx="2" class="bar"/>'
            f'<text x="{238 + width:.1f}" y="{y + 19}" class="mark">'
            f"{usd_text(one.cost_nano_usd)}</text>"
        )
    return _svg(max(len(shown), 1) * ROW, label, "".join(rows))


def _svg(height: int, label: str, body: str) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label={quoteattr(label)}'
        f' class="plot">{body}</svg>'
    )


SQL = load("gw.console", "account.sql")
PAGE = 50
DAYS = 30
# The lines of a portion of a statement, which is written in portions.
PORTION = 1000
CREDITS_SHOWN = 20
SPENDERS_SHOWN = 20
# Conversations are no column of the log: their sums are computed from this many rows.
CONVERSATION_CALLS = 5000


class AccountsHandler(ConsoleHandler):
    """Every account, newest first."""

    for_operators = True

    async def get(self) -> None:
        after = read_cursor(self.parameters.text("after"))
        search = self.parameters.text("q")
        params = {
            "after_at": after and after[0],
            "after_id": after and after[1],
            "limit": PAGE + 1,
            "search": search and f"%{escaped(search)}%",
        }
        found = await self.services.database.fetch_all(SQL["accounts"], params)
        rows = [Account(*row) for row in found]
        more = rows[PAGE - 1] if len(rows) > PAGE else None
        self.page(
            "accounts.html",
            accounts=rows[:PAGE],
            search=search or "",
            after=write_cursor(more.created_at, more.id) if more else None,
        )

    async def post(self) -> None:
        name, credit = self.field("name"), self.field("credit")
        async with change(self) as (transaction, actor):
            made = await handled.create(
                transaction,
                actor,
                values.label(name),
                credit_nano_usd=values.usd_or_more(credit) if credit else 0,
            )
        self.redirect(f"/accounts/{made.id}", status=303)


class AccountHandler(ConsoleHandler):
    """One account: balance, spending, credits, limits."""

    async def get(self, account_id: str) -> None:
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

    async def post(self, account_id: str) -> None:
        """Apply an operator's change: credit, correction, limits, whether the keys are enabled."""
        if not self.who.is_operator:
            self.refuse(404, "error.not_found")
        await self.account(account_id)
        act = self.field("act")
        async with change(self) as (transaction, actor):
            if act == "topup":
                await handled.top_up(
                    transaction, actor, account_id, values.usd(self.field("amount"))
                )
            elif act == "correct":
                amount = values.usd(self.field("amount"))
                reason = self.field("reason")
                await handled.correct(transaction, actor, account_id, amount, reason=reason)
            elif act == "limits":
                await handled.change(
                    transaction,
                    actor,
                    account_id,
                    {
                        "rpm_limit": limit(self.field("rpm")),
                        "concurrency_limit": limit(self.field("concurrency")),
                    },
                )
            elif act in ("enable", "disable"):
                await handled.change(transaction, actor, account_id, {"enabled": act == "enable"})
            else:
                self.refuse(400, "error.request")
        await in_force(self)
        self.redirect(f"/accounts/{account_id}", status=303)


class StatementHandler(ConsoleHandler):
    """The credits, corrections and charges of an account as CSV: every line once, oldest first."""

    async def get(self, account_id: str) -> None:
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
                (show(at), kind, reference, model, key, format_usd(int(nano)))
                for at, _, _, kind, reference, model, key, nano in rows
            ]
            if len(rows) < PORTION:
                return
            after = rows[-1][:3]


def limit(text: str) -> int | None:
    """Return a limit of a form; None if empty. Raises Invalid."""
    if not text:
        return None
    is_number = text.isascii() and text.isdigit() and len(text) <= 10
    if not is_number or not 1 <= int(text) <= values.COUNT_MAX:
        raise Invalid(TEXTS("error.number", text=text[:40]))
    return int(text)


def escaped(text: str) -> str:
    """Escape a text for LIKE."""
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


# Cursors of lists by age: the last row's instant and id. Permissions are checked for each page.


def write_cursor(at: datetime, row_id: str | int) -> str:
    """Return the cursor of the next page."""
    return f"{to_microseconds(at)}.{row_id}"


def read_cursor(text: str | None) -> tuple[datetime, str] | None:
    """Return the position of a cursor; None for the beginning, and for an invalid one."""
    at, dot, row_id = (text or "").partition(".")
    if not dot or not (at.isascii() and at.isdigit() and len(at) <= 17):
        return None
    try:
        return of_microseconds(int(at)), row_id
    except OverflowError:
        return None


def start_csv(handler: ConsoleHandler, name: str) -> None:
    """Begin a CSV file."""
    handler.set_header("Content-Type", "text/csv; charset=utf-8")
    handler.set_header("Content-Disposition", f'attachment; filename="{name}"')


async def write_csv(
    handler: ConsoleHandler, head: Sequence[str] | None, rows: Sequence[Sequence[Any]]
) -> None:
    """Write some lines; a cell that a spreadsheet would read as a formula becomes a text."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\r\n")
    if head is not None:
        writer.writerow(head)
    writer.writerows([[_cell(value) for value in row] for row in rows])
    handler.write(buffer.getvalue())
    await handler.flush()


def _cell(value: Any) -> str:
    text = "" if value is None else str(value)
    is_formula = text[:1] in ("=", "+", "@", "\t", "\r") or (
        text[:1] == "-" and not text[1:].replace(".", "", 1).isdigit()
    )
    return f"'{text}" if is_formula else text
