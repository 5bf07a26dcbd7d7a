"""Requests for keys, which wait until an operator approves or rejects them.

A key of an agent that is not requested by an operator has a spend cap (spec: Agent API). The id
of the request becomes that of the key, which is created on approval.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from actors.store.session import Statements
from gw.keys import issue
from gw.keys.hashing import KeyHasher
from gw.keys.principal import AGENT
from gw.keys.sealing import KeySealer
from gw.keys.store import SQL
from gw.keys.views import Viewer


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


async def request_key(
    store: Statements,
    *,
    account_id: str,
    agent_id: str,
    name: str,
    requested_by: str,
    spend_cap_nano_usd: int,
) -> KeyRequest:
    """Store a request for a key of an agent, which must belong to this account."""
    request_id = issue.new_key_id()
    params = (request_id, account_id, agent_id, name, requested_by, spend_cap_nano_usd)
    await store.execute(SQL["ask"], params)
    return await show_request(store, request_id)


async def show_request(store: Statements, request_id: str) -> KeyRequest:
    """Return one request. Raises UnknownRequest."""
    row = await store.fetch_one(SQL["request"], (request_id,))
    if row is None:
        raise UnknownRequest(request_id)
    return KeyRequest(*row)


async def list_requests(store: Statements, account_id: str) -> list[KeyRequest]:
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


async def list_pending_requests(
    store: Statements, *, after: tuple[datetime, str] | None, limit: int
) -> list[PendingRequest]:
    """Return the pending requests of all accounts, oldest first, from a position on."""
    at, request_id = after or (None, None)
    params = {"at": at, "id": request_id, "limit": limit}
    return [PendingRequest(*row) for row in await store.fetch_all(SQL["pending_requests"], params)]


async def approve_request(
    store: Statements, request_id: str, *, viewer: Viewer, hasher: KeyHasher, sealer: KeySealer
) -> issue.IssuedKey:
    """Create the requested key; `store` is a transaction.

    Raises UnknownRequest, RequestIsDecided, WrongSecret.
    """
    request = await _decide(store, request_id, "approved", viewer)
    wish = issue.KeyWish(
        account_id=request.account_id,
        name=request.name,
        kind=AGENT,
        agent_id=request.agent_id,
        spend_cap_nano_usd=request.spend_cap_nano_usd,
        requested_by=request.requested_by,
    )
    return await issue.issue_key(store, wish, hasher=hasher, sealer=sealer, key_id=request.id)


async def reject_request(store: Statements, request_id: str, *, viewer: Viewer) -> KeyRequest:
    """Reject a request for good. Raises UnknownRequest, RequestIsDecided."""
    return await _decide(store, request_id, "rejected", viewer)


async def _decide(store: Statements, request_id: str, status: str, viewer: Viewer) -> KeyRequest:
    params = (status, viewer.os_user, viewer.host, request_id)
    if not await store.execute(SQL["decide"], params):
        await show_request(store, request_id)
        raise RequestIsDecided(request_id)
    return await show_request(store, request_id)
