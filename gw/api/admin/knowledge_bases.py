"""Routes of knowledge bases."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from actors.store.session import Session
from gw.admin import bases, pagination
from gw.admin.bases import Removed
from gw.admin.pagination import Page, PageQuery
from gw.api.admin.table import AdminCall, Route, route
from gw.knowledge.bases import BASE, PERSONAL
from gw.knowledge.importing import ImportTarget
from gw.nouns.values import Id, User, identifier


class OneBase(Struct, frozen=True, forbid_unknown_fields=True):
    """Selects a base by its id: a user's personal one, or the named one."""

    user: User | None = None


class WhatOfBase(OneBase, frozen=True):
    """Selects a part of a base: all of it, or one page by its id or an alias."""

    page: Annotated[str, Meta(min_length=1, max_length=500)] | None = None


class Grantee(Struct, forbid_unknown_fields=True):
    """The grantee: a user of the base's account, or all users of another account."""

    user: User | None = None
    account_id: Id | None = None


def _target(call: AdminCall) -> ImportTarget:
    user = getattr(call.query, "user", None)
    kb_id = call.path["kb_id"]
    if user is None and kb_id == PERSONAL:
        user = "owner"
    account_id = identifier(call.path["account_id"])
    return ImportTarget(account_id=account_id, kb_id=kb_id, user=user)


async def list_kbs(call: AdminCall) -> Page[Struct]:
    """Knowledge bases of an account. `gw kb import` fills them."""
    found = await bases.list_all(call.services.database, call.path["account_id"])
    page = pagination.page_in_order(found, call.query, lambda one: f"{one.kb_id}/{one.user or ''}")
    return pagination.shown(page, BASE.view)


async def show_kb(call: AdminCall) -> Struct:
    """One knowledge base."""
    return BASE.view(await bases.find(call.services.database, _target(call)))


async def remove_kb(call: AdminCall) -> Removed:
    """Remove a knowledge base, or one page of it."""
    services = call.services
    return await bases.remove(
        services.database, call.actor, _target(call), services.sources, page=call.query.page
    )


async def grant_kb(call: AdminCall, session: Session) -> Struct:
    """Let a user, or another account, read a named base."""
    whom: Grantee = call.body
    base = await bases.grant(
        session, call.actor, _target(call), user=whom.user, account=whom.account_id
    )
    return BASE.view(base)


async def revoke_kb(call: AdminCall, session: Session) -> Struct:
    """Take such a grant back."""
    whom: Grantee = call.body
    base = await bases.revoke(
        session, call.actor, _target(call), user=whom.user, account=whom.account_id
    )
    return BASE.view(base)


ROUTES: tuple[Route, ...] = (
    route(
        "GET",
        "accounts/{account_id}/kbs",
        list_kbs,
        response=pagination.pages_of(BASE.View),
        query=PageQuery,
    ),
    route("GET", "accounts/{account_id}/kbs/{kb_id}", show_kb, response=BASE.View, query=OneBase),
    route("DELETE", "accounts/{account_id}/kbs/{kb_id}", remove_kb, query=WhatOfBase),
    route(
        "POST",
        "accounts/{account_id}/kbs/{kb_id}/grant",
        grant_kb,
        response=BASE.View,
        body=Grantee,
    ),
    route(
        "POST",
        "accounts/{account_id}/kbs/{kb_id}/revoke",
        revoke_kb,
        response=BASE.View,
        body=Grantee,
    ),
)
