"""Leases of balances by this process, and the calls that it admitted from them in memory.

A lease is a part of an account's balance that the database counts as taken (`leases`, guarded like
a hold). The process admits calls from it without the database: the maximum cost of an admitted call
counts against the lease until its hold is stored, together with its settlement if it has ended by
then. A stored hold no longer uses the lease; if the balance does not cover hold and lease, the
lease is reduced by the hold (`ledger_batch`).

A lease belongs to one identity of its process and ends with it. Calls are therefore admitted only
while a heartbeat has lately confirmed the identity, and reported which leases are called back: for
less time than others wait before they declare a silent process dead, or take a lease that is called
back. What was admitted before is written in any case, and corrected if recovery settled it with
less.

A lease covers some seconds of its account's demand, so that a pause of the database of that length
stops no call whose balance is ample. The lease of an idle account is returned, and so is one that
is called back: by another process before it refuses a call (`Neighbours`), or by the database when
the balance does not cover the leases any more. From then on nothing is admitted from it. A call
that costs more than its hold counts with its cost, before the database knows of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from itertools import islice, takewhile
from math import exp, inf
from types import MappingProxyType

from msgspec import Struct, field

from actors.clock import Clock
from actors.limits.idle_sweep import IdleSweep
from actors.process import ProcessIdentity
from actors.wallet.demand import (
    DEMAND_SECONDS,
    HOLDS_ASKED,
    HOLDS_MIN,
    LEASE_SECONDS,
    REFUSED_SECONDS,
    SILENT_SECONDS,
)
from actors.wallet.messages import (
    Admitted,
    CallFacts,
    Hold,
    LeaseChange,
    NodeChange,
    NodeHold,
    Settle,
)
from actors.wallet.money import MAX_NANO_USD
from actors.wallet.node_leases import NodeLeases, NodeRow, NodesOfAccount

# After a call back, calls are held one by one.
CALLED_BACK_SECONDS = 3.0
# Less than the 10 s without a heartbeat after which others declare a process dead, and after which
# they take a lease that it has not returned.
CONFIRMED_SECONDS = 8.0
# `blocked_until` of a lease that is called back, until it is returned.
UNTIL_RETURNED = inf
# A call that lasts longer is written while it is under way, for recovery by other hosts.
WRITE_SECONDS = 0.02
# Limit of calls not yet written because the database is unreachable; further ones wait for it.
UNWRITTEN_MAX = 50_000
NO_BUDGETS: Mapping[str, tuple[int, bool]] = MappingProxyType({})


class BalanceLease(Struct, eq=False):
    """The lease of one account, and what unwritten admitted calls take of it."""

    account_id: str
    last_hold: float
    identity: str = ""  # of the process that leased it
    leased: int = 0  # nano-USD, as the database counts it
    returning: int = 0  # negative: the part being returned
    used: int = 0
    waiting: dict[int, Admitted] = field(default_factory=dict)  # calls under way, to be written
    demand: float = 0.0  # nano-USD per second
    ask_after: float = 0.0
    blocked_until: float = 0.0
    is_asked: bool = False  # a change is requested, up or down
    nodes: NodesOfAccount = field(default_factory=NodesOfAccount)

    def __repr__(self) -> str:
        return f"<Lease {self.account_id} {self.leased} used={self.used}>"

    @property
    def room(self) -> int:
        """What is left to admit calls from; negative while they cost more than was leased."""
        return self.leased - self.returning - self.used


class Leases:
    """Admits calls, and sends changes of leases to the ledger writer."""

    def __init__(
        self,
        *,
        identity: ProcessIdentity,
        clock: Clock,
        tell: Callable[[LeaseChange | NodeChange], None],
        wake: Callable[[], None],
    ) -> None:
        """`wake` makes the writer write what was admitted `WRITE_SECONDS` ago."""
        self._identity = identity
        self._clock = clock
        self._tell = tell
        self._wake = wake
        self._leases: dict[str, BalanceLease] = {}
        self._sweep = IdleSweep(self._leases)
        self._nodes = NodeLeases(tell)
        self._unwritten = 0  # all that counts against a lease, ended or not
        self._waiting: dict[int, Admitted] = {}  # of all accounts, oldest first
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """The number of admitted calls that are not written."""
        return self._unwritten

    def calls(self) -> set[int]:
        """Return the ids of admitted calls that are under way and not written."""
        return set(self._waiting)

    def admit(self, hold: Hold) -> Admitted | None:
        """Admit a call from the lease of its account; None: ask the database."""
        now, amount = self._clock.monotonic(), hold.amount_nano_usd
        account_id = hold.facts.account_id
        lease = self._leases.get(account_id)
        if lease is None:
            lease = self._leases[account_id] = BalanceLease(account_id, now)
            lease.demand = amount / DEMAND_SECONDS
            self._sweep.add(account_id)
            if hold.nodes:
                self._nodes.room(lease.nodes, hold, self._identity.id, now, may_ask=False)
            return None
        lease.demand = demand = (
            lease.demand * exp((lease.last_hold - now) / DEMAND_SECONDS) + amount / DEMAND_SECONDS
        )
        lease.last_hold = now
        identity = self._identity
        if lease.identity != identity.id:
            lease.leased = 0  # it ended with the identity
        room = lease.room - amount
        if room < demand * LEASE_SECONDS / 2 and not lease.is_asked:
            self._ask(lease, amount, now)
        held = None
        if hold.nodes or hold.budgets_version != lease.nodes.version:
            may_ask = lease.blocked_until <= now and (lease.leased > 0 or lease.is_asked)
            held = self._nodes.room(lease.nodes, hold, identity.id, now, may_ask=may_ask)
            if held is None:
                return None
        if (
            room < 0
            or not lease.leased
            or not self._is_confirmed(now)
            or now < lease.blocked_until
            or self._unwritten >= UNWRITTEN_MAX
        ):
            return None
        admitted = Admitted(hold, lease.identity, now, amount)
        if held:
            self._nodes.admitted(held, admitted)
        call = hold.facts.call_id.int
        self._waiting[call] = lease.waiting[call] = admitted
        lease.used += amount
        self._unwritten += 1
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(WRITE_SECONDS, self._due)
        return admitted

    def end(self, facts: CallFacts, cost_nano_usd: int, served: str = "") -> Admitted | None:
        """End a call at this cost, `served` by this model of its chain; return its hold if that is
        not written.

        Its cost counts against the lease until it is written, also what exceeds the hold.
        """
        call = facts.call_id.int
        admitted = self._waiting.pop(call, None)
        if admitted is not None:
            lease = self._leases[facts.account_id]
            del lease.waiting[call]
            lease.used += cost_nano_usd - admitted.hold.amount_nano_usd
            admitted.used = cost_nano_usd
            if admitted.leases:
                self._nodes.ended(admitted, cost_nano_usd, served)
        return admitted

    def served(self, admitted: Admitted, model: str) -> None:
        """A call that was to be written has been served by this model of its chain."""
        self._nodes.release(admitted, model)

    def warned(self, hold: Hold) -> tuple[str, ...]:
        """Return the `warn` nodes of a call that stand at their limit, as lately heard."""
        lease = self._leases.get(hold.facts.account_id)
        return () if lease is None else self._nodes.warned(lease.nodes, hold)

    def is_passed(
        self, account_id: str, held: Iterable[NodeHold], cost_nano_usd: int, served: str
    ) -> bool:
        """Whether a call has cost much more than it held on one of the nodes that pay for it."""
        lease = self._leases.get(account_id)
        if lease is None:
            return False
        return self._nodes.is_passed(lease.nodes, held, cost_nano_usd, served)

    def exceed(self, account_id: str, nano_usd: int) -> int:
        """A call whose hold is written costs so much more than that; return what counts until its
        settlement is written.
        """
        lease = self._leases.get(account_id)
        if lease is None:
            return 0
        lease.used += nano_usd
        return nano_usd

    def absorbs(self, account_id: str) -> bool:
        """Whether the lease of an account covers all that calls of this process take of it.

        What they cost beyond their holds is then taken from no other process: this one admits so
        much less until the ledger knows of it, which calls the leases back if they are too much.
        """
        lease = self._leases.get(account_id)
        return (
            lease is not None
            and lease.identity == self._identity.id
            and lease.room >= 0
            and self._is_confirmed(self._clock.monotonic())
        )

    def due(self, count: int) -> list[Admitted]:
        """Take at most `count` calls that were admitted `WRITE_SECONDS` ago, to be written."""
        limit = self._clock.monotonic() - WRITE_SECONDS
        oldest = islice(self._waiting.values(), count)
        return self._take(takewhile(lambda admitted: admitted.at <= limit, oldest))

    def due_of(self, account_id: str, count: int) -> tuple[list[Admitted], bool]:
        """Take at most `count` unwritten calls of an account; True: these were all."""
        lease = self._leases.get(account_id)
        if lease is None:
            return [], True
        return self._take(islice(lease.waiting.values(), count)), not lease.waiting

    def written(self, messages: Iterable[Admitted]) -> None:
        """Count calls as written, or as some that never will be and move nothing."""
        for admitted in messages:
            if admitted.used is not None:
                self._unwritten -= 1
                self._leases[admitted.hold.facts.account_id].used -= admitted.used
                if admitted.leases:
                    self._nodes.written(admitted)

    def settled(self, settlements: Iterable[Settle]) -> None:
        """Count settlements, and holds that come with them, as written, or as some that never will
        be.
        """
        self.written(one.admitted for one in settlements if one.admitted is not None)
        for one in settlements:
            if one.exceeding:
                self._leases[one.account_id].used -= one.exceeding

    def changed(
        self,
        identity: str,
        leases: Mapping[str, int],
        made: Iterable[LeaseChange],
        versions: Mapping[str, tuple[int, bool]] = NO_BUDGETS,
    ) -> None:
        """Take over what the database counts as leased, after these changes.

        `versions`: of the nodes of accounts that have some, and whether runs have ceilings there.
        """
        now = self._clock.monotonic()
        grown = []
        for change in made:
            lease = self._leases[change.account_id]
            lease.is_asked = False
            if change.change <= 0:
                lease.returning += change.change
                if lease.blocked_until == UNTIL_RETURNED:
                    lease.blocked_until = now + CALLED_BACK_SECONDS
                continue
            grown.append(lease)
            if leases.get(change.account_id, 0) <= lease.leased:
                lease.ask_after = now + REFUSED_SECONDS
        for account_id, amount in leases.items():
            changed = self._leases.get(account_id)
            if changed is not None:
                changed.leased, changed.identity = amount, identity
                nodes = changed.nodes
                nodes.version, nodes.has_runs = versions.get(account_id, (0, False))
                if not amount and nodes.leases:
                    self._nodes.gone(nodes)
        for lease in grown:
            if lease.blocked_until == UNTIL_RETURNED:  # called back since it asked
                self._return(lease)

    def nodes_changed(
        self, identity: str, sent_at: float, rows: Iterable[NodeRow], made: Iterable[NodeChange]
    ) -> None:
        """Take over what is leased of nodes, after these changes, which were sent at that time."""
        self._nodes.changed(identity, sent_at, rows, made)

    def nodes_drawn(self, rows: Iterable[NodeRow]) -> None:
        """Take over what is left of the leases of nodes that calls were taken out of."""
        for row in rows:
            lease = self._leases.get(row[0])
            if lease is not None:
                self._nodes.drawn(lease.nodes, row)

    def call_back(self, account_id: str) -> None:
        """Admit nothing from an account's lease until it is returned, and for a while after."""
        lease = self._leases.get(account_id)
        if lease is None:  # as far as we know there is none, but the database may have its row
            lease = self._leases[account_id] = BalanceLease(account_id, self._clock.monotonic())
            self._sweep.add(account_id)
        lease.blocked_until = UNTIL_RETURNED

    def give_back(self, account_id: str) -> None:
        """Return the unused part of a lease that is called back; report it if there is none."""
        lease = self._leases.get(account_id)
        if lease is not None:
            self._return(lease)

    def look_for_silent(self) -> None:
        """Return the leases of some of the idle accounts; called every second."""
        now = self._clock.monotonic()
        limit = now - SILENT_SECONDS
        self._nodes.look_for_silent(now)
        self._sweep.round(lambda lease: lease.last_hold < limit and self._rests(lease))

    def _rests(self, lease: BalanceLease) -> bool:
        """Return the lease of an idle account; True if its record can be dropped."""
        self._return(lease)
        is_blocked = lease.blocked_until > self._clock.monotonic()
        if lease.leased or lease.used or lease.is_asked or is_blocked:
            return False
        self._nodes.forget(lease.nodes)
        return True

    def _is_confirmed(self, now: float) -> bool:
        """Whether a heartbeat has lately confirmed that the leases are this process's."""
        return now - self._identity.confirmed_at <= CONFIRMED_SECONDS

    def _ask(self, lease: BalanceLease, amount: int, now: float) -> None:
        """Request as much more as the account's demand needs, unless that is too little."""
        wanted = max(int(lease.demand * LEASE_SECONDS), HOLDS_ASKED * amount)
        change = wanted - lease.room
        least = HOLDS_MIN * amount
        if change >= least > 0 and now >= lease.ask_after and now >= lease.blocked_until:
            lease.is_asked = True
            self._tell(LeaseChange(lease.account_id, min(change, MAX_NANO_USD), least))

    def _return(self, lease: BalanceLease) -> None:
        room = max(0, lease.room)
        if not lease.is_asked and (room or lease.blocked_until == UNTIL_RETURNED):
            lease.is_asked = True
            lease.returning += room
            self._tell(LeaseChange(lease.account_id, -room))

    def _take(self, admitted: Iterable[Admitted]) -> list[Admitted]:
        """Take calls that are about to be written."""
        taken = list(admitted)
        for one in taken:
            call = one.facts.call_id.int
            del self._waiting[call], self._leases[one.account_id].waiting[call]
        return taken

    def _due(self) -> None:
        """Wake the writer when the oldest call has waited for `WRITE_SECONDS`."""
        oldest = next(iter(self._waiting.values()), None)
        if oldest is None:
            self._timer = None
            return
        left = oldest.at + WRITE_SECONDS - self._clock.monotonic()
        if left <= 0:
            self._wake()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(left if left > 0 else WRITE_SECONDS, self._due)
