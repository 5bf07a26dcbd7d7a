"""Creates keys: draws the text, hashes and seals it, stores the row; and reveals it again.

The only place that has both a key's text and its row. Callers (the command line, the demo) validate
the members of a wish; the rules of the table are in `store.py`.
"""

from __future__ import annotations

import os
import pwd
import secrets
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from actors.store.database import Statements
from gw.keys import store
from gw.keys.cache import PREFIX, KeyHasher, new_key_text, shown_prefix
from gw.keys.principal import AGENT, OWNER
from gw.keys.secret import KeySealer, Secret
from gw.keys.store import SQL, NewKey

# The audit of views: each display of a stored key's text is recorded first.
#
# Spec: Authentication 8. The text printed once by `gw key create` is no view; every later one is.


@dataclass(frozen=True, slots=True)
class Viewer:
    """The viewer, as known to the operating system."""

    os_user: str
    host: str

    @classmethod
    def of_this_process(cls, environ: Mapping[str, str] = os.environ) -> Viewer:
        """Return the user of this process, and the user who ran it by `sudo`."""
        uid = os.getuid()
        try:
            user = pwd.getpwuid(uid).pw_name
        except KeyError:  # a container's user without a name
            user = f"uid {uid}"
        behind = environ.get("SUDO_USER", "")
        if uid == 0 and behind:  # only root's environment is trusted
            user = f"{behind} as {user}"
        return cls(user, socket.gethostname())


@dataclass(frozen=True, slots=True)
class View:
    """One view of a key."""

    viewed_at: datetime
    os_user: str
    host: str


async def note_view(store: Statements, key_id: str, viewer: Viewer) -> None:
    """Record that the text of this key is about to be shown."""
    await store.execute(SQL["note_view"], (key_id, viewer.os_user, viewer.host))


async def note_views(store: Statements, key_ids: Sequence[str], viewer: Viewer) -> None:
    """Record that the texts of these keys are about to be shown."""
    params = {"ids": list(key_ids), "os_user": viewer.os_user, "host": viewer.host}
    await store.execute(SQL["note_views"], params)


async def views_of(store: Statements, key_id: str) -> list[View]:
    """Return every view of a key, oldest first."""
    return [View(*row) for row in await store.fetch_all(SQL["views"], (key_id,))]


class NotRevealable(Exception):
    """Only the hash of the key is stored, so it cannot be revealed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyWish:
    """The members of a new key (spec: API key)."""

    account_id: str
    name: str
    kind: str = "console"
    agent_id: str | None = None
    allowed_models: Sequence[str] | None = None  # canonical ids; None: every model
    expires_at: datetime | None = None
    account_logs: bool = False
    spend_cap_nano_usd: int | None = None
    user: str = OWNER
    requested_by: str | None = None


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """A new key: its id, and the text, which is shown once."""

    id: str
    text: str


async def issue_key(
    database: Statements,
    wish: KeyWish,
    *,
    hasher: KeyHasher,
    sealer: KeySealer,
    key_id: str | None = None,
) -> IssuedKey:
    """Create and store a key. Raises UnknownAccount, WrongSecret, StoreError."""
    # The gateway would refuse a key hashed with another secret.
    await check_secret(database, sealer)
    issued = IssuedKey(key_id or new_key_id(), new_key_text())
    await store.insert(database, _sealed_row(wish, issued, hasher, sealer))
    return issued


async def issue_keys(
    database: Statements, wishes: Sequence[KeyWish], *, hasher: KeyHasher, sealer: KeySealer
) -> list[IssuedKey]:
    """Create and store keys in one statement, of accounts that have room for them.

    Raises WrongSecret, StoreError.
    """
    await check_secret(database, sealer)
    issued = [IssuedKey(new_key_id(), new_key_text()) for _ in wishes]
    rows = [
        _sealed_row(wish, key, hasher, sealer) for wish, key in zip(wishes, issued, strict=True)
    ]
    await store.insert_all(database, rows)
    return issued


async def import_hash(database: Statements, wish: KeyWish, *, sha256: bytes) -> str:
    """Store a key by the plain SHA-256 of its text; return its id.

    Raises UnknownAccount, HashIsTaken.
    """
    key_id = new_key_id()
    await store.insert(database, _row(wish, key_id=key_id, prefix=PREFIX, legacy_hash=sha256))
    return key_id


async def reveal_key(
    database: Statements, key_id: str, sealer: KeySealer, *, viewer: Viewer
) -> str:
    """Record the viewer, and return the text of a stored key.

    Raises UnknownKey, NotRevealable, WrongSecret.
    """
    sealed = await store.read_sealed(database, key_id)
    if sealed is None:
        raise NotRevealable(key_id)
    text = sealer.unseal(sealed, key_id=key_id)
    await note_view(database, key_id, viewer)
    return text


async def check_secret(database: Statements, sealer: KeySealer) -> None:
    """Raise WrongSecret if the keys in the database were stored with another secret."""
    found = await store.read_oldest_sealed(database)
    if found is not None:
        key_id, sealed = found
        sealer.unseal(sealed, key_id=key_id)


def new_key_id() -> str:
    """Return a new id of a key."""
    return f"key_{secrets.token_hex(10)}"


def _sealed_row(wish: KeyWish, issued: IssuedKey, hasher: KeyHasher, sealer: KeySealer) -> NewKey:
    return _row(
        wish,
        key_id=issued.id,
        prefix=shown_prefix(issued.text),
        lookup_hash=hasher.lookup_hash(issued.text),
        sealed=sealer.seal(issued.text, key_id=issued.id),
    )


def _row(
    wish: KeyWish,
    *,
    key_id: str,
    prefix: str,
    lookup_hash: bytes | None = None,
    legacy_hash: bytes | None = None,
    sealed: bytes | None = None,
) -> NewKey:
    return NewKey(
        id=key_id,
        account_id=wish.account_id,
        name=wish.name,
        kind=wish.kind,
        agent_id=wish.agent_id,
        prefix=prefix,
        lookup_hash=lookup_hash,
        legacy_hash=legacy_hash,
        sealed=sealed,
        allowed_models=wish.allowed_models,
        expires_at=wish.expires_at,
        account_logs=wish.account_logs,
        spend_cap_nano_usd=wish.spend_cap_nano_usd,
        user_name=wish.user,
        requested_by=wish.requested_by,
    )


# Requests for keys, which wait until an operator approves or rejects them.
#
# A key of an agent that is not requested by an operator has a spend cap (spec: Agent API). The id
# of the request becomes that of the key, which is created on approval.


class UnknownRequest(Exception):
    """No request has this id."""


class RequestIsDecided(Exception):
    """The request was approved or rejected before."""


@dataclass(frozen=True, slots=True)
class KeyRequest:
    """A request; the columns of `request` and `requests` in their order."""

    id: str
    account_id: str
    agent_id: str
    name: str
    requested_by: str
    spend_cap_nano_usd: int
    status: str  # pending, approved, rejected
    created_at: datetime
    decided_at: datetime | None
    decided_by: str | None


async def ask(
    store: Statements,
    *,
    account_id: str,
    agent_id: str,
    name: str,
    requested_by: str,
    spend_cap_nano_usd: int,
) -> KeyRequest:
    """Store a request for a key of an agent, which must belong to this account."""
    request_id = new_key_id()
    params = (request_id, account_id, agent_id, name, requested_by, spend_cap_nano_usd)
    await store.execute(SQL["ask"], params)
    return await show(store, request_id)


async def show(store: Statements, request_id: str) -> KeyRequest:
    """Return one request. Raises UnknownRequest."""
    row = await store.fetch_one(SQL["request"], (request_id,))
    if row is None:
        raise UnknownRequest(request_id)
    return KeyRequest(*row)


async def list_of_account(store: Statements, account_id: str) -> list[KeyRequest]:
    """Return the requests of an account, oldest first."""
    return [KeyRequest(*row) for row in await store.fetch_all(SQL["requests"], (account_id,))]


@dataclass(frozen=True, slots=True)
class PendingRequest:
    """A pending request; the columns of `pending_requests` in their order."""

    id: str
    account_id: str
    account_name: str
    agent_id: str
    agent_name: str
    name: str
    requested_by: str
    spend_cap_nano_usd: int
    created_at: datetime


async def list_pending(
    store: Statements, *, after: tuple[datetime, str] | None, limit: int
) -> list[PendingRequest]:
    """Return the pending requests of all accounts, oldest first, from a position on."""
    at, request_id = after or (None, None)
    params = {"at": at, "id": request_id, "limit": limit}
    return [PendingRequest(*row) for row in await store.fetch_all(SQL["pending_requests"], params)]


async def approve(
    store: Statements, request_id: str, *, viewer: Viewer, hasher: KeyHasher, sealer: KeySealer
) -> IssuedKey:
    """Create the requested key; `store` is a transaction.

    Raises UnknownRequest, RequestIsDecided, WrongSecret.
    """
    request = await _decide(store, request_id, "approved", viewer)
    wish = KeyWish(
        account_id=request.account_id,
        name=request.name,
        kind=AGENT,
        agent_id=request.agent_id,
        spend_cap_nano_usd=request.spend_cap_nano_usd,
        requested_by=request.requested_by,
    )
    return await issue_key(store, wish, hasher=hasher, sealer=sealer, key_id=request.id)


async def reject(store: Statements, request_id: str, *, viewer: Viewer) -> KeyRequest:
    """Reject a request for good. Raises UnknownRequest, RequestIsDecided."""
    return await _decide(store, request_id, "rejected", viewer)


async def _decide(store: Statements, request_id: str, status: str, viewer: Viewer) -> KeyRequest:
    params = (status, viewer.os_user, viewer.host, request_id)
    if not await store.execute(SQL["decide"], params):
        await show(store, request_id)
        raise RequestIsDecided(request_id)
    return await show(store, request_id)


# Stores keys of the previous secret under the current one.
#
# It runs while gateways serve: with both secrets configured, a key is found under either. Each
# batch is one statement, so that the command may be stopped and repeated at any time. Keys stored
# by their plain hash depend on no secret.

# Keys of one statement: gateways read them again at their next use.
ROTATED_AT_ONCE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """The numbers of keys stored again, and of those that were before."""

    rotated: int
    current: int


async def rotate_keys(database: Statements, secret: Secret) -> Rotation:
    """Store keys of the previous secret again. Raises WrongSecret if neither secret opens one."""
    hasher, sealer = KeyHasher(secret), KeySealer(secret)
    rotated = current = 0
    after = ""
    while batch := await store.read_sealed_after(database, after, limit=ROTATED_AT_ONCE):
        after = batch[-1][0]
        old, anew = [], []
        for key_id, sealed in batch:
            text, is_current = sealer.unseal_dated(sealed, key_id=key_id)
            if is_current:
                current += 1
                continue
            old.append((key_id, sealed))
            anew.append((hasher.lookup_hash(text), sealer.seal(text, key_id=key_id)))
        rotated += await store.reseal(database, old, anew)
    return Rotation(rotated=rotated, current=current)
