"""The operator of the simulation: makes keys, revokes and disables them, sets limits.

As on the command line, each change is followed by the question whether every process has heard it.
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from random import Random
from typing import cast

from actors.changes import HEARD_CHANNEL, heard_by_all
from actors.store.database import Database
from actors.store.errors import StoreUnavailable
from gw import accounts
from gw.keys import store
from gw.keys.key import KeyWish
from gw.keys.store import KeyIsRevoked, NewKeyRow, UnknownKey
from tests.simulation.clients import Credential
from tests.simulation.keys import Subscription
from tests.simulation.loop import LoopClock
from tests.simulation.reach import Network, Reach
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
        kinds = (self._make, self._revoke, self._switch, self._limit)
        while rate:
            await asyncio.sleep(self._chance.expovariate(rate))
            self._commands += 1
            try:
                await self._chance.choice(kinds)()
            except (StoreUnavailable, UnknownKey):  # making it may have failed
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
