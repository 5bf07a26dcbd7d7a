"""The cached rows of keys, found by hash and by the payload of a push, within a capacity."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import replace
from weakref import WeakValueDictionary

from gw.keys.principal import Agent, Principal
from gw.keys.store import FoundKey

# How long an expired entry is still used while the database is unreachable.
GRACE_SECONDS = 30.0

# Idle entries dropped in one turn of the loop, about a millisecond.
FORGET_MAX = 1_000


class KeyEntry:
    """The database's row of one key, and how long it is valid (monotonic seconds)."""

    __slots__ = ("epoch", "found", "fresh_until", "reread_at", "usable_until")

    def __init__(
        self, found: FoundKey, *, epoch: int, fresh_until: float, reread_at: float
    ) -> None:
        self.found = found
        self.epoch = epoch
        self.reread_at = reread_at  # no echo confirms it after that
        self.believe(fresh_until)

    def believe(self, until: float) -> None:
        """Extend the entry's validity."""
        self.fresh_until = until
        self.usable_until = until + GRACE_SECONDS


class KeyEntries:
    """At most `capacity` entries by hash, the least recently used first.

    They are also found by the payloads of pushes: `key:<id>`, `account:<id>` and `agent:<id>`.
    """

    __slots__ = ("_agents", "_hash_of_key", "_hashes_of", "by_hash", "capacity")

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.by_hash: OrderedDict[bytes, KeyEntry] = OrderedDict()
        self._hash_of_key: dict[str, bytes] = {}
        self._hashes_of: dict[str, set[bytes]] = {}  # of accounts and agents
        # One agent, with its system prompt, for all of its keys.
        self._agents: WeakValueDictionary[str, Agent] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self.by_hash)

    def add_entry(self, key_hash: bytes, entry: KeyEntry) -> None:
        """Add an entry whose hash has none; the oldest one is dropped when there are too many."""
        self.by_hash[key_hash] = entry
        principal = entry.found.principal
        self._hash_of_key[principal.key_id] = key_hash
        for owner in owners_of(principal):
            self._hashes_of.setdefault(owner, set()).add(key_hash)
        if len(self.by_hash) > self.capacity:
            self.drop_entry(next(iter(self.by_hash)))

    def drop_entry(self, key_hash: bytes) -> None:
        """Drop the entry of this hash, if there is one."""
        entry = self.by_hash.pop(key_hash, None)
        if entry is None:
            return
        principal = entry.found.principal
        del self._hash_of_key[principal.key_id]
        for owner in owners_of(principal):
            siblings = self._hashes_of[owner]
            siblings.discard(key_hash)
            if not siblings:
                del self._hashes_of[owner]

    def drop_key(self, key_id: str) -> None:
        """Drop the entry of a key, if there is one."""
        if key_id in self._hash_of_key:
            self.drop_entry(self._hash_of_key[key_id])

    def drop_of(self, owner: str) -> None:
        """Drop all entries of an account or an agent."""
        for key_hash in list(self._hashes_of.get(owner, ())):
            self.drop_entry(key_hash)

    def drop_idle(self, limit: float) -> None:
        """Drop some of the oldest entries that were to be read again before this moment."""
        for _ in range(FORGET_MAX):
            key_hash = next(iter(self.by_hash), None)
            if key_hash is None or self.by_hash[key_hash].reread_at > limit:
                return
            self.drop_entry(key_hash)

    def shared(self, found: FoundKey) -> FoundKey:
        """Return the same row with the agent of the other entries, if that is equal."""
        agent = found.principal.agent
        if agent is None:
            return found
        known = self._agents.get(agent.id)
        if known != agent:
            self._agents[agent.id] = agent
            return found
        return replace(found, principal=replace(found.principal, agent=known))


def owners_of(principal: Principal) -> tuple[str, ...]:
    """Return the payloads, besides the key's own, whose push changes the key."""
    account = f"account:{principal.account_id}"
    return (account, f"agent:{principal.agent_id}") if principal.agent_id else (account,)
