"""The table of keys as functions: find, insert, list, change, revoke. The SQL is `keys.sql`.

Texts of keys are not used here, only their hashes and seals; `issue.py` creates keys.
A running gateway is notified of each change by the database, whichever process writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import reduce
from sys import intern
from typing import Any

import msgspec

from actors.store.errors import ConstraintViolated
from actors.store.queries import load
from actors.store.session import Statements
from actors.wallet.ledger import UnknownAccount
from channels.data_promise import read_demand, strictest
from gw.keys.agreed_prices import AgreedPrices
from gw.keys.key import KEY, KeyRecord, KeyWish
from gw.keys.principal import Agent, Principal, RefusalReason
from gw.nouns.noun import Changes

SQL = load("gw.keys", "keys.sql", KEY.sql)

ACCOUNT_MISSING = "keys_account_id_fkey"
HASH_TAKEN = "keys_legacy_hash_once"
# Keys of an account, revoked ones included, since they stay. Several that are made at once may be a
# few more.
KEYS_OF_ACCOUNT_MAX = 100_000
REQUESTED_WITHOUT_CAP = "keys_requested_have_a_cap"


class UnknownKey(Exception):
    """No key has this id."""


class KeyIsRevoked(Exception):
    """The key is revoked, which is for good (reference 1.3)."""


class TooManyKeys(Exception):
    """The account has as many keys as it may have, revoked ones included."""


class KeyIsLocked(Exception):
    """An operator has disabled the key, whom its account's owner does not overrule."""


class HashIsTaken(Exception):
    """A key with this hash was imported before."""


class CapIsNeeded(Exception):
    """The key was requested, and such keys must have a spend cap (reference 9.2)."""


@dataclass(frozen=True, slots=True)
class FoundKey:
    """The row of a hash: the principal's facts, and the reason of a refusal except expiry."""

    principal: Principal
    refusal: RefusalReason | None


@dataclass(frozen=True, slots=True)
class Reading:
    """A key's row, and its account's available balance at that time."""

    key: FoundKey
    available_nano_usd: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NewKeyRow:
    """A new row; exactly one of the two hashes is set, `sealed` only with the keyed one."""

    wish: KeyWish
    id: str
    prefix: str
    lookup_hash: bytes | None = None
    legacy_hash: bytes | None = None
    sealed: bytes | None = None

    def params(self) -> dict[str, Any]:
        """Return the columns."""
        return {
            **KEY.row_of(self.wish),
            "id": self.id,
            "prefix": self.prefix,
            "lookup_hash": self.lookup_hash,
            "legacy_hash": self.legacy_hash,
            "sealed": self.sealed,
        }


async def find(store: Statements, hashes: Mapping[bytes, bytes]) -> dict[bytes, Reading]:
    """Find the keys of some texts in one statement; unknown texts are left out.

    A text has a keyed hash, which identifies it in the result, and a plain one. An ordinary key
    takes precedence over an imported hash of the same text.
    """
    params = {"lookup": _bytea_array(hashes), "legacy": _bytea_array(hashes.values())}
    ordinary: dict[bytes, Reading] = {}
    imported: dict[bytes, Reading] = {}
    for lookup, legacy, available, *key in await store.fetch_all(SQL["find"], params):
        reading = Reading(_found(key), available)
        if lookup is not None:
            ordinary[bytes(lookup)] = reading
        if legacy is not None:
            imported[bytes(legacy)] = reading
    readings: dict[bytes, Reading] = {}
    for lookup, legacy in hashes.items():
        found = ordinary.get(lookup) or imported.get(legacy)
        if found is not None:
            readings[lookup] = found
    return readings


async def insert(store: Statements, key: NewKeyRow) -> None:
    """Store a new key. Raises UnknownAccount, HashIsTaken, TooManyKeys."""
    account_id = key.wish.account_id
    params = {**key.params(), "most": KEYS_OF_ACCOUNT_MAX}
    try:
        is_stored = await store.execute(SQL["insert"], params)
    except ConstraintViolated as error:
        if error.constraint_name == ACCOUNT_MISSING:
            raise UnknownAccount(account_id) from error
        if error.constraint_name == HASH_TAKEN:
            raise HashIsTaken(key.id) from error
        raise
    if not is_stored:
        raise TooManyKeys(account_id)


async def insert_all(store: Statements, keys: Sequence[NewKeyRow]) -> None:
    """Store new keys with keyed hashes in one statement; `check_room` comes first."""
    rows = []
    for key in keys:
        assert key.lookup_hash is not None
        assert key.sealed is not None
        rows.append(
            {**key.params(), "lookup_hash": key.lookup_hash.hex(), "sealed": key.sealed.hex()}
        )
    await store.execute(SQL["insert_many"], {"rows": msgspec.json.encode(rows).decode()})


async def check_room(store: Statements, new: Mapping[str, int]) -> None:
    """Check that accounts exist and may have so many more keys.

    Raises UnknownAccount, TooManyKeys.
    """
    params = {"accounts": list(new), "most": KEYS_OF_ACCOUNT_MAX}
    for account_id, is_there, present in await store.fetch_all(SQL["rooms"], params):
        if not is_there:
            raise UnknownAccount(account_id)
        if present + new[account_id] > KEYS_OF_ACCOUNT_MAX:
            raise TooManyKeys(account_id)


async def show_all(
    store: Statements, key_ids: Sequence[str]
) -> list[tuple[KeyRecord, bytes | None]]:
    """Return keys with their sealed texts, in the order of the ids. Raises UnknownKey."""
    rows = await store.fetch_all(SQL["show_many"], (list(key_ids),))
    found = {}
    for sealed, *row in rows:
        key = KEY.of_row(row)
        found[key.id] = (key, sealed and bytes(sealed))
    for key_id in key_ids:
        if key_id not in found:
            raise UnknownKey(key_id)
    return [found[key_id] for key_id in key_ids]


async def show(store: Statements, key_id: str) -> KeyRecord:
    """Return one key. Raises UnknownKey."""
    row = await store.fetch_one(SQL["show"], (key_id,))
    if row is None:
        raise UnknownKey(key_id)
    return KEY.of_row(row)


async def list_of_account(
    store: Statements, account_id: str, *, limit: int, after: tuple[datetime, str] | None = None
) -> list[KeyRecord]:
    """Return keys of an account after the one of an instant and id, oldest first.

    Empty for an unknown account.
    """
    return await _list(store, "oldest_first", account_id, limit, after)


async def list_newest(
    store: Statements,
    account_id: str | None,
    *,
    limit: int,
    after: tuple[datetime, str] | None = None,
) -> list[KeyRecord]:
    """Return keys of one or all accounts after the one of an instant and id, newest first."""
    return await _list(store, "newest_first", account_id, limit, after)


async def _list(
    store: Statements,
    statement: str,
    account_id: str | None,
    limit: int,
    position: tuple[datetime, str] | None,
) -> list[KeyRecord]:
    at, last_id = position or (None, None)
    params = {"account": account_id, "at": at, "id": last_id, "limit": limit}
    return [KEY.of_row(row) for row in await store.fetch_all(SQL[statement], params)]


async def change(store: Statements, key_id: str, changes: Changes) -> None:
    """Set the fields named by `changes`. Raises UnknownKey, KeyIsRevoked, CapIsNeeded."""
    try:
        touched = await store.execute(SQL["change"], {"id": key_id, **KEY.settings_of(changes)})
    except ConstraintViolated as error:
        if error.constraint_name == REQUESTED_WITHOUT_CAP:
            raise CapIsNeeded(key_id) from error
        raise
    if not touched:
        await show(store, key_id)
        raise KeyIsRevoked(key_id)


async def is_locked(session: Statements, key_id: str) -> bool:
    """Whether an operator has disabled a key, until the transaction ends. Raises UnknownKey."""
    row = await session.fetch_one(SQL["is_locked"], (key_id,))
    if row is None:
        raise UnknownKey(key_id)
    return bool(row[0])


async def revoke(store: Statements, key_id: str) -> None:
    """Revoke a key for good; revoking it again changes nothing. Raises UnknownKey."""
    if not await store.execute(SQL["revoke"], (key_id,)):
        raise UnknownKey(key_id)


async def read_sealed(store: Statements, key_id: str) -> bytes | None:
    """Return the sealed text of a key, None if only its hash is stored. Raises UnknownKey."""
    row = await store.fetch_one(SQL["sealed"], (key_id,))
    if row is None:
        raise UnknownKey(key_id)
    return None if row[0] is None else bytes(row[0])


async def read_sealed_after(
    store: Statements, key_id: str, *, limit: int
) -> list[tuple[str, bytes]]:
    """Return ids and sealed texts of the next keys that have one, in the order of their ids."""
    rows = await store.fetch_all(SQL["sealed_after"], (key_id, limit))
    return [(row[0], bytes(row[1])) for row in rows]


async def reseal(
    store: Statements,
    before: Sequence[tuple[str, bytes]],
    after: Sequence[tuple[bytes, bytes]],
) -> int:
    """Give keys (id, sealed text) another lookup hash and sealed text; return their number.

    A key changed since it was read is left alone.
    """
    if not before:
        return 0
    params = {
        "ids": [key_id for key_id, _ in before],
        "before": _bytea_array(sealed for _, sealed in before),
        "lookup": _bytea_array(lookup for lookup, _ in after),
        "sealed": _bytea_array(sealed for _, sealed in after),
    }
    return await store.execute(SQL["reseal"], params)


async def read_oldest_sealed(store: Statements) -> tuple[str, bytes] | None:
    """Return id and sealed text of the oldest key that has one."""
    row = await store.fetch_one(SQL["oldest_sealed"])
    return None if row is None else (row[0], bytes(row[1]))


async def write_last_use(store: Statements, used_at: Mapping[str, float]) -> None:
    """Record the last use of keys (id to Unix seconds); an earlier time changes nothing."""
    params = {"ids": list(used_at), "seconds": list(used_at.values())}
    await store.execute(SQL["write_last_use"], params)


def _bytea_array(values: Iterable[bytes]) -> str:
    """Return an array as one text, which PostgreSQL parses faster than a list of constants."""
    return "{" + ",".join([f'"\\\\x{value.hex()}"' for value in values]) + "}"


def _found(row: Sequence[Any]) -> FoundKey:
    key_id, account_id, name, prefix, kind, agent_id, allowed, expires_at = row[:8]
    account_logs, cap, rpm, concurrency, user, agent, prices, budgets_version = row[8:16]
    demands, is_revoked, is_enabled, is_account_enabled = row[16:]
    principal = Principal(
        # One object for each text: a dict finds it without reading the text, which is rarely in the
        # processor's cache where there are many accounts.
        key_id=intern(key_id),
        account_id=intern(account_id),
        key_name=name,
        key_prefix=prefix,
        kind=intern(kind),
        agent_id=agent_id,
        allowed_models=None if allowed is None else frozenset(allowed),
        expires_at=None if expires_at is None else expires_at.timestamp(),
        account_logs=account_logs,
        spend_cap_nano_usd=cap,
        rpm_limit=rpm,
        concurrency_limit=concurrency,
        user=user,
        agent=None if agent is None else _agent(**agent),
        prices=None if prices is None else AgreedPrices.of_rows(prices),
        budgets_version=budgets_version,
        demand=reduce(strictest, map(read_demand, demands or ()), None),
    )
    refusal: RefusalReason | None = None
    if is_revoked:
        refusal = "revoked"
    elif not is_enabled:
        refusal = "disabled"
    elif not is_account_enabled:
        refusal = "account_inactive"
    return FoundKey(principal, refusal)


def _agent(
    *,
    system_prompt: str,
    kbs: Sequence[str],
    allowed_models: Sequence[str] | None,
    **others: Any,
) -> Agent:
    return Agent(
        system_prompt=msgspec.json.encode(system_prompt),
        kbs=tuple(kbs),
        allowed_models=None if allowed_models is None else frozenset(allowed_models),
        **others,
    )
