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

import math
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Mapping
from itertools import islice
from typing import Any, Protocol

from actors.clock import Clock
from actors.store.errors import StoreUnavailable
from actors.store.session import Statements
from actors.store.waits import in_time
from gw.keys import store
from gw.keys.entries import GRACE_SECONDS, KeyEntries, KeyEntry, owners_of
from gw.keys.hashing import KeyHasher, legacy_hash
from gw.keys.key_text import is_key_text
from gw.keys.principal import KeyRefused, Principal
from gw.keys.shared_reads import ChangeLog, SharedReads
from gw.keys.store import FoundKey

# How long such an entry is used before the database is tried again.
RETRY_SECONDS = 1.0
# An entry is read again after this time however often it is confirmed: pushes are made by triggers,
# which an operator can bypass.
REREAD_SECONDS = 60.0
# Well-formed texts that are not keys, bounded separately so that guessing evicts no key.
UNKNOWN_CAPACITY = 10_000


class CacheMetrics(Protocol):
    """The metrics of the cache."""

    def cache(self, *, cache: str, hit: bool) -> None: ...


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

    def authenticate(
        self, key_hash: bytes, key_text: str, *, touch: bool = True
    ) -> Principal | Coroutine[Any, Any, Principal]:
        """Return the principal of a key from memory, else what reads it. Raises KeyRefused.

        The read raises StoreUnavailable, too. `touch=False` leaves the key's last use alone
        (reference 5.10).
        """
        found = self._fresh(key_hash)
        if found is None:
            return self._read_principal(key_hash, key_text, touch)
        self._metrics.cache(cache="keys", hit=True)
        return self._principal_of(found, touch)

    async def _read_principal(self, key_hash: bytes, key_text: str, touch: bool) -> Principal:
        return self._principal_of(await self._find(key_hash, key_text), touch)

    def _principal_of(self, found: FoundKey, touch: bool) -> Principal:
        """Return the principal of a good key, and note its use. Raises KeyRefused."""
        if found.refusal is not None:
            raise KeyRefused(found.refusal)
        principal, now = found.principal, self._clock.now()
        if principal.expires_at is not None and now >= principal.expires_at:
            raise KeyRefused("expired")
        if touch:
            self._touched[principal.key_id] = now
        return principal

    def lookup_hash(self, key_text: str) -> bytes:
        """Return the hash of a key's text for `authenticate`."""
        return self._hasher.lookup_hash(key_text)

    def invalidate(self, payload: str) -> None:
        """Drop entries named by a push, `key:<id>`, `account:<id>` or `agent:<id>`."""
        kind, _, name = payload.partition(":")
        if kind == "key":
            # It may be a new key whose text was used before it existed.
            self._unknown.clear()
            self._entries.drop_key(name)
        else:
            self._entries.drop_of(payload)
        self._reads.note_change(payload)

    def clear(self) -> None:
        """Believe nothing read so far: pushes may have been lost.

        Entries stay for their time of grace, should the database be away.
        """
        self._epoch += 1
        self._unknown.clear()
        self._reads.note_change(None)

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
            found = await in_time(self._reads.read_shared(key_hash, key_text))
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
        self._entries.drop_entry(key_hash)
        if found is None:
            self._unknown[key_hash] = fresh_until
            if len(self._unknown) > UNKNOWN_CAPACITY:
                self._unknown.popitem(last=False)
            return
        self._unknown.pop(key_hash, None)
        entry = KeyEntry(
            found,
            epoch=self._epoch,
            fresh_until=fresh_until,
            reread_at=read_at + REREAD_SECONDS,
        )
        self._entries.add_entry(key_hash, entry)


def _is_overtaken(found: FoundKey | None, heard: ChangeLog) -> bool:
    """Whether a change pushed during the read may have made its result stale."""
    if heard.has_gap:
        return True
    changes = heard.changes
    if found is None:
        # The key may have been created.
        return any(change.startswith("key:") for change in changes)
    principal = found.principal
    return not changes.isdisjoint((f"key:{principal.key_id}", *owners_of(principal)))
