"""`GET /v1/logs`, `/v1/logs/summary` and `/v1/logs/{id}` (reference 6.1).

Free at any balance and outside the account's limits (reference 6.1), but at a rate of the key's own
(`LogRateCheck`); a use of the key.

The handlers wait for pending writes of every process, so that a client finds the row of a call that
it has seen end.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal, NotRequired, TypedDict

from msgspec import Meta

from actors.clock import Clock
from gw.api.handler import ApiHandler
from gw.api.logs import detail, summary
from gw.api.logs.cursor import LogCursor, PagePosition
from gw.api.logs.grouping import key_ids
from gw.api.logs.list_query import LogListQuery, read_list_query
from gw.api.logs.pages import read_in_flight, read_page
from gw.api.logs.record import find, read_ref
from gw.api.logs.rows import CURRENCY, LogRow, Rendering, ShownJob, ShownRow
from gw.api.logs.visibility import Scope, Visibility, of_scope, widest
from gw.api.services import LogServices, until_settled
from gw.error_bodies import dumps
from gw.errors import LOG_NOT_FOUND, PERMISSION_DENIED, GatewayError
from gw.instants import format_instant


class LogPage(TypedDict):
    """A page of the calls that the key may see."""

    object: Annotated[Literal["list"], Meta(description="Always `list`.")]
    currency: Annotated[str, Meta(description="Of `cost`: `points`, which are credits.")]
    scope: Annotated[str, Meta(description="Whose calls these are: of the key or the account.")]
    period_from: Annotated[
        str, Meta(description="The window's begin.", extra_json_schema={"format": "date-time"})
    ]
    period_to: Annotated[
        str,
        Meta(
            description="The window's end, which it excludes.",
            extra_json_schema={"format": "date-time"},
        ),
    ]
    data: Annotated[list[ShownRow], Meta(description="The calls, in the order requested.")]
    has_more: Annotated[bool, Meta(description="Whether there is another page.")]
    next_cursor: Annotated[
        str | None, Meta(description="The `cursor` of the next page, null on the last.")
    ]
    in_flight: NotRequired[
        Annotated[
            list[ShownJob],
            Meta(description="Tasks under way, on the first page with `include=in_flight`."),
        ]
    ]


class LogDetail(TypedDict):
    """One call in detail, as lists of facts, any of which may be empty."""

    id: Annotated[int, Meta(description="The row's number.")]
    kind: Annotated[
        str | None,
        Meta(description="`video`, `image`, `music` or `audio`; null for chat and retrieval."),
    ]
    request: Annotated[list[detail.Pair], Meta(description="The request's parameters.")]
    upstream: Annotated[list[detail.Pair], Meta(description="What the upstream stated.")]
    gateway: Annotated[
        list[detail.Pair], Meta(description="What the gateway decided and computed.")
    ]
    request_note: Annotated[str | None, Meta(description="Why there are no parameters, or null.")]


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
            end_users=self.services.end_users.key,
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

    def _page(self, query: LogListQuery, found: list[LogRow], rendering: Rendering) -> LogPage:
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
        question = (query.visibility, query.asked, *((query.by,) if query.by else ()))
        self.write(
            await self.logs.summaries.get_summary(question, lambda: self._summary(query, now))
        )

    async def _summary(self, query: summary.SummaryQuery, now: datetime) -> bytes:
        logs = self.logs
        await until_settled(self.services, query.visibility.account_id)
        sums = await summary.read_sums(logs.database, query.visibility, query.window, now, query.by)
        names = await summary.names_of_keys(logs.database, key_ids(query.by, sums["group"]))
        return dumps(summary.show_summary(query, sums, logs.credits_per_usd, names))


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
        body: LogDetail = {
            "id": record.id,
            "kind": detail.kind_of(record),
            "request": request,
            "upstream": detail.upstream_pairs(record, self.services.current.redact),
            "gateway": detail.gateway_pairs(
                record, self.services.current.redact, logs.credits_per_usd
            ),
            "request_note": note,
        }
        self.write(dumps(body))
