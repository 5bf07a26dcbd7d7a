"""The operator of the simulation: makes keys, revokes and disables them, sets limits.

As on the command line, each change is followed by the question whether every process has heard it.
"""

import asyncio
import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from random import Random
from typing import cast

from actors.changes import HEARD_CHANNEL, heard_by_all
from actors.lease_returns import leases_returned
from actors.store.database import Database
from actors.store.errors import StoreUnavailable
from gw import accounts
from gw.budgets import table
from gw.budgets.budget import NewBudget
from gw.budgets.table import UnknownBudget
from gw.keys import store
from gw.keys.key import KeyWish
from gw.keys.store import KeyIsRevoked, NewKeyRow, UnknownKey
from tests.simulation.budgets import KINDS, LIMITS, InForce
from tests.simulation.clients import Credential
from tests.simulation.keys import Subscription
from tests.simulation.loop import LoopClock
from tests.simulation.reach import Network, Reach
from tests.support.fake_nodes import FakeBudget
from tests.unit.keys.fakes import HASHER

CAP_NANO_USD = 3_000_000
EXPIRY_SECONDS = 40.0
RPM, CONCURRENCY = (None, 3, 6), (None, 1, 2)


class OperatorReach(Reach):
    """The way of a command, which sees who says that it has heard."""

    def __init__(self, network: Network) -> None:
        super().__init__(network)
        self.replied: set[str] = set()

    async def listen(
        self, channel: str, on_payload: Callable[[str], None], on_gap: Callable[[], None]
    ) -> Subscription:
        assert channel == HEARD_CHANNEL

        def note(payload: str) -> None:
            self.replied.add(payload.partition(" ")[2])
            on_payload(payload)

        return await super().listen(channel, note, on_gap)


class Operator:
    """Changes keys and limits, one command after the other."""

    def __init__(
        self,
        network: Network,
        chance: Random,
        clock: LoopClock,
        accounts: Sequence[str],
        note: Callable[[str], None],
    ) -> None:
        self._network = network
        self._chance = chance
        self._clock = clock
        self._accounts = accounts
        self._note = note
        self.credentials: list[Credential] = []
        self.budgeted: list[str] = []  # accounts
        self.in_force: list[InForce] = []
        self._commands = 0
        self._uncertain: set[str] = set()  # keys of which it is not known what became of a command

    def first_keys(self) -> None:
        """Every account has a key before the beginning."""
        for account in self._accounts:
            made = self._drawn(account)
            self._network.store.keys.insert(_row(made).params())
            self._network.store.open_account(account, made.key_id)
            self.credentials.append(made)

    def key_of(self, account: str) -> Credential:
        """Some key of an account; it need not be good."""
        return self._chance.choice([one for one in self.credentials if one.account == account])

    async def run(self, rate: float) -> None:
        """So many commands a second, until it is cancelled."""
        kinds = [self._make, self._revoke, self._switch, self._limit]
        if self.budgeted:
            kinds += [self._make_budget, self._change_budget, self._change_budget]
            kinds += [self._delete_budget]
        while rate:
            await asyncio.sleep(self._chance.expovariate(rate))
            self._commands += 1
            try:
                await self._chance.choice(kinds)()
            except (StoreUnavailable, UnknownKey, UnknownBudget):  # making it may have failed
                self._note("a command has failed")

    async def _make(self) -> None:
        chance = self._chance
        made = self._drawn(chance.choice(self._accounts))
        if chance.random() < 0.3:
            made.expires_at = self._clock.now() + chance.uniform(0, EXPIRY_SECONDS)
        if chance.random() < 0.3:
            made.cap_nano_usd = chance.randint(0, CAP_NANO_USD)
        self.credentials.append(made)  # its holder may be too early
        self._note(f"{made.key_id} is made")
        await store.insert(self._reach(), _row(made))

    async def _revoke(self) -> None:
        one = self._chance.choice(self.credentials)
        reach = self._reach()
        self._note(f"{one.key_id} is revoked")
        await store.revoke(reach, one.key_id)
        await self._in_force(reach, one)

    async def _switch(self) -> None:
        """Disable a key for a while."""
        one, reach = self._chance.choice(self.credentials), self._reach()
        try:
            self._note(f"{one.key_id} is disabled")
            await store.change(reach, one.key_id, {"enabled": False})
            # One that was to be enabled, and perhaps still will be, says nothing.
            if one.key_id not in self._uncertain:
                await self._in_force(reach, one)
            await asyncio.sleep(self._chance.expovariate(0.2))
            one.refused_since = None
            self._uncertain.add(one.key_id)
            await store.change(reach, one.key_id, {"enabled": True})
            self._uncertain.discard(one.key_id)
            self._note(f"{one.key_id} is enabled")
        except KeyIsRevoked:
            self._note(f"{one.key_id} was revoked")

    async def _limit(self) -> None:
        account, chance = self._chance.choice(self._accounts), self._chance
        changes: dict[str, int | None] = {}
        if chance.random() < 0.7:
            changes["rpm_limit"] = chance.choice(RPM)
        if chance.random() < 0.7:
            changes["concurrency_limit"] = chance.choice(CONCURRENCY)
        self._note(f"limits of {account}: {changes}")
        await accounts.change(cast(Database, self._reach()), account, changes)

    def first_budgets(self) -> None:
        """Before the beginning an account with budgets has some of them."""
        for account in self.budgeted:
            for number, kind in enumerate(KINDS):
                if self._chance.random() < 0.6:
                    self._network.store.nodes.make(self._budget(account, number, kind))

    def _budget(self, account: str, number: int, kind: tuple[str, str, str, str]) -> FakeBudget:
        scope, subject, period, action = kind
        return FakeBudget(
            f"bud_{account}_{number}_{self._commands}",
            account,
            self._chance.choice(LIMITS),
            scope=scope,
            subject=subject,
            period=period,
            action=action,
            warn_at=(50, 80),
            starts_at=self._clock.now(),
        )

    def _live(self) -> list[FakeBudget]:
        return [one for one in self._network.store.nodes.budgets.values() if not one.is_deleted]

    async def _make_budget(self) -> None:
        """One of a kind that the account has not."""
        account = self._chance.choice(self.budgeted)
        known = {(b.scope, b.subject, b.period) for b in self._live() if b.account_id == account}
        new = [(n, kind) for n, kind in enumerate(KINDS) if kind[:3] not in known]
        if not new:
            return
        made = self._budget(account, *self._chance.choice(new))
        self._note(f"{made.id} is made, of {made.limit}")
        wish = NewBudget(
            account_id=account,
            name=made.id,
            scope=made.scope,
            subject=made.subject or None,
            limit_nano_usd=made.limit,
            period=made.period,
            action=made.action,
            warn_at=list(made.warn_at),
            starts_at=datetime.fromtimestamp(made.starts_at, UTC),
        )
        reach = self._reach()
        made.id = await table.create(reach, wish, created_at=datetime.fromtimestamp(0, UTC))
        if made.limit:
            await self._answered(reach, made, is_held_on=True)

    async def _change_budget(self) -> None:
        if not (live := self._live()):
            return
        one, limit = self._chance.choice(live), self._chance.choice(LIMITS)
        self._note(f"{one.id} has a limit of {limit}")
        reach = self._reach()
        self._ends(one.id)
        await table.change(reach, one.id, one.id, {"limit_nano_usd": limit})
        is_stopped = one.action == "refuse" and not limit
        await self._answered(reach, one, is_held_on=not is_stopped)

    async def _delete_budget(self) -> None:
        if not (live := self._live()):
            return
        one, reach = self._chance.choice(live), self._reach()
        self._note(f"{one.id} is deleted")
        self._ends(one.id)
        await table.delete(reach, one.id)
        await self._answered(reach, one, is_held_on=False)

    async def only_budget(self, account: str) -> str:
        """Delete the budgets of an account, and make one of nothing; return its id."""
        reach = self._reach()
        for one in self._live():
            if one.account_id == account:
                await table.delete(reach, one.id)
        made = NewBudget(
            account_id=account,
            name="the last one",
            scope="account",
            limit_nano_usd=0,
            period="total",
            starts_at=datetime.fromtimestamp(0, UTC),
        )
        budget_id = await table.create(reach, made, created_at=datetime.fromtimestamp(0, UTC))
        await leases_returned(cast(Database, reach), account, self._clock)
        return budget_id

    async def limit(self, budget_id: str, limit_nano_usd: int) -> None:
        """Set a limit, and wait until it is in force everywhere."""
        reach, account = self._reach(), self._network.store.nodes.budgets[budget_id].account_id
        await table.change(reach, budget_id, "", {"limit_nano_usd": limit_nano_usd})
        await leases_returned(cast(Database, reach), account, self._clock)

    async def _answered(self, reach: OperatorReach, one: FakeBudget, *, is_held_on: bool) -> None:
        """The change is in force from now on, in whichever process."""
        await leases_returned(cast(Database, reach), one.account_id, self._clock)
        self._note(f"{one.id} is {'in' if is_held_on else 'out of'} use everywhere")
        now = asyncio.get_running_loop().time()
        self.in_force.append(InForce(one.id, is_held_on, now))

    def _ends(self, budget_id: str) -> None:
        """A command begins that changes what was in force, perhaps later, if it is lost."""
        for one in self.in_force:
            if one.budget_id == budget_id and one.until == math.inf:
                one.until = asyncio.get_running_loop().time()

    async def restore(self, account: str) -> Credential:
        """A good key of an account without limits, known to every process."""
        reach, made = self._reach(), self._drawn(account)
        self.credentials.append(made)
        await store.insert(reach, _row(made))
        unlimited = {"rpm_limit": None, "concurrency_limit": None}
        await accounts.change(cast(Database, reach), account, unlimited)
        assert await heard_by_all(cast(Database, reach), token="restored")
        return made

    async def _in_force(self, reach: OperatorReach, one: Credential) -> None:
        """From now on the processes that have replied refuse the key."""
        token = f"question{self._commands}"
        is_heard = await heard_by_all(cast(Database, reach), token=token)
        one.refused_by = frozenset(reach.replied)
        one.refused_since = asyncio.get_running_loop().time()
        self._note(f"{one.key_id} is refused, heard by all: {is_heard}")

    def _reach(self) -> OperatorReach:
        return OperatorReach(self._network)

    def _drawn(self, account: str) -> Credential:
        text = "sk-platform-" + self._chance.randbytes(32).hex()
        return Credential(f"key{len(self.credentials) + 1}", account, text)


def _row(made: Credential) -> NewKeyRow:
    expires_at = made.expires_at
    wish = KeyWish(
        account_id=made.account,
        name=made.key_id,
        expires_at=None if expires_at is None else datetime.fromtimestamp(expires_at, UTC),
        spend_cap_nano_usd=made.cap_nano_usd,
    )
    return NewKeyRow(
        wish=wish,
        id=made.key_id,
        prefix=made.text[:20],
        lookup_hash=HASHER.lookup_hash(made.text),
    )
