"""Requests for keys, which wait until an operator approves or rejects them.

A key of an agent that is not requested by an operator has a spend cap (reference 9.2). The id
of the request becomes that of the key, which is created on approval.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from actors.store.queries import load
from actors.store.session import Statements
from gw.keys.hashing import KeyHasher
from gw.keys.issue import IssuedKey, issue_key, new_key_id
from gw.keys.key import KeyWish
from gw.keys.principal import AGENT
from gw.keys.sealing import KeySealer
from gw.keys.views import Viewer
from gw.nouns import kinds
from gw.nouns.member import Member
from gw.nouns.noun import Noun


class UnknownRequest(Exception):
    """No request has this id."""


class RequestIsDecided(Exception):
    """The request was approved or rejected before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRequestWish:
    """A new request for a key of an agent of the account."""

    account_id: Annotated[
        str, Member(kinds.ID, "of the account, acct_…", option="account", is_noted=False)
    ]
    agent_id: Annotated[str, Member(kinds.ID, "which it speaks for", option="agent")]
    name: Annotated[str, Member(kinds.LABEL, "as lists show it")]
    requested_by: Annotated[str, Member(kinds.LABEL, "as the approver sees it")]
    spend_cap_nano_usd: Annotated[
        int, Member(kinds.USD, "what it may spend in all", name="spend_cap_usd", is_noted=False)
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRequest(KeyRequestWish):
    """A request. `status`: pending, approved or rejected."""

    id: Annotated[str, Member(kinds.ID, before="account_id")]
    status: Annotated[str, Member(kinds.TEXT)]
    created_at: Annotated[datetime, Member(kinds.INSTANT)]
    decided_at: Annotated[datetime | None, Member(kinds.INSTANT)]
    decided_by: Annotated[str | None, Member(kinds.TEXT)]


REQUEST: Noun[KeyRequestWish, KeyRequest] = Noun("Request", KeyRequestWish, KeyRequest, alias="r")
SQL = load("gw.keys", "key_requests.sql", REQUEST.sql)


async def request_key(store: Statements, wish: KeyRequestWish) -> KeyRequest:
    """Store a request for a key of an agent, which must belong to this account."""
    request_id = new_key_id()
    await store.execute(SQL["ask"], {"id": request_id, **REQUEST.row_of(wish)})
    return await show_request(store, request_id)


async def show_request(store: Statements, request_id: str) -> KeyRequest:
    """Return one request. Raises UnknownRequest."""
    row = await store.fetch_one(SQL["request"], (request_id,))
    if row is None:
        raise UnknownRequest(request_id)
    return REQUEST.of_row(row)


async def list_requests(store: Statements, account_id: str) -> list[KeyRequest]:
    """Return the requests of an account, oldest first."""
    rows = await store.fetch_all(SQL["requests"], (account_id,))
    return [REQUEST.of_row(row) for row in rows]


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


async def reject_request(store: Statements, request_id: str, *, viewer: Viewer) -> KeyRequest:
    """Reject a request for good. Raises UnknownRequest, RequestIsDecided."""
    return await _decide(store, request_id, "rejected", viewer)


async def _decide(store: Statements, request_id: str, status: str, viewer: Viewer) -> KeyRequest:
    params = (status, viewer.os_user, viewer.host, request_id)
    if not await store.execute(SQL["decide"], params):
        await show_request(store, request_id)
        raise RequestIsDecided(request_id)
    return await show_request(store, request_id)
