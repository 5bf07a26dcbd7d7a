"""`GET /v1/logs` and `GET /v1/logs/summary` (spec: Call logs).

A client that has seen a call end finds its row: what any process has still to write of the account
is waited for first.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from actors.clock import Clock
from gw.api.logs.cursor import Cursor, PagePosition
from gw.api.logs.handler import LogsHandler
from gw.api.logs.list_query import LogListQuery, read_list_query
from gw.api.logs.pages import read_in_flight, read_page
from gw.api.logs.rows import CURRENCY, LogRow, Rendering
from gw.api.logs.summary import SummaryQuery, read_summary_query, read_sums, show_summary
from gw.api.logs.timestamps import show
from gw.api.services import until_settled
from gw.errors.render import dumps


class LogListHandler(LogsHandler):
    """A page of the calls that the key may see."""

    route = "logs"

    async def on_get(self) -> None:
        logs = self.logs
        query = read_list_query(
            self.request.query_arguments,
            see=self.visibility,
            seal=logs.cursors,
            now=_now(self.services.clock),
        )
        await until_settled(self.services, query.visibility.account_id)
        # Jobs first: one that settles in between is shown twice rather than not at all.
        jobs = await read_in_flight(logs.database, query) if query.with_in_flight else None
        found = await read_page(logs.database, query)
        rendering = Rendering(credits_per_usd=logs.credits_per_usd, redact=logs.redact)
        body = self._page(query, found, rendering)
        if jobs is not None:
            body["in_flight"] = [rendering.job(job) for job in jobs]
        self.write(dumps(body))

    def _page(
        self, query: LogListQuery, found: list[LogRow], rendering: Rendering
    ) -> dict[str, Any]:
        rows, has_more = found[: query.limit], len(found) > query.limit
        next_cursor = None
        if has_more:
            last = PagePosition(rows[-1].created_at, rows[-1].id)
            cursor = Cursor(query.window, query.order, last)
            next_cursor = self.logs.cursors.write(cursor, query.visibility)
        return {
            "object": "list",
            "currency": CURRENCY,
            "scope": query.visibility.scope,
            "period_from": show(query.window.start),
            "period_to": show(query.window.end),
            "data": [rendering.row(row, with_attempts=query.with_attempts) for row in rows],
            "has_more": has_more,
            "next_cursor": next_cursor,
        }


class SummaryHandler(LogsHandler):
    """What the calls of a window add up to; the same response for the rest of the minute."""

    route = "logs_summary"

    async def on_get(self) -> None:
        now = _now(self.services.clock)
        query = read_summary_query(self.request.query_arguments, see=self.visibility, now=now)
        question = (query.visibility, query.asked)
        self.write(await self.logs.summaries.get(question, lambda: self._summary(query, now)))

    async def _summary(self, query: SummaryQuery, now: datetime) -> bytes:
        logs = self.logs
        await until_settled(self.services, query.visibility.account_id)
        sums = await read_sums(logs.database, query.visibility, query.window, now)
        return dumps(show_summary(query, sums, logs.credits_per_usd))


def _now(clock: Clock) -> datetime:
    return datetime.fromtimestamp(clock.now(), UTC)
