"""Holds that outlive their calls: a job takes one over, and any process ends it.

While a call that begins a job is being submitted, its hold is its process's like any other: should
that die, recovery gives it back. Once the job stands, the hold is handed over, and from then on
neither recovery nor the search for leaks, nor the drain of a process, concerns itself with it. It
counts as before for balance and spend cap, and its idempotency key stays taken. Whoever ends the
job settles or voids it by its call (`Wallets.settle`, `Wallets.void`), wherever that is; the first
one counts.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

import ujson
from msgspec import Struct

from actors.store.queries import load
from actors.wallet.claims import ClaimEnd, end_to_json
from actors.wallet.ledger import Executor, facts_of_hold
from actors.wallet.messages import CallFacts
from actors.wallet.parameters import to_json

SQL = load("actors.wallet", "jobs.sql")


class OpenJob(Struct, frozen=True, kw_only=True):
    """A job that has not ended, with what is held for it; `detail` is of its row to come."""

    job_id: str
    facts: CallFacts
    amount_nano_usd: int
    detail: Any


async def hand_over(database: Executor, call_id: UUID, *, claim_end: ClaimEnd = None) -> bool:
    """The call has begun its job (`Hold.job_id`): its hold is the job's from now on.

    `claim_end`: what its idempotency key says from now on; None: it stays claimed as long as the
    job is open. False when nothing is held any more, because the process was taken for dead. To be
    repeated after StoreUnavailable, which it raises: a second time changes nothing.
    """
    ended = None
    if claim_end is not None:
        ended = to_json([{"call_id": call_id.hex, **end_to_json(claim_end)}])
    ((is_open,),) = await database.fetch_all(SQL["hand_over"], (call_id.hex, ended))
    return bool(is_open)


async def read_open_job(database: Executor, job_id: str) -> OpenJob | None:
    """Read what whoever ends the job must know; None when it has ended or has not begun.

    Raises StoreUnavailable.
    """
    rows = await database.fetch_all(SQL["open_job"], (job_id,))
    if not rows:
        return None
    ((call_id, account_id, key_id, call_text, amount),) = rows
    call = ujson.loads(call_text)
    return OpenJob(
        job_id=job_id,
        facts=facts_of_hold(call_id, account_id, key_id, call),
        amount_nano_usd=amount,
        detail=call.get("detail"),
    )
