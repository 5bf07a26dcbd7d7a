"""Leases of balances by this process, and the calls that it admitted from them in memory.

A lease is a part of an account's balance that the database counts as taken (`leases`, guarded like
a hold). The process admits calls from it without the database: the maximum cost of an admitted call
counts against the lease until its hold is stored, together with its settlement if it has ended by
then. A stored hold no longer uses the lease; if the balance does not cover hold and lease, the
lease is reduced by the hold (`ledger_batch`).

A lease belongs to one identity of its process and ends with it. Calls are therefore admitted only
while the database has lately confirmed the identity: for less time than others wait before they
declare a silent process dead. What was admitted before is written in any case, and corrected if
recovery settled it with less.

A lease covers some seconds of its account's demand, so that a pause of the database of that length
stops no call whose balance is ample. The lease of an idle account is returned, and so is one that
another process calls back before it refuses a call (`Neighbours`).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from math import exp
from uuid import UUID

from actors.clock import Clock
from actors.limits.accounts import IdleSweep
from actors.process import ProcessIdentity
from actors.wallet.messages import Admitted, Hold, LeaseChange
from actors.wallet.pricing import MAX_NANO_USD

# A lease covers the demand of so many seconds: longer than a pause of the database that calls
# should not notice.
LEASE_SECONDS = 8.0
# Time constant of the decay of demand.
DEMAND_SECONDS = 4.0
# A lease for fewer holds is not worth its statement and what it withholds from others.
HOLDS_MIN = 4
# The least that is requested, for an account with occasional calls.
HOLDS_ASKED = 8
# After a refused lease, and after a call back, calls are held one by one.
REFUSED_SECONDS = 1.0
CALLED_BACK_SECONDS = 3.0
# An account without a hold for so long returns its lease, and gets a new one only at its second
# call.
SILENT_SECONDS = 30.0
# Less than the 10 s without a heartbeat after which others declare a process dead.
CONFIRMED_SECONDS = 8.0
# A call that lasts longer is written while it is under way, for recovery by other hosts.
WRITE_SECONDS = 0.02
# Limit of calls not yet written because the database is unreachable; further ones wait for it.
UNWRITTEN_MAX = 50_000


class Lease:
    """The lease of one account, and what unwritten admitted calls take of it."""

    __slots__ = (
        "account_id",
        "ask_after",
        "blocked_until",
        "demand",
        "identity",
        "is_asked",
        "last_hold",
        "leased",
        "returning",
        "unwritten",
        "used",
    )

    def __init__(self, account_id: str, now: float) -> None:
        self.account_id = account_id
        self.identity = ""  # of the process that leased it
        self.leased = 0  # nano-USD, as the database counts it
        self.returning = 0  # negative: the part being returned
        self.used = 0
        self.unwritten: dict[UUID, Admitted] = {}  # calls under way
        self.demand = 0.0  # nano-USD per second
        self.last_hold = now
        self.ask_after = 0.0
        self.blocked_until = 0.0
        self.is_asked = False  # a change is requested, up or down

    def __repr__(self) -> str:
        return f"<Lease {self.account_id} {self.leased} used={self.used}>"

    @property
    def room(self) -> int:
        """What may still be admitted, in nano-USD."""
        return self.leased - self.returning - self.used


class Leases:
    """Admits calls, and sends changes of leases to the ledger writer."""

    def __init__(
        self,
        *,
        identity: ProcessIdentity,
        clock: Clock,
        tell: Callable[[LeaseChange], None],
        wake: Callable[[], None],
    ) -> None:
        """`wake` makes the writer write what was admitted `WRITE_SECONDS` ago."""
        self._identity = identity
        self._clock = clock
        self._tell = tell
        self._wake = wake
        self._leases: dict[str, Lease] = {}
        self._sweep = IdleSweep(self._leases)
        self._unwritten = 0  # all that counts against a lease, ended or not
        self._by_age: deque[Admitted] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self.on_written: Callable[[UUID], None] = lambda _call: None

    def __repr__(self) -> str:
        return f"<Leases {len(self._leases)} accounts {self._unwritten} unwritten>"

    def __len__(self) -> int:
        """The number of admitted calls that are not written."""
        return self._unwritten

    def calls(self) -> Iterator[UUID]:
        """Iterate over admitted calls that are under way and not written."""
        return (admitted.hold.facts.call_id for admitted in self._by_age if admitted.is_waiting)

    def admit(self, hold: Hold) -> Admitted | None:
        """Admit a call from the lease of its account; None: ask the database."""
        now, amount = self._clock.monotonic(), hold.amount_nano_usd
        lease = self._leases.get(hold.facts.account_id)
        is_first = lease is None
        if lease is None:
            lease = self._leases[hold.facts.account_id] = Lease(hold.facts.account_id, now)
            self._sweep.add(lease.account_id)
        lease.demand = (
            lease.demand * exp((lease.last_hold - now) / DEMAND_SECONDS) + amount / DEMAND_SECONDS
        )
        lease.last_hold = now
        if lease.identity != self._identity.id:
            lease.leased = 0  # it ended with the identity
        room = lease.room - amount
        if room < lease.demand * LEASE_SECONDS / 2 and not (is_first or lease.is_asked):
            self._ask(lease, amount, now)
        if (
            room < 0
            or not lease.leased
            or now - self._identity.confirmed_at > CONFIRMED_SECONDS
            or now < lease.blocked_until
            or self._unwritten >= UNWRITTEN_MAX
            or self._is_long_ago()
        ):
            return None
        admitted = Admitted(hold, lease.identity, now, hold.amount_nano_usd)
        lease.used += amount
        lease.unwritten[hold.facts.call_id] = admitted
        self._unwritten += 1
        self._by_age.append(admitted)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(WRITE_SECONDS, self._due)
        return admitted

    def end(self, call_id: UUID, account_id: str, cost_nano_usd: int) -> Admitted | None:
        """End a call at this cost; return its hold if that is not written.

        Its cost counts against the lease until it is written.
        """
        lease = self._leases.get(account_id)
        admitted = lease.unwritten.pop(call_id, None) if lease is not None else None
        if lease is not None and admitted is not None:
            admitted.is_waiting = False
            amount = admitted.hold.amount_nano_usd
            admitted.used = min(cost_nano_usd, amount)
            lease.used -= amount - admitted.used
        return admitted

    def due(self, count: int) -> list[Admitted]:
        """Take at most `count` calls that were admitted `WRITE_SECONDS` ago, to be written."""
        found: list[Admitted] = []
        limit = self._clock.monotonic() - WRITE_SECONDS
        while self._by_age and len(found) < count:
            oldest = self._by_age[0]
            if oldest.is_waiting:
                if oldest.at > limit:
                    break
                self._take(oldest)
                found.append(oldest)
            self._by_age.popleft()
        return found

    def due_of(self, account_id: str, count: int) -> tuple[list[Admitted], bool]:
        """Take at most `count` unwritten calls of an account; True: these were all."""
        lease = self._leases.get(account_id)
        if lease is None:
            return [], True
        found = list(islice(lease.unwritten.values(), count))
        for admitted in found:
            self._take(admitted)
        return found, not lease.unwritten

    def written(self, admitted: Admitted) -> None:
        """Count a call as written, or as one that never will be and moves nothing."""
        if not admitted.is_written:
            admitted.is_written = True
            self._unwritten -= 1
            self._leases[admitted.hold.facts.account_id].used -= admitted.used
            self.on_written(admitted.hold.facts.call_id)

    def changed(
        self, identity: str, leases: Mapping[str, int], made: Iterable[LeaseChange]
    ) -> None:
        """Take over what the database counts as leased, after these changes."""
        for change in made:
            lease = self._leases[change.account_id]
            lease.is_asked = False
            if change.change < 0:
                lease.returning += change.change
            elif leases.get(change.account_id, 0) <= lease.leased:
                lease.ask_after = self._clock.monotonic() + REFUSED_SECONDS
        for account_id, amount in leases.items():
            changed = self._leases.get(account_id)
            if changed is not None:
                changed.leased, changed.identity = amount, identity

    def block(self, account_id: str) -> None:
        """Admit nothing for a while: another process calls the lease back."""
        lease = self._leases.get(account_id)
        if lease is not None:
            lease.blocked_until = self._clock.monotonic() + CALLED_BACK_SECONDS

    def give_back(self, account_id: str) -> None:
        """Return the unused part of an account's lease."""
        lease = self._leases.get(account_id)
        if lease is not None:
            self._return(lease)

    def look_for_silent(self) -> None:
        """Return the leases of some of the idle accounts; called every second."""
        limit = self._clock.monotonic() - SILENT_SECONDS
        self._sweep.round(lambda lease: lease.last_hold < limit and self._rests(lease))

    def _rests(self, lease: Lease) -> bool:
        """Return the lease of an idle account; True if its record can be dropped."""
        self._return(lease)
        return not (lease.leased or lease.used or lease.is_asked)

    def _ask(self, lease: Lease, amount: int, now: float) -> None:
        """Request as much more as the account's demand needs, unless that is too little."""
        wanted = max(int(lease.demand * LEASE_SECONDS), HOLDS_ASKED * amount)
        change = wanted + lease.used - lease.leased + lease.returning
        least = HOLDS_MIN * amount
        if change >= least > 0 and now >= lease.ask_after and now >= lease.blocked_until:
            lease.is_asked = True
            self._tell(LeaseChange(lease.account_id, min(change, MAX_NANO_USD), least))

    def _return(self, lease: Lease) -> None:
        room = lease.room
        if room > 0 and not lease.is_asked:
            lease.is_asked = True
            lease.returning += room
            self._tell(LeaseChange(lease.account_id, -room))

    def _take(self, admitted: Admitted) -> None:
        admitted.is_waiting = False
        facts = admitted.hold.facts
        del self._leases[facts.account_id].unwritten[facts.call_id]

    def _drop_taken(self) -> None:
        while self._by_age and not self._by_age[0].is_waiting:
            self._by_age.popleft()

    def _is_long_ago(self) -> bool:
        """Whether too many calls were admitted after the oldest unwritten one."""
        if len(self._by_age) >= UNWRITTEN_MAX:
            self._drop_taken()
        return len(self._by_age) >= UNWRITTEN_MAX

    def _due(self) -> None:
        """Wake the writer when the oldest call has waited for `WRITE_SECONDS`."""
        self._drop_taken()
        if not self._by_age:
            self._timer = None
            return
        left = self._by_age[0].at + WRITE_SECONDS - self._clock.monotonic()
        if left <= 0:
            self._wake()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(left if left > 0 else WRITE_SECONDS, self._due)
