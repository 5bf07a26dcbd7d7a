"""A row of the call log as stored and as shown (reference 6.2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any, Literal, NotRequired, TypedDict, cast
from uuid import UUID

import msgspec
from msgspec import Meta

from actors.wallet.money import format_credits, format_usd
from gw.api.logs.filters import STATUSES, UNIT_TYPES
from gw.instants import format_instant

CURRENCY = "points"  # the public name of credits


@dataclass(frozen=True, slots=True)
class LogRow:
    """One row, its members in the order of the columns of the view `call_log_rows`."""

    id: int
    created_at: datetime
    submitted_at: datetime
    account_id: str
    key_id: str
    key_name: str | None
    key_prefix: str | None
    request_id: str
    model: str
    status: str
    error_code: str | None
    error_message: str | None
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    unit_count: int | None
    unit_type: str | None
    cost_nano_usd: int
    latency_ms: int
    task_id: str | None
    result_urls: Sequence[str] | None
    result_expires_at: datetime | None
    attempts: Sequence[Mapping[str, Any]] | None
    attribution: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class InFlightJob:
    """An async job that has not settled, its members in the order of the query `in_flight`."""

    task_id: str
    request_id: str
    submitted_at: datetime
    key_id: str
    key_name: str | None
    key_prefix: str | None
    model: str | None
    hold_nano_usd: int
    attribution: Mapping[str, Any] | None = None


def row_of_event(data: Mapping[str, Any]) -> LogRow:
    """Return the row of an event's data, whose members are columns; what it lacks is null."""
    return msgspec.convert({**_NO_ROW, **data}, LogRow)


_NO_ROW = dict.fromkeys(one.name for one in fields(LogRow))
_At: dict[str, Any] = {"format": "date-time"}
_KeyId = Annotated[str, Meta(description="The key of the call.")]
_KeyName = Annotated[str | None, Meta(description="The key's name.")]
_KeyPrefix = Annotated[str | None, Meta(description="The beginning of the key.")]
_SubmittedAt = Annotated[
    str, Meta(description="When the request reached the gateway.", extra_json_schema=_At)
]
_RequestId = Annotated[
    str, Meta(description="The `x-gateway-trace` of the response to the request.")
]
_ErrorCode = Annotated[str | None, Meta(description="The error, for programs; null without one.")]
_ErrorMessage = Annotated[
    str | None, Meta(description="The error, for people, without hosts and keys.")
]


class ShownAttempt(TypedDict):
    """A try on a channel that failed, after which another one was tried."""

    seq: Annotated[int, Meta(description="The number of the try, from 1 on.")]
    created_at: Annotated[str, Meta(description="When it began.", extra_json_schema=_At)]
    latency_ms: Annotated[int, Meta(description="How long it took, in milliseconds.")]
    error_code: _ErrorCode
    error_message: _ErrorMessage


class Attributed(TypedDict):
    """For whom a call was made; what its client did not say is missing."""

    end_user: NotRequired[Annotated[str, Meta(description="The end user: a name, or its digest.")]]
    session: NotRequired[
        Annotated[str, Meta(description="The conversation that the client named: 16 hex digits.")]
    ]
    run: NotRequired[Annotated[str, Meta(description="The run that the call belongs to.")]]
    labels: NotRequired[Annotated[dict[str, str], Meta(description="The labels of the call.")]]


class ShownRow(Attributed):
    """One call, written once when it has ended."""

    object: Annotated[Literal["log"], Meta(description="Always `log`.")]
    id: Annotated[int, Meta(description="The row's number, unique and never used again.")]
    created_at: Annotated[
        str, Meta(description="When the call ended; of a task its end.", extra_json_schema=_At)
    ]
    submitted_at: _SubmittedAt
    key_id: _KeyId
    key_name: _KeyName
    key_prefix: _KeyPrefix
    model: Annotated[str, Meta(description="The model's id; of a refused call as it was named.")]
    status: Annotated[
        str,
        Meta(
            description="`interrupted`: the client left, or the time ran out; `rejected`: refused"
            " before anything was made, at no cost.",
            extra_json_schema={"enum": list(STATUSES)},
        ),
    ]
    error_code: _ErrorCode
    error_message: _ErrorMessage
    input_tokens: Annotated[int, Meta(description="Tokens of the input, cached ones included.")]
    output_tokens: Annotated[int, Meta(description="Tokens of the output.")]
    cached_tokens: Annotated[int, Meta(description="The cached part of the input.")]
    unit_count: Annotated[
        int | None, Meta(description="How many units were billed; null: billed by tokens.")
    ]
    unit_type: Annotated[
        str | None,
        Meta(
            description="The unit of the price; null: billed by tokens.",
            extra_json_schema={"enum": [*UNIT_TYPES, None]},
        ),
    ]
    cost: Annotated[str, Meta(description="Credits charged, a decimal string.")]
    latency_ms: Annotated[int, Meta(description="From the request to its end, in milliseconds.")]
    request_id: _RequestId
    task_id: Annotated[str | None, Meta(description="The id that the submission returned.")]
    result_urls: Annotated[list[str], Meta(description="Links to the results.")]
    result_expires_at: Annotated[
        str | None, Meta(description="When these links expire.", extra_json_schema=_At)
    ]
    attempts_count: Annotated[
        int | None, Meta(description="The number of `attempts`; null if they were not requested.")
    ]
    attempts: NotRequired[
        Annotated[list[ShownAttempt], Meta(description="Failed tries, with `include=attempts`.")]
    ]


class ShownJob(Attributed):
    """A task that has not ended, and so has no row yet."""

    object: Annotated[Literal["log.in_flight"], Meta(description="Always `log.in_flight`.")]
    task_id: Annotated[str, Meta(description="The id that the submission returned.")]
    request_id: _RequestId
    submitted_at: _SubmittedAt
    key_id: _KeyId
    key_name: _KeyName
    key_prefix: _KeyPrefix
    model: Annotated[str | None, Meta(description="The model's id.")]
    held: Annotated[str, Meta(description="Credits held for it, a decimal string.")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendering:
    """How rows are shown: costs in credits, messages redacted once more."""

    credits_per_usd: Decimal
    redact: Callable[[str], str]

    def row(self, row: LogRow, *, with_attempts: bool) -> ShownRow:
        """Return one row; `attempts` and their count only on request.

        The row's `detail` is never shown here, because it names channels.
        """
        attempts = row.attempts or ()
        shown: ShownRow = {
            "object": "log",
            "id": row.id,
            "created_at": format_instant(row.created_at),
            "submitted_at": format_instant(row.submitted_at),
            "key_id": row.key_id,
            "key_name": row.key_name,
            "key_prefix": row.key_prefix,
            "model": row.model,
            "status": row.status,
            "error_code": row.error_code,
            "error_message": self._message(row.error_message),
            "input_tokens": row.input_tokens,
            "output_tokens": row.output_tokens,
            "cached_tokens": row.cached_tokens,
            "unit_count": row.unit_count,
            "unit_type": row.unit_type,
            "cost": format_credits(row.cost_nano_usd, self.credits_per_usd),
            "latency_ms": row.latency_ms,
            "request_id": UUID(row.request_id).hex,
            "task_id": row.task_id,
            "result_urls": list(row.result_urls or ()),
            "result_expires_at": format_instant(row.result_expires_at)
            if row.result_expires_at
            else None,
            "attempts_count": len(attempts) if with_attempts else None,
        }
        if with_attempts:
            shown["attempts"] = [self._attempt(attempt) for attempt in attempts]
        if row.attribution is not None:
            shown.update(cast(Any, row.attribution))
        return shown

    def settled(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """Return a row that an event has, as it was written, with its cost in USD."""
        row = row_of_event(data)
        shown = self.row(row, with_attempts=True)
        return {**shown, "cost_usd": format_usd(row.cost_nano_usd)}

    def job(self, job: InFlightJob) -> ShownJob:
        """Return one job under way: the facts known before its row exists, and its hold."""
        shown: ShownJob = {
            "object": "log.in_flight",
            "task_id": job.task_id,
            "request_id": UUID(job.request_id).hex,
            "submitted_at": format_instant(job.submitted_at),
            "key_id": job.key_id,
            "key_name": job.key_name,
            "key_prefix": job.key_prefix,
            "model": job.model,
            "held": format_credits(job.hold_nano_usd, self.credits_per_usd),
        }
        if job.attribution is not None:
            shown.update(cast(Any, job.attribution))
        return shown

    def _attempt(self, attempt: Mapping[str, Any]) -> ShownAttempt:
        return {
            "seq": attempt["seq"],
            "created_at": format_instant(datetime.fromtimestamp(attempt["created_at"], UTC)),
            "latency_ms": attempt["latency_ms"],
            "error_code": attempt["error_code"],
            "error_message": self._message(attempt["error_message"]),
        }

    def _message(self, message: str | None) -> str | None:
        return None if message is None else self.redact(message)
