"""Tokens of the admin API: shown once, stored as a digest, revoked for good."""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from typing import Annotated, Literal, get_args

from actors.store.queries import load
from actors.store.session import Statements
from gw.admin import audit
from gw.admin.audit import Actor
from gw.nouns import kinds
from gw.nouns.member import Member
from gw.nouns.noun import Noun
from gw.nouns.refused import Refused

Scope = Literal["read", "write"]
SCOPES: tuple[Scope, ...] = get_args(Scope)

PREFIX = "gw-admin-"
_TOKEN = re.compile(PREFIX + r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewToken:
    """A new token."""

    name: Annotated[str, Member(kinds.LABEL, "who uses it")]
    scope: Annotated[Scope, Member(kinds.choice(SCOPES), "read changes nothing")]


@dataclass(frozen=True, slots=True, kw_only=True)
class Token(NewToken):
    """A token without its text."""

    id: Annotated[str, Member(kinds.ID, before="name")]
    created_at: Annotated[datetime, Member(kinds.INSTANT)]
    created_by: Annotated[str, Member(kinds.TEXT)]
    revoked_at: Annotated[datetime | None, Member(kinds.INSTANT)]


TOKEN: Noun[NewToken, Token] = Noun("Token", NewToken, Token, alias="t")
SQL = load("gw.admin", "tokens.sql", TOKEN.sql)


async def create(session: Statements, actor: Actor, new: NewToken) -> tuple[str, str]:
    """Create a token; return its id, and its text, which is shown only once."""
    token_id, text = f"adm_{secrets.token_hex(10)}", PREFIX + secrets.token_hex(32)
    params = {"id": token_id, "digest": _digest(text), "by": f"{actor.kind} {actor.name}"}
    await session.execute(SQL["insert_token"], {**params, **TOKEN.row_of(new)})
    details = TOKEN.noted_new(new)
    await audit.note(session, actor, "admin_token.create", token_id, details=details)
    return token_id, text


async def show(store: Statements, token_id: str) -> Token:
    """Return one token. Raises Refused."""
    row = await store.fetch_one(SQL["token"], (token_id,))
    if row is None:
        raise Refused(f"there is no token {token_id}", "token_not_found", http_status=404)
    return TOKEN.of_row(row)


async def list_all(store: Statements) -> list[Token]:
    """Return every token, oldest first."""
    return [TOKEN.of_row(row) for row in await store.fetch_all(SQL["tokens"])]


async def find(store: Statements, text: str) -> Token | None:
    """Return the valid token of a text, or None."""
    if len(text) > 100 or _TOKEN.fullmatch(text) is None:
        return None
    row = await store.fetch_one(SQL["find_token"], (_digest(text),))
    return None if row is None else TOKEN.of_row(row)


async def revoke(session: Statements, actor: Actor, token_id: str) -> Token:
    """Revoke a token for good; repeating it changes nothing. Raises Refused."""
    await session.execute(SQL["revoke_token"], (token_id,))
    token = await show(session, token_id)
    await audit.note(session, actor, "admin_token.revoke", token_id, details={"name": token.name})
    return token


def _digest(text: str) -> bytes:
    return sha256(text.encode()).digest()
