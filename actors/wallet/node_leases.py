"""Leases of budget nodes by this process, below the lease of their account.

A call is admitted in memory if the lease of its account and that of each node that it holds on have
room. A node is leased of one period, which ends by the monotonic clock: so long after the ledger
was asked as its own clock left. A node that a call only counts for (a `warn` node, a hold of 0)
needs no room, but its period.

They end with the account's lease, and with the process's identity. As many are kept as a process
may have busy ones; of nodes that have a sum for each end user or run there may be any number, and
the least recently used is returned.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from math import exp, inf
from typing import Any, TypeAlias

from msgspec import Struct

from actors.wallet.demand import (
    DEMAND_SECONDS,
    HOLDS_ASKED,
    HOLDS_MIN,
    LEASE_SECONDS,
    REFUSED_SECONDS,
    SILENT_SECONDS,
)
from actors.wallet.messages import (
    RUN,
    Admitted,
    HeldNode,
    Hold,
    NodeChange,
    NodeHold,
    NodeLease,
    pays,
)
from actors.wallet.money import MAX_NANO_USD

# More nodes than this are held call by call.
NODES_MAX = 20_000
# So many of the least recently used are looked at for one to return.
LOOKED_AT = 16
# What a node that calls only count for stands at is read again after the first time, while there
# are such calls. A call that finds it older than the second asks the ledger, except while an answer
# is waited for: a database that gives none stops no calls.
REFRESH_SECONDS, KNOWN_SECONDS = 1.0, 2.0

# Of a lease, which is a quarter of what was available at most.
EXCESS_SHARE = 1 / 4

# What the ledger says of a node's lease: account, budget, subject, sum, seconds left of its period
# (None: it does not end), amount, whether it stands at its limit or above; of a run its ceiling.
NodeRow: TypeAlias = Sequence[Any]


class NodesOfAccount(Struct, eq=False):
    """The nodes of an account, as its lease knows them."""

    version: int = 0
    has_runs: bool = False  # with a ceiling
    leases: dict[tuple[str, str], NodeLease] = {}


class NodeLeases:
    """The nodes of all accounts, the least recently used first."""

    def __init__(self, tell: Callable[[NodeChange], None]) -> None:
        self._tell = tell
        self._all: OrderedDict[NodeLease, NodesOfAccount] = OrderedDict()

    def __len__(self) -> int:
        return len(self._all)

    def room(
        self, nodes: NodesOfAccount, hold: Hold, identity: str, now: float, *, may_ask: bool
    ) -> list[tuple[NodeLease, NodeHold]] | None:
        """Return the leases to hold a call on, each with its node; None: ask the ledger.

        `may_ask`: the account has a lease, or has asked for one.
        """
        found: list[tuple[NodeLease, NodeHold]] = []
        is_free = hold.budgets_version == nodes.version
        for node in hold.nodes:
            if node.budget_id == RUN and node.ceiling_nano_usd is None and not nodes.has_runs:
                continue
            lease = nodes.leases.get((node.budget_id, node.subject))
            amount = node.amount_nano_usd
            if lease is None:
                self._add(nodes, hold.account_id, node, now)
                is_free = False
                continue
            self._all.move_to_end(lease)
            lease.demand *= exp((lease.last_hold - now) / DEMAND_SECONDS)
            lease.demand += amount / DEMAND_SECONDS
            lease.last_hold = now
            if now >= lease.until or lease.identity != identity:
                if lease.sum_id is not None:
                    lease = self._renew(nodes, lease)
                is_free = False
                if may_ask:
                    self._ask(lease, amount, now)
                continue
            ceiling = node.ceiling_nano_usd
            if ceiling is not None and (lease.limit is None or ceiling < lease.limit):
                lease.until = -inf  # nothing is admitted by the ceiling of before
                is_free = False
                continue
            if amount:
                room = lease.leased - lease.returning - lease.used - amount
                if may_ask and room < lease.demand * LEASE_SECONDS / 2:
                    self._ask(lease, amount, now)
                if room < 0:
                    is_free = False
            elif now - lease.known_at > REFRESH_SECONDS and not lease.is_asked:
                if may_ask:
                    self._ask(lease, 0, now)
                if now - lease.known_at > KNOWN_SECONDS:
                    is_free = False
            found.append((lease, node))
        return found if is_free else None

    def warned(self, nodes: NodesOfAccount, hold: Hold) -> tuple[str, ...]:
        """Return the `warn` nodes of a call that stand at their limit or above."""
        warned: tuple[str, ...] = ()
        for node in hold.nodes:
            if not node.amount_nano_usd:
                lease = nodes.leases.get((node.budget_id, node.subject))
                if lease is not None and lease.is_above:
                    warned = (*warned, node.budget_id)
        return warned

    def admitted(self, held: list[tuple[NodeLease, NodeHold]], admitted: Admitted) -> None:
        """Count an admitted call against its nodes until it is written."""
        leases, parts = [], []
        for lease, node in held:
            amount = node.amount_nano_usd
            lease.used += amount
            assert lease.sum_id is not None
            leases.append(lease)
            parts.append(HeldNode(lease.sum_id, amount, node.model))
        admitted.leases, admitted.budgets = tuple(leases), tuple(parts)

    def ended(self, admitted: Admitted, cost_nano_usd: int, served: str) -> None:
        """A call that is not written has ended at this cost, which counts where it is more than the
        hold: the rest of that is free for others when it is written.
        """
        if served:
            self.release(admitted, served)
        admitted.cost = cost_nano_usd
        for lease, part in zip(admitted.leases, admitted.budgets, strict=True):
            if 0 < part.held < cost_nano_usd:
                lease.used += cost_nano_usd - part.held

    def release(self, admitted: Admitted, served: str) -> None:
        """Release what a call that is not written holds on nodes of models that did not serve."""
        held = list(zip(admitted.leases, admitted.budgets, strict=True))
        paying = [(lease, part) for lease, part in held if pays(part, served)]
        for lease, part in held:
            if not pays(part, served):
                lease.used -= part.held
                if lease.is_over:
                    self._return(lease)
        admitted.leases = tuple(lease for lease, _ in paying)
        admitted.budgets = tuple(part for _, part in paying)

    def written(self, admitted: Admitted) -> None:
        """Count a call as written."""
        cost = admitted.cost
        for lease, part in zip(admitted.leases, admitted.budgets, strict=True):
            if part.held:
                lease.used -= part.held if part.held > cost else cost
                if lease.is_over:
                    self._return(lease)

    def is_passed(
        self, nodes: NodesOfAccount, held: Iterable[NodeHold], cost_nano_usd: int, served: str
    ) -> bool:
        """Whether a call has cost so much more than it held on a node that others may admit what is
        not left of it.
        """
        for node in held:
            if 0 < node.amount_nano_usd < cost_nano_usd and pays(node, served):
                lease = nodes.leases.get((node.budget_id, node.subject))
                excess = cost_nano_usd - node.amount_nano_usd
                if lease is not None and excess > lease.leased * EXCESS_SHARE:
                    return True
        return False

    def changed(
        self, identity: str, sent_at: float, rows: Iterable[NodeRow], made: Iterable[NodeChange]
    ) -> None:
        """Take over what the ledger leases after these changes; they were sent at that time."""
        found = {tuple(row[:4]): row for row in rows}
        present = {key[:3]: row for key, row in found.items()}
        for change in made:
            lease = change.lease
            lease.is_asked = False
            if change.change < 0:
                lease.returning += change.change
                row = found.get((*change.node, change.sum_id))
                lease.leased = 0 if row is None else row[5]
            else:
                row = present.get(change.node)
                if row is None:
                    lease.ask_after = sent_at + REFUSED_SECONDS
                else:
                    self._take_over(lease, identity, sent_at, row, is_wanted=change.change > 0)
            if lease.is_over:
                self._return(lease)

    def drawn(self, nodes: NodesOfAccount, row: NodeRow) -> None:
        """Take over a lease that a call was taken out of."""
        _, budget_id, subject, sum_id, _, amount, *_ = row
        lease = nodes.leases.get((budget_id, subject))
        if lease is not None and lease.sum_id == sum_id:
            lease.leased = amount

    def gone(self, nodes: NodesOfAccount) -> None:
        """The account's lease has ended, and with it those of its nodes."""
        for lease in nodes.leases.values():
            lease.leased = 0

    def forget(self, nodes: NodesOfAccount) -> None:
        """Drop the nodes of an account that has no lease."""
        for lease in nodes.leases.values():
            del self._all[lease]
        nodes.leases.clear()

    def look_for_silent(self, now: float) -> None:
        """Return what has not been used for a while; called every second."""
        while self._all:
            lease = next(iter(self._all))
            if lease.last_hold >= now - SILENT_SECONDS:
                return
            self._drop(lease)

    def _take_over(
        self, lease: NodeLease, identity: str, sent_at: float, row: NodeRow, *, is_wanted: bool
    ) -> None:
        *_, sum_id, seconds, amount, is_above, limit = row
        if lease.sum_id not in (None, sum_id):
            nodes = self._all.get(lease)
            if nodes is None:
                return  # dropped meanwhile, and returned
            lease = self._renew(nodes, lease)
        elif is_wanted and amount <= lease.leased:
            lease.ask_after = sent_at + REFUSED_SECONDS
        lease.sum_id, lease.identity, lease.known_at = sum_id, identity, sent_at
        lease.until = inf if seconds is None else sent_at + seconds
        lease.leased, lease.is_above, lease.limit = amount, is_above, limit

    def _add(
        self, nodes: NodesOfAccount, account_id: str, node: NodeHold, now: float
    ) -> NodeLease | None:
        """Begin to count the calls of a node; None: no place is left."""
        if len(self._all) >= NODES_MAX:
            for lease in islice(self._all, LOOKED_AT):
                if not lease.used and not lease.is_asked:
                    self._drop(lease)
                    break
            else:
                return None
        lease = NodeLease(account_id, node.budget_id, node.subject, now)
        lease.demand = node.amount_nano_usd / DEMAND_SECONDS
        self._all[lease] = nodes
        nodes.leases[node.budget_id, node.subject] = lease
        return lease

    def _renew(self, nodes: NodesOfAccount, lease: NodeLease) -> NodeLease:
        """Put a new lease in the place of one whose period is over; what it has is returned."""
        fresh = NodeLease(lease.account_id, lease.budget_id, lease.subject, lease.last_hold)
        fresh.demand = lease.demand
        self._drop(lease)
        self._all[fresh] = nodes
        nodes.leases[lease.budget_id, lease.subject] = fresh
        return fresh

    def _drop(self, lease: NodeLease) -> None:
        """Forget a node, and return its lease as soon as nothing uses it."""
        nodes = self._all.pop(lease)
        del nodes.leases[lease.budget_id, lease.subject]
        lease.is_over = True
        self._return(lease)

    def _return(self, lease: NodeLease) -> None:
        if lease.used or lease.is_asked or not lease.leased:
            return
        lease.is_asked = True
        lease.returning += lease.leased
        self._tell(NodeChange(lease, -lease.leased, lease.sum_id))

    def _ask(self, lease: NodeLease, amount: int, now: float) -> None:
        """Ask for as much more as the node's demand needs, and what it stands at."""
        if lease.is_asked or now < lease.ask_after:
            return
        wanted = max(int(lease.demand * LEASE_SECONDS), HOLDS_ASKED * amount)
        change, least = wanted + lease.used - lease.leased + lease.returning, HOLDS_MIN * amount
        if amount and change < least:
            return
        lease.is_asked = True
        self._tell(
            NodeChange(lease, max(0, min(change, MAX_NANO_USD)) if amount else 0, least=least)
        )
