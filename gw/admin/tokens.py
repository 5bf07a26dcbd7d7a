"""Tokens of the admin API: shown once, stored as a digest, revoked for good."""

from __future__ import annotations

import re
import secrets
from hashlib import sha256
from typing import Literal, get_args

from msgspec import Struct

from actors.store.session import Statements
from gw.admin import audit
from gw.admin.audit import SQL, Actor
from gw.admin.refusals import Refused
from gw.admin.values import Instant

Scope = Literal["read", "write"]
SCOPES: tuple[Scope, ...] = get_args(Scope)

PREFIX = "gw-admin-"
_TOKEN = re.compile(PREFIX + r"[0-9a-f]{64}")


class TokenView(Struct, frozen=True):
    """A token without its text; the columns of `token` and `tokens` in their order."""

    id: str
    name: str
    scope: Scope
    created_at: Instant
    created_by: str
    revoked_at: Instant | None


async def create(session: Statements, actor: Actor, name: str, scope: Scope) -> tuple[str, str]:
    """Create a token; return its id, and its text, which is shown only once."""
    token_id, text = f"adm_{secrets.token_hex(10)}", PREFIX + secrets.token_hex(32)
    await session.execute(
        SQL["insert_token"], (token_id, name, scope, _digest(text), f"{actor.kind} {actor.name}")
    )
    details = {"name": name, "scope": scope}
    await audit.note(session, actor, "admin_token.create", token_id, details=details)
    return token_id, text


async def show(store: Statements, token_id: str) -> TokenView:
    """Return one token. Raises Refused."""
    row = await store.fetch_one(SQL["token"], (token_id,))
    if row is None:
        raise Refused(f"there is no token {token_id}", "token_not_found", http_status=404)
    return TokenView(*row)


async def list_all(store: Statements) -> list[TokenView]:
    """Return every token, oldest first."""
    return [TokenView(*row) for row in await store.fetch_all(SQL["tokens"])]


async def find(store: Statements, text: str) -> TokenView | None:
    """Return the valid token of a text, or None."""
    if len(text) > 100 or _TOKEN.fullmatch(text) is None:
        return None
    row = await store.fetch_one(SQL["find_token"], (_digest(text),))
    return None if row is None else TokenView(*row)


async def revoke(session: Statements, actor: Actor, token_id: str) -> TokenView:
    """Revoke a token for good; repeating it changes nothing. Raises Refused."""
    await session.execute(SQL["revoke_token"], (token_id,))
    token = await show(session, token_id)
    await audit.note(session, actor, "admin_token.revoke", token_id, details={"name": token.name})
    return token


def _digest(text: str) -> bytes:
    return sha256(text.encode()).digest()
