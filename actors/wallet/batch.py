"""A batch of the ledger: the messages that one transaction applies, by one call of `ledger_batch`.

What all calls have is sent as rows of a composite type, the rest as JSON, one array per batch
(`rows.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any
from uuid import UUID

import ujson

from actors.store.connection import Executor
from actors.store.queries import load
from actors.wallet import messages
from actors.wallet.claims import ClaimState
from actors.wallet.rows import (
    account_rows,
    array_of,
    call_of_hold,
    capped_key_rows,
    change_row,
    hold_row,
    joined,
    late_calls,
    moves,
    node_parts,
    nodes_of_calls,
    record_columns,
    unusual_parts,
)
from actors.wallet.storable import to_json
from actors.wallet.stored_values import StoredValues, asked_of

# Refusal reason of every hold of a process that was declared dead or is missing in `processes`.
BURIED = "buried"
# A larger batch is encoded in one turn of the loop and sent in the next: each takes as long as two
# plain calls.
SENT_AT_ONCE = 64
# A control character, which no JSON has.
_BETWEEN_DETAILS = b"\x1e"
_APPLY = load("actors.wallet", "ledger.sql")["apply"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """The messages that one transaction applies: settlements, holds, records, leases, in order.

    `nodes` are changes of leases of nodes.

    `admitted` are holds granted in memory, which precede the requested ones.
    """

    settlements: Sequence[messages.Settle] = ()
    admitted: Sequence[messages.Admitted] = ()
    holds: Sequence[messages.Hold] = ()
    records: Sequence[messages.Record] = ()
    changes: Sequence[messages.LeaseChange] = ()
    nodes: Sequence[messages.NodeChange] = ()

    def __len__(self) -> int:
        parts = (self.settlements, self.admitted, self.holds, self.records, self.changes)
        return sum(map(len, (*parts, self.nodes)))

    @property
    def has_leased(self) -> bool:
        """Whether it concerns leases, so that it must not be applied twice."""
        return bool(self.admitted or self.changes or self.nodes) or any(
            one.admitted is not None for one in self.settlements
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Applied:
    """The results of a batch. Holds in neither `refused` nor `taken` (by index) were granted.

    `unsettled`: calls whose settlements were not applied; `corrected`: those of them that recovery
    had settled, whose row and cost now are those of their true settlement. `is_buried`: others have
    declared the process dead, so that its holds were refused unchecked, or, for a batch with a
    number, nothing was applied. `leases` is what the process now leases of the batch's accounts, in
    nano-USD, where that may have changed; `called` are the accounts whose leases are called back.
    `others` are the kinds of values that rows have as `other`, once for each row.
    `versions` are those of their nodes, and whether runs have ceilings, where they have some;
    `nodes` is what is leased of nodes now, after the changes of the batch, `drawn` of those that
    calls were taken out of. `budgets`: the figures of holds refused as `budget`; `warned`: the
    `warn` nodes at their limit of granted ones; `exceeding_nano_usd`: what costs passed their holds
    on nodes by.
    """

    unsettled: frozenset[UUID]
    corrected: frozenset[UUID] = frozenset()
    is_buried: bool
    refused: dict[int, messages.RefusalReason] = field(default_factory=dict)
    taken: dict[int, ClaimState] = field(default_factory=dict)  # its idempotency key was in use
    balances: Sequence[list[Any]] = ()  # account id, balance, held, leased, in nano-USD
    leases: dict[str, int] = field(default_factory=dict)
    called: Sequence[str] = ()
    others: Sequence[str] = ()
    versions: dict[str, tuple[int, bool]] = field(default_factory=dict)
    nodes: Sequence[list[Any]] = ()
    drawn: Sequence[list[Any]] = ()
    budgets: dict[int, messages.BudgetRefusal] = field(default_factory=dict)
    warned: dict[int, tuple[str, ...]] = field(default_factory=dict)
    exceeding_nano_usd: int = 0


async def apply(
    session: Executor,
    process_id: str,
    batch: Batch,
    number: int | None = None,
    values: StoredValues | None = None,
) -> Applied:
    """Apply a batch in one transaction; applying it again changes nothing (reference 5.4).

    A batch that concerns leases has a number, other than that of the process's batch before;
    `last_batch` shows whether it was applied, before it is sent again. `values`: what its process
    knows of the values of rows.

    Raises StoreUnavailable when the connection broke: the batch may or may not have committed.
    """
    settlements = _first_of_each_call(batch.settlements)
    values = values or StoredValues()
    unknown = values.unknown(settlements, batch.records)
    attributed = asked_of(unknown, values.most()) if unknown else None
    arguments = parameters(process_id, number, settlements, batch, attributed)
    if len(batch) > SENT_AT_ONCE:
        await asyncio.sleep(0)
    rows = await session.fetch_all(_APPLY, arguments)
    value = rows[0][0]
    found = ujson.loads(value) if isinstance(value, str) else value
    if found.get("buried"):
        every = frozenset(settle.facts.call_id for settle in settlements)
        return Applied(unsettled=every, is_buried=True)
    asked = list(unknown)
    values.note(asked, found["others"])
    written = len(batch.admitted)
    refused = {seq - written: reason for seq, reason, *_ in found["refused"]}
    is_buried = BURIED in refused.values()  # all holds of the batch, or none
    return Applied(
        unsettled=frozenset(map(UUID, found["unsettled"])),
        corrected=frozenset(map(UUID, found["corrected"])),
        is_buried=is_buried,
        refused={} if is_buried else refused,
        taken={seq - written: state for seq, state in found["taken"]},
        balances=found["accounts"],
        leases=dict(found["leases"]),
        called=found["called"],
        others=[
            asked[place][2]
            for place in found["others"]
            for _ in range(sum(map(len, unknown[asked[place]])))
        ],
        versions={name: (version, runs > 0) for name, version, runs in found["versions"]},
        nodes=found["nodes"],
        drawn=found["drawn"],
        budgets={
            seq - written: messages.BudgetRefusal(**figures[0])
            for seq, _, *figures in found["refused"]
            if figures
        },
        warned={seq - written: tuple(ids) for seq, ids in found["warned"]},
        exceeding_nano_usd=found["exceeding"],
    )


def parameters(
    process_id: str,
    number: int | None,
    settlements: Sequence[messages.Settle],
    batch: Batch,
    attributed: Mapping[str, Any] | None = None,
) -> tuple[str | int | None, ...]:
    """Return the arguments of `ledger_batch`, in the order of `ledger.sql`."""
    holds = [*(one.hold for one in batch.admitted), *batch.holds] if batch.admitted else batch.holds
    ended = [one.admitted for one in settlements if one.admitted is not None]
    return (
        process_id,
        array_of(account_rows(settlements, holds, batch.records, [*batch.changes, *batch.nodes])),
        array_of(capped_key_rows(settlements, holds)),
        joined('{"(', b')","(', map(attrgetter("row"), settlements), ')"}'),
        joined("", _BETWEEN_DETAILS, map(attrgetter("detail"), settlements), ""),
        array_of(map(hold_row, range(len(holds)), holds)),
        to_json(list(map(call_of_hold, holds))) if holds else None,
        to_json(list(map(record_columns, batch.records))) if batch.records else None,
        unusual_parts(
            settlements, holds, late_calls(process_id, [*batch.admitted, *ended]), attributed
        ),
        number,
        joined("{", b",", map(attrgetter("held"), settlements), "}") if ended else None,
        len(batch.admitted),
        array_of(map(change_row, batch.changes)),
        joined("[", b",", [one.job for one in settlements if one.job is not None], "]"),
        node_parts(batch.holds, batch.nodes),
        nodes_of_calls(one.admitted for one in settlements) if ended else None,
        nodes_of_calls(batch.admitted) if batch.admitted else None,
        moves(settlements, batch.admitted) if ended or batch.admitted else None,
    )


def _first_of_each_call(settlements: Sequence[messages.Settle]) -> Sequence[messages.Settle]:
    """Keep one settlement per call, because a second one would fail the whole batch.

    A call's own settlement takes precedence over recovery's.
    """
    if len({settle.facts.call_id.int for settle in settlements}) == len(settlements):
        return settlements
    first: dict[UUID, messages.Settle] = {}
    for settle in settlements:
        if first.setdefault(settle.facts.call_id, settle).is_recovery:
            first[settle.facts.call_id] = settle
    return list(first.values())
