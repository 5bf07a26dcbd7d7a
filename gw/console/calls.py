"""The call log as pages: a list with every filter of the API, one call with its receipt, CSV."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from actors.wallet import receipt
from actors.wallet.money import format_usd
from gw.api.logs import detail
from gw.api.logs.cursor import LogCursor, PagePosition
from gw.api.logs.filters import ATTRIBUTED, LABEL, STATUSES, TOKEN_BILLED, UNIT_TYPES
from gw.api.logs.list_query import LogListQuery, read_list_query
from gw.api.logs.pages import read_in_flight, read_page
from gw.api.logs.record import CallRecord, find_ref, read_ref
from gw.api.logs.rows import InFlightJob, LogRow
from gw.api.logs.visibility import Scope, Visibility
from gw.console.csv_file import PORTION, start_csv, write_csv
from gw.console.pages import ConsoleHandler
from gw.console.texts import TEXTS
from gw.instants import format_instant
from gw.keys import store as keys
from gw.keys.key import KeyRecord

# Of a CSV file.
CSV_ROWS_MAX = 50_000
SETTLE_SECONDS = 2.0
# The parameters of the filter's form, and the periods that it offers.
FILTERS = (
    *("status", "unit_type", "model", "error_code", "key_id", "ref"),
    *ATTRIBUTED,
    *("period", "from", "to"),
)
CSV_COLUMNS = (
    "id",
    "created_at",
    "submitted_at",
    "trace_id",
    "key_id",
    "key_name",
    "model",
    "status",
    "error_code",
    "error_message",
    "input_tokens",
    "cached_tokens",
    "output_tokens",
    "unit_count",
    "unit_type",
    "cost_usd",
    "latency_ms",
    "task_id",
    *ATTRIBUTED,
    "labels",
)


class ListedHandler(ConsoleHandler):
    """The common parts of list and file: the filters of the API, over the whole account."""

    def read_query(self, account_id: str, **more: str) -> LogListQuery:
        """Parse the query. Raises 400 as the API does."""
        query = {name: list(values) for name, values in self.request.query_arguments.items()}
        query = {name: [one for one in values if one] for name, values in query.items()}
        query["scope"] = [b"account"]
        query.pop("csrf", None)
        for name, value in more.items():
            query[name] = [value.encode()]

        def see(scope: Scope) -> Visibility:
            return Visibility(scope, account_id, None)

        return read_list_query(
            query,
            see=see,
            seal=self.services.cursors,
            end_users=self.services.end_users,
            now=self.now,
        )


# Keys to choose from as a filter of calls.
KEYS_SHOWN = 200


class CallsHandler(ListedHandler):
    """A page of an account's calls, preceded by those in flight."""

    async def on_get(self, account_id: str) -> None:
        account = await self.account(account_id)
        query = self.read_query(account_id, include="in_flight")
        await self._settled(account_id)
        database = self.services.database
        jobs: Sequence[InFlightJob] = (
            await read_in_flight(database, query) if query.with_in_flight else ()
        )
        found = await read_page(database, query)
        rows = found[: query.limit]
        chosen = {name: self.parameters.text(name) or "" for name in self._filters()}
        self.page(
            "calls.html",
            account=account,
            rows=rows,
            jobs=jobs,
            keys=await self._keys(account_id, chosen["key_id"]),
            models=list(self.services.current.registry.models),
            statuses=STATUSES,
            unit_types=(*UNIT_TYPES, TOKEN_BILLED),
            chosen=chosen,
            is_filtered=any(chosen.values()),
            next_query=self._next(query, rows, has_more=len(found) > query.limit),
            file_query=urlencode({name: one for name, one in chosen.items() if one}),
            redact=self.services.current.redact,
        )

    def _filters(self) -> Sequence[str]:
        """Return the names of the filters: those of the form, and labels, of which it has none."""
        return *FILTERS, *self.parameters.beginning(LABEL)

    async def _keys(self, account_id: str, chosen: str) -> list[KeyRecord]:
        """Return the keys to choose from: the newest, and the one that is chosen."""
        found = await keys.list_newest(self.services.database, account_id, limit=KEYS_SHOWN)
        if chosen and all(one.id != chosen for one in found):
            with suppress(keys.UnknownKey):
                one = await keys.show(self.services.database, chosen)
                found += [one] if one.account_id == account_id else []
        return found

    def _next(self, query: LogListQuery, rows: Sequence[LogRow], *, has_more: bool) -> str | None:
        """Return the query of the next page; None on the last."""
        if not has_more:
            return None
        position = PagePosition(rows[-1].created_at, rows[-1].id)
        cursor = LogCursor(query.window, query.order, position)
        kept = {
            name: value
            for name in (*self._filters(), "order", "limit")
            if (value := self.parameters.text(name))
        }
        return urlencode({**kept, "cursor": self.services.cursors.write(cursor, query.visibility)})

    async def _settled(self, account_id: str) -> None:
        """Wait up to SETTLE_SECONDS for calls that have ended to be written."""
        try:
            async with asyncio.timeout(SETTLE_SECONDS):
                await self.services.settled(account_id)
        except TimeoutError:
            return


class CallsFileHandler(ListedHandler):
    """The same rows as CSV, at most CSV_ROWS_MAX."""

    async def on_get(self, account_id: str) -> None:
        account = await self.account(account_id)
        query = self.read_query(account_id, limit=str(PORTION))
        start_csv(self, f"calls-{account.id}.csv")
        await write_csv(self, CSV_COLUMNS, [])
        written = 0
        while written < CSV_ROWS_MAX:
            found = await read_page(self.services.database, query)
            rows = found[: query.limit]
            await write_csv(self, None, [self._line(row) for row in rows])
            written += len(rows)
            if len(found) <= query.limit:
                break
            query = replace(query, after=PagePosition(rows[-1].created_at, rows[-1].id))
        await self.finish()

    def _line(self, row: LogRow) -> Sequence[Any]:
        said = row.attribution or {}
        message = row.error_message and self.services.current.redact(row.error_message)
        return (
            row.id,
            format_instant(row.created_at),
            format_instant(row.submitted_at),
            UUID(row.request_id).hex,
            row.key_id,
            row.key_name,
            row.model,
            row.status,
            row.error_code,
            message,
            row.input_tokens,
            row.cached_tokens,
            row.output_tokens,
            row.unit_count,
            row.unit_type,
            format_usd(row.cost_nano_usd),
            row.latency_ms,
            row.task_id,
            *(said.get(name) for name in ATTRIBUTED),
            ", ".join(f"{key}={value}" for key, value in said.get("labels", {}).items()) or None,
        )


class CallSearchHandler(ConsoleHandler):
    """The search for a call by trace id or by the id of its row."""

    async def on_get(self) -> None:
        text = (self.parameters.text("q") or "").lower()
        record = await find_seen(self, text)
        if record is None:
            self.page("search.html", http_status=404, text=text)
            return
        self.redirect(f"/calls/{record.id}", status=303)


class CallHandler(ConsoleHandler):
    """One call with its attempts, price and error."""

    async def on_get(self, name: str) -> None:
        record = await find_seen(self, name)
        if record is None:
            self.refuse(404, "error.call")
        redact = self.services.current.redact
        request, note = detail.request_pairs(record)
        credits_per_usd = self.services.current.config.credits_per_usd
        self.page(
            "call.html",
            record=record,
            kind=detail.kind_of(record),
            timeline=timeline(record, redact, is_operator=self.who.is_operator),
            request=request,
            note=note,
            upstream=detail.upstream_pairs(record, redact),
            gateway=[
                pair
                for pair in detail.gateway_pairs(record, redact, credits_per_usd)
                if not pair["k"].startswith(("attempt_", "channel_"))
            ],
            receipt=receipt_of(record),
            dropped=record.detail.get("dropped", ()),
            error=record.error_message and redact(record.error_message),
        )


async def find_seen(handler: ConsoleHandler, text: str) -> CallRecord | None:
    """Return the call of this id or trace id, if the session may see it."""
    ref = read_ref(text.strip())
    if ref is None:
        return None
    database = handler.services.database
    account_id = handler.who.account_id
    record = await find_ref(database, ref)
    if record is None or account_id in (None, record.account_id):
        return record
    return None


def timeline(
    record: CallRecord, redact: Callable[[str], str], *, is_operator: bool
) -> list[dict[str, Any]]:
    """Return the attempts with start and width in permille of the call, then skipped channels."""
    begun = record.submitted_at.timestamp()
    whole_ms = max(record.latency_ms, 1)
    order = list(dict.fromkeys(one[0] for one in record.detail.get("order", ())))

    def name_of(channel: str) -> str:
        """Return the channel's id for an operator, its position for an owner."""
        if is_operator:
            return channel
        number = order.index(channel) + 1 if channel in order else "?"
        return TEXTS("call.channel", number=number)

    steps, models = [], record.detail.get("chain", ())  # of a chain, one for each attempt
    for number, (channel, at, ms, outcome) in enumerate(record.detail.get("tried", ())):
        # Clocks differ by milliseconds: an attempt of a short call may start after the call's end.
        width = min(max(ms / whole_ms, 0.004), 1.0)
        start = min(max((at - begun) * 1000 / whole_ms, 0.0), 1 - width)
        failed = record.attempts[number] if number < len(record.attempts) else None
        steps.append(
            {
                "name": " · ".join([name_of(channel), *models[number : number + 1]]),
                "x": round(start * 1000),
                "width": round(width * 1000),
                "ms": ms,
                "is_good": outcome == "ok",
                "outcome": detail.OUTCOMES.get(outcome, outcome),
                "error": failed and redact(f"{failed['error_code']}: {failed['error_message']}"),
            }
        )
    for channel, why in record.detail.get("passed_over", {}).items():
        steps.append({"name": name_of(channel), "passed_over": detail.PASSED_OVER.get(why, why)})
    return steps


def receipt_of(record: CallRecord) -> Mapping[str, Any] | None:
    """Return the receipt and whether it equals the cost; None without the price."""
    try:
        lines = record.lines
    except receipt.NoPrice:
        return None
    if any(line.count < 0 for line in lines):
        return None
    multiplier = receipt.multiplier_of(record.detail)
    computed = receipt.total_nano_usd(lines, multiplier)
    return {
        "lines": [
            {
                "name": TEXTS.get(f"receipt.{line.name}", line.name),
                "count": line.count,
                "usd": line.usd,
                "per": line.per,
                "nano_usd": receipt.total_nano_usd([line], "1"),
            }
            for line in lines
        ],
        "multiplier": multiplier,
        "formula": receipt.formula(lines, multiplier),
        "computed": computed,
        "agrees": computed == record.cost_nano_usd,
    }
