"""Caches keys, so that most requests are authenticated from memory.

An entry is valid for a few seconds after the database has confirmed it, and dropped when the
database pushes a change of its key or account. A read confirms its entries. An echo confirms all
entries that no push has touched, because it arrives after the pushes of all earlier changes
(`actors/changes.py`). Keys missing at the same time are read together. Only hashes of keys are
kept. `store.py` reads the table; the messages of refusals are in `principal.py`.

Three rules keep a changed key from being used. A change drops the entry. A read overtaken by a
change is repeated before its result is used. After a gap in the pushes no earlier entry is valid,
whatever is received then.
"""

from __future__ import annotations

import asyncio
import math
import re
import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from hashlib import blake2b, sha256
from itertools import islice
from typing import Generic, Protocol, TypeVar
from weakref import WeakValueDictionary

from actors.clock import Clock
from actors.store.connection import StoreUnavailable, in_time
from actors.store.database import Statements
from gw.keys import store
from gw.keys.principal import Agent, KeyRefused, Principal, RefusalReason
from gw.keys.secret import Secret
from gw.keys.store import FoundKey

# The text of a key: how one is made, recognised and shown in part (spec: API key).
#
# Knows nothing of secrets at rest (`secret.py`) or of who owns a key (`store.py`).

PREFIX = "sk-platform-"
RANDOM_BYTES = 32
LENGTH = len(PREFIX) + 2 * RANDOM_BYTES
# How much of the random part is shown in lists: enough to distinguish keys, far too little to
# guess.
SHOWN_DIGITS = 8

_KEY = re.compile(PREFIX + r"[0-9a-f]{64}")


def new_key_text() -> str:
    """Make a key from the operating system's randomness: 76 characters."""
    return PREFIX + secrets.token_hex(RANDOM_BYTES)


def is_key_text(text: str) -> bool:
    """Whether `text` is written like a key. Upper-case hex is not (contract §7)."""
    return len(text) == LENGTH and _KEY.fullmatch(text) is not None


def shown_prefix(key_text: str) -> str:
    """The part of a key that lists and log lines may show."""
    return key_text[: len(PREFIX) + SHOWN_DIGITS]


HASH_BYTES = 32


class KeyHasher:
    """The keyed hash by which keys are found: of no use to a thief of the table alone."""

    def __init__(self, secret: Secret) -> None:
        self._keyed, *previous = (
            blake2b(key=subkey, digest_size=HASH_BYTES)
            for subkey in secret.subkeys("gw key lookup")
        )
        self._previous = previous[0] if previous else None

    def lookup_hash(self, key_text: str) -> bytes:
        """Return 32 bytes; any text has a hash, also one that is no key."""
        return _hashed(self._keyed, key_text)

    def previous_hash(self, key_text: str) -> bytes | None:
        """The hash under the previous secret; None when there is none."""
        return None if self._previous is None else _hashed(self._previous, key_text)


def _hashed(keyed: blake2b, key_text: str) -> bytes:
    keyed = keyed.copy()
    keyed.update(key_text.encode("utf-8", "replace"))
    return keyed.digest()


def legacy_hash(key_text: str) -> bytes:
    """The hash under which early keys were kept: plain SHA-256 of the text, 32 bytes.

    It needs no secret because a key is 256 random bits, and so it can be imported from elsewhere.
    """
    return sha256(key_text.encode("utf-8", "replace")).digest()


# Shared reads: requests made during a read are answered by the next one, together.
#
# Each request receives the result for its own name, and none receives a stale one. Independent of
# keys; the cache below uses it.

Q = TypeVar("Q")
T = TypeVar("T")

# Names in one statement, some ten kilobytes; the rest waits for the next.
READ_MAX = 256


class ChangeLog:
    """The changes since the read under way began."""

    __slots__ = ("changes", "has_gap")

    def __init__(self) -> None:
        self.changes: set[str] = set()
        self.has_gap = False  # unknown changes were missed


# Results by name. An exception is raised to the requests of its name; a missing name is read again.
Results = Mapping[bytes, T | Exception]
Read = Callable[[Mapping[bytes, Q], ChangeLog], Awaitable[Results[T]]]


class PendingRead(Generic[Q, T]):
    """The requests that wait for one name."""

    __slots__ = ("text", "waiting")

    def __init__(self, text: Q) -> None:
        self.text = text
        self.waiting: list[asyncio.Future[T]] = []

    def resolve(self, outcome: T | Exception) -> None:
        for reply in self.waiting:
            if reply.done():  # cancelled
                continue
            if isinstance(outcome, Exception):
                reply.set_exception(outcome)
            else:
                reply.set_result(outcome)


class SharedReads(Generic[Q, T]):
    """Reads by name, one at a time for all requests that wait."""

    def __init__(self, read: Read[Q, T]) -> None:
        self._read = read
        self._next: dict[bytes, PendingRead[Q, T]] = {}
        self._under_way: dict[bytes, PendingRead[Q, T]] = {}
        self._heard = ChangeLog()
        self._task: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._next) + len(self._under_way)

    def __repr__(self) -> str:
        return f"<SharedReads {len(self._under_way)} under way {len(self._next)} waiting>"

    def note(self, change: str | None) -> None:
        """Report a change to the read under way; None: what changed is unknown."""
        if change is None:
            self._heard.has_gap = True
        elif self._under_way:
            self._heard.changes.add(change)

    async def ask(self, name: bytes, text: Q) -> T:
        """Return the result for a name, shared with other requests for it.

        Raises the error of the read. Cancelling one request does not cancel the read.
        """
        question = self._under_way.get(name) or self._next.get(name)
        if question is None:
            question = self._next[name] = PendingRead(text)
            if self._task is None:
                # It begins in the loop's next iteration, with all requests made in this one.
                self._task = asyncio.create_task(self._work())
        reply: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        question.waiting.append(reply)
        return await reply

    async def _work(self) -> None:
        """Read until no request waits."""
        try:
            while self._next:
                names = list(islice(self._next, READ_MAX))
                self._under_way = {name: self._next.pop(name) for name in names}
                self._heard = ChangeLog()
                await self._read_once(self._under_way)
        finally:
            # Requests are left only when this is cancelled, at the end of the loop.
            for question in (*self._under_way.values(), *self._next.values()):
                for reply in question.waiting:
                    reply.cancel()
            self._next, self._under_way, self._task = {}, {}, None

    async def _read_once(self, questions: Mapping[bytes, PendingRead[Q, T]]) -> None:
        try:
            results = await self._read(
                {name: question.text for name, question in questions.items()}, self._heard
            )
        except Exception as error:  # noqa: BLE001 - raised to every request that waits
            results = dict.fromkeys(questions, error)
        self._under_way = {}
        for name, question in questions.items():
            if name in results:
                question.resolve(results[name])
            else:
                self._next[name] = question


# How long an expired entry is still used while the database is unreachable.
GRACE_SECONDS = 30.0
# How long such an entry is used before the database is tried again.
RETRY_SECONDS = 1.0
# An entry is read again after this time however often it is confirmed: pushes are made by triggers,
# which an operator can bypass.
REREAD_SECONDS = 60.0
# Idle entries dropped in one turn of the loop, about a millisecond.
FORGET_MAX = 1_000
# Well-formed texts that are not keys, bounded separately so that guessing evicts no key.
UNKNOWN_CAPACITY = 10_000


class CacheMetrics(Protocol):
    """The metrics of the cache."""

    def cache(self, *, cache: str, hit: bool) -> None: ...


class _Entry:
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
        self.by_hash: OrderedDict[bytes, _Entry] = OrderedDict()
        self._hash_of_key: dict[str, bytes] = {}
        self._hashes_of: dict[str, set[bytes]] = {}  # of accounts and agents
        # One agent, with its system prompt, for all of its keys.
        self._agents: WeakValueDictionary[str, Agent] = WeakValueDictionary()

    def __len__(self) -> int:
        return len(self.by_hash)

    def add(self, key_hash: bytes, entry: _Entry) -> None:
        """Add an entry whose hash has none; the oldest one is dropped when there are too many."""
        self.by_hash[key_hash] = entry
        principal = entry.found.principal
        self._hash_of_key[principal.key_id] = key_hash
        for owner in _owners(principal):
            self._hashes_of.setdefault(owner, set()).add(key_hash)
        if len(self.by_hash) > self.capacity:
            self.drop(next(iter(self.by_hash)))

    def drop(self, key_hash: bytes) -> None:
        """Drop the entry of this hash, if there is one."""
        entry = self.by_hash.pop(key_hash, None)
        if entry is None:
            return
        principal = entry.found.principal
        del self._hash_of_key[principal.key_id]
        for owner in _owners(principal):
            siblings = self._hashes_of[owner]
            siblings.discard(key_hash)
            if not siblings:
                del self._hashes_of[owner]

    def drop_key(self, key_id: str) -> None:
        """Drop the entry of a key, if there is one."""
        if key_id in self._hash_of_key:
            self.drop(self._hash_of_key[key_id])

    def drop_of(self, owner: str) -> None:
        """Drop all entries of an account or an agent."""
        for key_hash in list(self._hashes_of.get(owner, ())):
            self.drop(key_hash)

    def drop_idle(self, limit: float) -> None:
        """Drop some of the oldest entries that were to be read again before this moment."""
        for _ in range(FORGET_MAX):
            key_hash = next(iter(self.by_hash), None)
            if key_hash is None or self.by_hash[key_hash].reread_at > limit:
                return
            self.drop(key_hash)

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


class KeyCache:
    """An LRU cache of at most `capacity` keys.

    `on_balance` is called with the available nano-USD of an account whenever a key of it is read.
    """

    def __init__(
        self,
        database: Statements,
        hasher: KeyHasher,
        clock: Clock,
        metrics: CacheMetrics,
        *,
        ttl_seconds: float = 5.0,
        capacity: int = 100_000,
        on_balance: Callable[[str, int], None] = lambda _account, _available: None,
    ) -> None:
        self._database = database
        self._hasher = hasher
        self._clock = clock
        self._metrics = metrics
        self._ttl_seconds = ttl_seconds
        self._on_balance = on_balance
        self._epoch = 0  # entries of an earlier epoch are invalid
        self._heard_at = -math.inf  # every change before this moment has been pushed
        self._entries = KeyEntries(capacity)
        self._unknown: OrderedDict[bytes, float] = OrderedDict()  # hash to its next read
        self._reads: SharedReads[str, FoundKey | None] = SharedReads(self._read)
        self._touched: dict[str, float] = {}  # key id to Unix seconds, the longest waiting first

    def __repr__(self) -> str:
        return (
            f"<KeyCache {len(self._entries)}/{self._entries.capacity} keys"
            f" {len(self._unknown)} unknown {len(self._reads)} loading>"
        )

    async def authenticate(self, key_text: str, *, touch: bool = True) -> Principal:
        """Return the principal of a key. Raises KeyRefused, or StoreUnavailable.

        `touch=False` leaves the key's last use alone (spec: Balance).
        """
        key_hash = self._hasher.lookup_hash(key_text)
        found = self._fresh(key_hash)
        if found is None:
            found = await self._find(key_hash, key_text)
        else:
            self._metrics.cache(cache="keys", hit=True)
        now = self._clock.now()
        refusal = _refusal(found, now)
        if refusal is not None:
            raise KeyRefused(refusal)
        principal = found.principal
        if touch:
            self._touched[principal.key_id] = now
        return principal

    def lookup_hash(self, key_text: str) -> bytes:
        """Return the hash of a key's text for `try_authenticate`."""
        return self._hasher.lookup_hash(key_text)

    def try_authenticate(self, key_hash: bytes, *, touch: bool = True) -> Principal | None:
        """Return the principal from memory; None if `authenticate` would read, or refuse."""
        found = self._fresh(key_hash)
        now = self._clock.now()
        if found is None or _refusal(found, now) is not None:
            return None
        self._metrics.cache(cache="keys", hit=True)
        principal = found.principal
        if touch:
            self._touched[principal.key_id] = now
        return principal

    def invalidate(self, payload: str) -> None:
        """Drop entries named by a push, `key:<id>`, `account:<id>` or `agent:<id>`."""
        kind, _, name = payload.partition(":")
        if kind == "key":
            # It may be a new key whose text was used before it existed.
            self._unknown.clear()
            self._entries.drop_key(name)
        else:
            self._entries.drop_of(payload)
        self._reads.note(payload)

    def clear(self) -> None:
        """Believe nothing read so far: pushes may have been lost.

        Entries stay for their time of grace, should the database be away.
        """
        self._epoch += 1
        self._unknown.clear()
        self._reads.note(None)

    def vouch(self, heard_at: float) -> None:
        """Confirm that every change committed before this moment (monotonic seconds) was pushed."""
        self._heard_at = heard_at

    def forget_idle(self) -> None:
        """Drop entries that are expired beyond the grace period; to be called every second."""
        limit = self._clock.monotonic() - self._ttl_seconds - GRACE_SECONDS
        self._entries.drop_idle(limit)

    @property
    def touched_count(self) -> int:
        """Number of keys whose last use was not taken yet."""
        return len(self._touched)

    def touched(self, most: int) -> dict[str, float]:
        """Take the last uses that have waited longest, key id to Unix seconds."""
        return {key_id: self._touched.pop(key_id) for key_id in list(islice(self._touched, most))}

    def _fresh(self, key_hash: bytes) -> FoundKey | None:
        """Return the row of a key while its entry is valid."""
        entries = self._entries.by_hash
        entry = entries.get(key_hash)
        if entry is None or entry.epoch != self._epoch:
            return None
        now = self._clock.monotonic()
        if now >= entry.fresh_until:
            vouched_until = min(self._heard_at + self._ttl_seconds, entry.reread_at)
            if now >= vouched_until:
                return None
            entry.believe(vouched_until)
        entries.move_to_end(key_hash)
        return entry.found

    async def _find(self, key_hash: bytes, key_text: str) -> FoundKey:
        """Read a key, together with other requests for it."""
        if not is_key_text(key_text):
            raise KeyRefused("malformed")
        is_hit = self._unknown.get(key_hash, 0.0) > self._clock.monotonic()
        self._metrics.cache(cache="keys", hit=is_hit)
        if is_hit:
            raise KeyRefused("unknown")
        try:
            # Its read may wait for an earlier one that hangs.
            found = await in_time(self._reads.ask(key_hash, key_text))
        except StoreUnavailable:
            found = self._in_grace(key_hash)
            if found is None:
                raise
        if found is None:
            raise KeyRefused("unknown")
        return found

    async def _read(
        self, texts: Mapping[bytes, str], heard: ChangeLog
    ) -> Mapping[bytes, FoundKey | Exception | None]:
        """Read the keys of these texts by their hashes; without those that a change overtook."""
        read_at = self._clock.monotonic()
        hashes = {key_hash: legacy_hash(text) for key_hash, text in texts.items()}
        previous = self._previous_hashes(texts)
        # In one statement: between two the key could be stored under its new hash.
        hashes |= {old: hashes[key_hash] for key_hash, old in previous.items()}
        try:
            readings = await in_time(store.find(self._database, hashes))
        except StoreUnavailable as away:
            return {key_hash: self._in_grace(key_hash) or away for key_hash in texts}
        results: dict[bytes, FoundKey | Exception | None] = {}
        for key_hash in texts:
            reading = readings.get(key_hash) or readings.get(previous.get(key_hash, b""))
            found = self._entries.shared(reading.key) if reading is not None else None
            if _is_overtaken(found, heard):
                continue
            self._keep(key_hash, found, read_at=read_at)
            if reading is not None:
                self._on_balance(reading.key.principal.account_id, reading.available_nano_usd)
            results[key_hash] = found
        return results

    def _previous_hashes(self, texts: Mapping[bytes, str]) -> dict[bytes, bytes]:
        """Return the hashes of these texts under the previous secret, if there is one."""
        found = {name: self._hasher.previous_hash(text) for name, text in texts.items()}
        return {name: old for name, old in found.items() if old is not None}

    def _in_grace(self, key_hash: bytes) -> FoundKey | None:
        """Return the row of a key within the grace period of an unreachable database."""
        entry = self._entries.by_hash.get(key_hash)
        now = self._clock.monotonic()
        if entry is None or now >= entry.usable_until:
            return None
        entry.fresh_until = min(now + RETRY_SECONDS, entry.usable_until)
        entry.reread_at = now  # its changes may have been pushed during the gap
        entry.epoch = self._epoch
        return entry.found

    def _keep(self, key_hash: bytes, found: FoundKey | None, *, read_at: float) -> None:
        fresh_until = read_at + self._ttl_seconds
        self._entries.drop(key_hash)
        if found is None:
            self._unknown[key_hash] = fresh_until
            if len(self._unknown) > UNKNOWN_CAPACITY:
                self._unknown.popitem(last=False)
            return
        self._unknown.pop(key_hash, None)
        entry = _Entry(
            found,
            epoch=self._epoch,
            fresh_until=fresh_until,
            reread_at=read_at + REREAD_SECONDS,
        )
        self._entries.add(key_hash, entry)


def _owners(principal: Principal) -> tuple[str, ...]:
    """Return the payloads, besides the key's own, whose push changes the key."""
    account = f"account:{principal.account_id}"
    return (account, f"agent:{principal.agent_id}") if principal.agent_id else (account,)


def _refusal(found: FoundKey, now: float) -> RefusalReason | None:
    """Return why a key is refused, or None; `now` is in Unix seconds."""
    if found.refusal is not None:
        return found.refusal
    expires_at = found.principal.expires_at
    return "expired" if expires_at is not None and now >= expires_at else None


def _is_overtaken(found: FoundKey | None, heard: ChangeLog) -> bool:
    """Whether a change pushed during the read may have made its result stale."""
    if heard.has_gap:
        return True
    changes = heard.changes
    if found is None:
        # The key may have been created.
        return any(change.startswith("key:") for change in changes)
    principal = found.principal
    return not changes.isdisjoint((f"key:{principal.key_id}", *_owners(principal)))


# Writes the last use of keys, collected by the cache, with the heartbeat.
#
# No call waits for it, and nothing is lost while the database is unreachable (spec: Balance, which
# lists the requests that do not count as a use).

# Keys of one statement. So many are written with each heartbeat, of more a sixtieth: a key in use
# is at most about a minute late. Written each second, 10,000 keys took 70 ms of each from batches.
USES_AT_ONCE = 256
BEATS_TO_WRITE_ALL = 60


class LastUse:
    """Moves the times from the cache to the database."""

    def __init__(self, *, keys: KeyCache, database: Statements) -> None:
        self._keys = keys
        self._database = database
        self._pending: dict[str, float] = {}  # of the statement under way, or that failed

    def __repr__(self) -> str:
        return f"<LastUse {len(self._pending) + self._keys.touched_count} pending>"

    async def write(self) -> None:
        """Write what has waited longest; on StoreUnavailable it is kept for the next time."""
        await self._write(max(USES_AT_ONCE, self._keys.touched_count // BEATS_TO_WRITE_ALL))

    async def write_all(self) -> None:
        """Write everything noted so far. Raises StoreUnavailable."""
        await self._write(len(self._pending) + self._keys.touched_count)

    async def _write(self, most: int) -> None:
        while most > 0:
            self._pending |= self._keys.touched(min(most, USES_AT_ONCE) - len(self._pending))
            if not self._pending:
                return
            await store.write_last_use(self._database, self._pending)
            most -= len(self._pending)
            self._pending = {}
