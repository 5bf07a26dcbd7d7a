"""The audit trail: actor, change, time and origin, written in the transaction of the change.

Every use-case of this folder that changes data writes one row, without secrets: of a key its id, of
a prompt its length.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
from msgspec import Struct

from actors.store.queries import load
from actors.store.session import Statements
from actors.wallet.storable import to_json
from gw.admin.pagination import Page, PageQuery, page_of
from gw.keys.views import Viewer
from gw.nouns.values import Instant

SQL = load("gw.admin", "admin.sql")

# The actor: a command, a token of the admin API, or a user signed in to the console.
ActorKind = Literal["command", "token", "operator", "owner"]


class Actor(Struct, frozen=True):
    """The author of a change. `origin`: the client's address, or the host of a command."""

    kind: ActorKind
    name: str
    origin: str

    @classmethod
    def of_this_process(cls) -> Actor:
        """Return the user of this process, which runs a command."""
        viewer = Viewer.of_this_process()
        return cls("command", viewer.os_user, viewer.host)

    @property
    def viewer(self) -> Viewer:
        """The actor as the viewer of a key's text."""
        name = self.name if self.kind == "command" else f"{self.kind} {self.name}"
        return Viewer(name, self.origin)


class AuditEntry(Struct, frozen=True):
    """One change. `details` are the new values, without secrets."""

    id: int
    at: Instant
    actor_kind: ActorKind
    actor: str
    origin: str
    action: str
    object: str
    account_id: str | None
    details: dict[str, Any]


class AuditQuery(PageQuery, frozen=True):
    """The query of a list of changes."""

    account_id: str | None = None
    object: str | None = None
    actor: str | None = None
    action: str | None = None


async def note(
    session: Statements,
    actor: Actor,
    action: str,
    object_id: str,
    *,
    account_id: str | None = None,
    details: Mapping[str, Any] | None = None,
) -> None:
    """Record one change; `session` is its transaction."""
    row = {
        "kind": actor.kind,
        "actor": actor.name,
        "origin": actor.origin,
        "action": action,
        "object": object_id,
        "account": account_id,
        "details": to_json(msgspec.to_builtins(details or {})),
    }
    await session.execute(SQL["note"], row)


@dataclass(frozen=True, slots=True)
class Noted:
    """One of several changes of one kind."""

    object_id: str
    account_id: str | None
    details: Mapping[str, Any]


async def note_all(
    session: Statements, actor: Actor, action: str, changes: Sequence[Noted]
) -> None:
    """Record several changes of one kind, a row each; `session` is their transaction."""
    rows = [
        {"object": one.object_id, "account": one.account_id, "details": one.details}
        for one in changes
    ]
    row = {
        "kind": actor.kind,
        "actor": actor.name,
        "origin": actor.origin,
        "action": action,
        "rows": to_json(msgspec.to_builtins(rows)),
    }
    await session.execute(SQL["note_many"], row)


async def trail(store: Statements, query: AuditQuery) -> Page[AuditEntry]:
    """Return a page of changes, newest first. Raises Invalid for a cursor of another list."""
    before = query.position(int)
    rows = await store.fetch_all(
        SQL["trail"],
        {
            "account": query.account_id,
            "object": query.object,
            "actor": query.actor,
            "action": query.action,
            "before": before,
            "limit": query.limit + 1,
        },
    )
    return page_of([AuditEntry(*row) for row in rows], query.limit, lambda entry: entry.id)
