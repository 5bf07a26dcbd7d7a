"""`GET /v1/logs`, `/v1/logs/summary` and `/v1/logs/{id}` (spec: Call logs; Call log detail).

Free at any balance and outside the account's limits (contract §5), but at a rate of the key's own
(`LogRateCheck`); a use of the key.

The handlers wait for pending writes of every process, so that a client finds the row of a call that
it has seen end.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from actors.clock import Clock
from gw.api.handler import ApiHandler
from gw.api.logs import detail, summary
from gw.api.logs.cursor import LogCursor, PagePosition
from gw.api.logs.list_query import LogListQuery, read_list_query
from gw.api.logs.pages import read_in_flight, read_page
from gw.api.logs.record import find, read_ref
from gw.api.logs.rows import CURRENCY, LogRow, Rendering
from gw.api.logs.visibility import Scope, Visibility, of_scope, widest
from gw.api.services import LogServices, until_settled
from gw.error_bodies import dumps
from gw.errors import LOG_NOT_FOUND, PERMISSION_DENIED, GatewayError
from gw.instants import format_instant


class LogsHandler(ApiHandler):
    """One request to the call log."""

    @property
    def logs(self) -> LogServices:
        return self.services.logs

    def visibility(self, scope: Scope) -> Visibility:
        """Return the visibility of the key in this scope. Raises 403 if it has none."""
        visibility = of_scope(self.principal, scope)
        if visibility is None:
            raise GatewayError(
                PERMISSION_DENIED,
                "This key may read its own calls only (`scope=key`). A console key reads the whole"
                " account's when its account-wide log access is switched on.",
            )
        return visibility


class LogListHandler(LogsHandler):
    """A page of the calls visible to the key."""

    async def on_get(self) -> None:
        logs = self.logs
        query = read_list_query(
            self.request.query_arguments,
            see=self.visibility,
            seal=logs.cursors,
            now=_now(self.services.clock),
        )
        await until_settled(self.services, query.visibility.account_id)
        # Jobs first: a job settled in between is shown twice instead of not at all.
        jobs = await read_in_flight(logs.database, query) if query.with_in_flight else None
        found = await read_page(logs.database, query)
        rendering = Rendering(
            credits_per_usd=logs.credits_per_usd, redact=self.services.current.redact
        )
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
            cursor = LogCursor(query.window, query.order, last)
            next_cursor = self.logs.cursors.write(cursor, query.visibility)
        return {
            "object": "list",
            "currency": CURRENCY,
            "scope": query.visibility.scope,
            "period_from": format_instant(query.window.start),
            "period_to": format_instant(query.window.end),
            "data": [rendering.row(row, with_attempts=query.with_attempts) for row in rows],
            "has_more": has_more,
            "next_cursor": next_cursor,
        }


class SummaryHandler(LogsHandler):
    """The sums of the calls in a window; cached for the rest of the minute."""

    async def on_get(self) -> None:
        now = _now(self.services.clock)
        query = summary.read_summary_query(
            self.request.query_arguments, see=self.visibility, now=now
        )
        question = (query.visibility, query.asked)
        self.write(
            await self.logs.summaries.get_summary(question, lambda: self._summary(query, now))
        )

    async def _summary(self, query: summary.SummaryQuery, now: datetime) -> bytes:
        logs = self.logs
        await until_settled(self.services, query.visibility.account_id)
        sums = await summary.read_sums(logs.database, query.visibility, query.window, now)
        return dumps(summary.show_summary(query, sums, logs.credits_per_usd))


def _now(clock: Clock) -> datetime:
    return datetime.fromtimestamp(clock.now(), UTC)


class LogDetailHandler(LogsHandler):
    """A row invisible to the key is a 404, like a missing one."""

    def unknown_path(self) -> GatewayError:
        return GatewayError(LOG_NOT_FOUND, "There is no call of this id that this key may see.")

    async def on_get(self, name: str) -> None:
        logs = self.logs
        ref = read_ref(name)
        record = None
        if isinstance(ref, int):
            record = await find(logs.database, ref, widest(self.principal))
        if record is None:
            raise self.unknown_path()
        request, note = detail.request_pairs(record)
        self.write(
            dumps(
                {
                    "id": record.id,
                    "kind": detail.kind_of(record),
                    "request": request,
                    "upstream": detail.upstream_pairs(record, self.services.current.redact),
                    "gateway": detail.gateway_pairs(
                        record, self.services.current.redact, logs.credits_per_usd
                    ),
                    "request_note": note,
                }
            )
        )
