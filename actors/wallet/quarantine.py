"""The quarantine: settlements that the ledger refuses for what they say, kept until booked.

A call that ended has to be charged, whatever the database says of one text in its row. What it
refuses for good is stored in the table `quarantine`, which takes any bytes, and in a file under
`data_dir/quarantine` where even that is refused; files move to the table as soon as it takes them.
The hold of the call stays, and its job rests: it is not polled again, because a later end, such as
that of a film which its upstream has deleted, could be booked in place of the one that was refused.
Its idempotency key ends with it and not when it is booked: the client, which has its answer, would
be charged for another one when it tries again.
`gw ledger verify` names what is not booked, and `gw ledger quarantine --book` books it: as it is,
if the database takes it now, or shortened to what the cost depends on.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from actors.store.connection import Executor
from actors.store.database import Database
from actors.store.errors import ContentRefused, DatabaseRefused, StoreUnavailable
from actors.store.queries import load
from actors.store.session import Session
from actors.wallet import messages
from actors.wallet.batch import Batch, apply
from actors.wallet.claims import end_to_json
from actors.wallet.flight_recorder.recorder import PRICED_BY
from actors.wallet.rows import encode_settlement
from actors.wallet.storable import clean_json, encode_json, to_json

SQL = load("actors.wallet", "quarantine.sql")
FOLDER, SUFFIX = "quarantine", ".json"
# What books it, in the place of a process; no process has this id, nor a lease under it.
BOOKER, OF_NOBODY = "quarantine", "quarantined"
ERROR_CHARACTERS_MAX = 500
# Error code of a row and a job that are booked without their texts.
SHORTENED_CODE = "quarantined"
# The range of the column of units.
UNITS_MAX = 2**31 - 1
# Limit of files per round; the rest waits for the next one.
FILES_AT_ONCE = 64

How = Literal["whole", "shortened", "settled_before"]


class UnknownQuarantined(Exception):
    """No message of this call is in the quarantine."""


class Quarantined(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A refused message: the settlement of a call, or the row of one without a hold (`is_row`).

    `held` is the hold that had not been written by then, in nano-USD, `budgets` its nodes. `job` is
    how its job ends, `claim_end` how its idempotency key does: without its response, which the
    writer has left out by then.
    """

    facts: messages.CallFacts
    outcome: messages.Outcome
    error: str
    is_row: bool = False
    is_recovery: bool = False
    held: int | None = None
    job: Mapping[str, Any] | None = None
    budgets: tuple[messages.HeldNode, ...] = ()
    claim_end: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, message: messages.Settle | messages.Record, error: str) -> Quarantined:
        """Return what is kept of a message; a settlement must have its outcome."""
        outcome = message.outcome
        assert outcome is not None
        kept = cls(facts=message.facts, outcome=outcome, error=error[:ERROR_CHARACTERS_MAX])
        if isinstance(message, messages.Record):
            return replace(kept, is_row=True)
        admitted, job, claim_end = message.admitted, message.job, message.claim_end
        return replace(
            kept,
            is_recovery=message.is_recovery,
            held=None if admitted is None else admitted.hold.amount_nano_usd,
            job=None if job is None else msgspec.json.decode(job),
            budgets=() if admitted is None else admitted.budgets,
            claim_end=None if claim_end is None else end_to_json(claim_end),
        )

    def batch(self, *, is_short: bool) -> Batch:
        """Return the batch that books it."""
        outcome = _shortened(self.outcome) if is_short else self.outcome
        if self.is_row:
            return Batch(records=[messages.Record(facts=self.facts, outcome=outcome)])
        # Counts where the ledger knows neither a hold nor the end of the call.
        hold = messages.Hold(facts=self.facts, amount_nano_usd=self.held or 0)
        admitted = messages.Admitted(hold, OF_NOBODY, 0.0, None, self.budgets)
        settle = encode_settlement(self.facts, outcome, admitted, is_recovery=self.is_recovery)
        if self.job is None:
            return Batch(settlements=[settle])
        ended = _shortened_end(self.job) if is_short else self.job
        return Batch(settlements=[replace(settle, job=encode_json(ended))])


def _shortened_end(job: Mapping[str, Any]) -> Mapping[str, Any]:
    """Keep how a job ended, and its result, without the texts of an error."""
    if job.get("error_code") is None:
        return job
    return {**job, "error_code": SHORTENED_CODE, "error_message": None}


def _shortened(outcome: messages.Outcome) -> messages.Outcome:
    """Keep the money, the counts within their columns and what the cost depends on, and no text."""
    detail = outcome.detail
    if isinstance(detail, Raw):
        detail = msgspec.json.decode(detail)
    return replace(
        outcome,
        units=min(outcome.units, UNITS_MAX),
        error_code=None if outcome.error_code is None else SHORTENED_CODE,
        error_message=None,
        attempts=(),
        result_urls=(),
        result_expires_at=None,
        detail=None
        if detail is None
        else {name: value for name, value in detail.items() if name in PRICED_BY},
    )


def encode(kept: Quarantined) -> bytes:
    """Encode a message, whatever its texts are."""
    try:
        return msgspec.json.encode(kept)
    except (UnicodeEncodeError, OverflowError):  # a lone surrogate; an integer beyond 64 bits
        return encode_json(clean_json(msgspec.to_builtins(kept, enc_hook=msgspec.json.decode)))


def decode(message: bytes) -> Quarantined:
    """Decode a message. Raises msgspec.DecodeError."""
    return msgspec.json.decode(message, type=Quarantined)


async def keep(store: Executor, kept: Quarantined, folder: Path | None) -> None:
    """Keep a message durably: in the table, or in a file under `folder`.

    Raises StoreUnavailable when it could be stored nowhere: try again.
    """
    message = encode(kept)
    try:
        await _insert(store, kept, message)
    except (ContentRefused, DatabaseRefused) as error:
        if folder is None:
            raise StoreUnavailable(f"the quarantine refuses a message: {error}") from error
        try:
            await asyncio.to_thread(_write, folder / FOLDER, kept.facts.call_id, message)
        except OSError as fault:
            raise StoreUnavailable(f"no file for a quarantined message: {fault}") from fault
        if kept.facts.job_id is not None:
            try:
                await store.fetch_all(SQL["rest"], (kept.facts.job_id,))
            except ContentRefused as fault:
                raise StoreUnavailable(f"the poll of a job cannot be deleted: {fault}") from fault


async def adopt(store: Executor, folder: Path) -> int:
    """Move files to the table where it takes them; return how many are left. Raises StoreError."""
    left = 0
    for path, message in await asyncio.to_thread(_read, folder / FOLDER):
        try:
            await _insert(store, decode(message), message)
        except (ContentRefused, DatabaseRefused, msgspec.DecodeError):
            left += 1
        else:
            await asyncio.to_thread(path.unlink, missing_ok=True)
    return left


async def _insert(store: Executor, kept: Quarantined, message: bytes) -> None:
    call_id, ended = kept.facts.call_id, kept.claim_end
    row = {
        "call": str(call_id),
        "job": kept.facts.job_id,
        "account": kept.facts.account_id,
        "key": kept.facts.key_id,
        "cost": kept.outcome.cost_nano_usd,
        "is_recovery": kept.is_recovery,
        "error": kept.error,
        "message": message,
        "ended": None if ended is None else to_json([{"call_id": call_id.hex, **ended}]),
    }
    await store.fetch_all(SQL["keep"], row)


def _write(folder: Path, call_id: UUID, message: bytes) -> None:
    """Write a file that is whole, and on the disk, or not there."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / (call_id.hex + SUFFIX)
    beside = path.with_suffix(".new")
    with beside.open("wb") as file:
        file.write(message)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read(folder: Path) -> list[tuple[Path, bytes]]:
    with suppress(OSError):
        paths = sorted(folder.glob("*" + SUFFIX))[:FILES_AT_ONCE]
        return [(path, path.read_bytes()) for path in paths]
    return []


class Waiting(Struct, frozen=True):
    """A message that is not booked."""

    call_id: str
    account_id: str
    key_id: str
    cost_nano_usd: int
    error: str
    quarantined_at: datetime


async def waiting(store: Executor) -> list[Waiting]:
    """Return what is not booked, oldest first. Raises StoreError."""
    return [Waiting(*row) for row in await store.fetch_all(SQL["listed"])]


async def book(
    database: Database,
    call_id: UUID,
    *,
    by: str,
    also: Callable[[Session, How], Awaitable[Any]],
) -> How:
    """Book a message, and do `also` in the same transaction; again, it changes nothing.

    A call that has been settled otherwise meanwhile stays as it is, unless recovery did that.
    Raises UnknownQuarantined; ContentRefused when the ledger refuses even what is short.
    """
    try:
        return await _book(database, call_id, by, also, is_short=False)
    except ContentRefused:
        return await _book(database, call_id, by, also, is_short=True)


async def _book(
    database: Database,
    call_id: UUID,
    by: str,
    also: Callable[[Session, How], Awaitable[Any]],
    *,
    is_short: bool,
) -> How:
    async with database.transaction() as session:
        row = await session.fetch_one(SQL["take"], (str(call_id),))
        if row is None:
            raise UnknownQuarantined(call_id.hex)
        message, booked_as = row
        if booked_as is not None:
            return booked_as  # type: ignore[no-any-return]
        batch = decode(bytes(message)).batch(is_short=is_short)
        applied = await apply(session, BOOKER, batch)
        how: How = "shortened" if is_short else "whole"
        if applied.unsettled - applied.corrected:
            how = "settled_before"
        await session.execute(SQL["booked"], {"by": by, "how": how, "call": str(call_id)})
        await also(session, how)
        return how
