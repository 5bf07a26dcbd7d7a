"""Routes of keys."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from actors.store.session import Session
from gw.admin import keys
from gw.admin.keys import KEYS_AT_ONCE_MAX, KeyWithText, WishRefused, with_text
from gw.api.admin.noun_routes import NounRoutes
from gw.api.admin.table import AdminCall, Route, route
from gw.keys import store
from gw.keys.key import KEY
from gw.keys.views import views_of
from gw.nouns import values
from gw.nouns.refused import Invalid, Refused


class NewKeys(Struct, forbid_unknown_fields=True):
    """New keys: all are made, or none."""

    keys: Annotated[list[KEY.New], Meta(min_length=1, max_length=KEYS_AT_ONCE_MAX)]  # type: ignore[name-defined]


class KeyIds(Struct, frozen=True):
    """The ids of keys: what is kept of a response that has their texts."""

    ids: list[str]


class KeysWithTexts(Struct, frozen=True):
    """New keys with their texts, in the order of the request."""

    keys: list[KeyWithText]


class KeyViewed(Struct, frozen=True):
    """One view of a key's text after its creation."""

    viewed_at: values.Instant
    os_user: str
    host: str


class KeyViews(Struct, frozen=True):
    """The latest views of a key's text, oldest first."""

    data: list[KeyViewed]


# The views of one key in a list, the latest ones.
VIEWS_MAX = 200


async def create_key(call: AdminCall, session: Session) -> KeyIds:
    """Make a key. Its text is in this response alone; a replay shows it, recorded."""
    wish = KEY.new_of(call.body, call.registry)
    key, _ = await keys.create(session, call.actor, wish, call.services.secret)
    return KeyIds([key.id])


async def create_keys(call: AdminCall, session: Session) -> KeyIds:
    """Make up to 1,000 keys, all or none; a replay shows their texts, recorded."""
    wishes = []
    for index, body in enumerate(call.body.keys):
        try:
            wishes.append(KEY.new_of(body, call.registry))
        except (Invalid, Refused) as error:
            raise WishRefused(_place(index), error) from error
    secret = call.services.secret
    made = await keys.create_all(session, call.actor, wishes, secret, place=_place)
    return KeyIds([key.id for key in made])


async def show_made(
    call: AdminCall, session: Session, kept: bytes, is_replayed: bool
) -> KeysWithTexts:
    """Return keys with their texts; when they are shown again, that is recorded."""
    ids = msgspec.json.decode(kept, type=KeyIds).ids
    made = await keys.with_texts(session, ids, call.services.secret)
    if is_replayed:
        await keys.note_revealed(session, call.actor, [key for key, _ in made])
    return KeysWithTexts([with_text(key, text) for key, text in made])


async def show_made_key(
    call: AdminCall, session: Session, kept: bytes, is_replayed: bool
) -> KeyWithText:
    """Return one key likewise."""
    return (await show_made(call, session, kept, is_replayed)).keys[0]


def _place(index: int) -> str:
    return f"keys[{index}]"


async def reveal_key(call: AdminCall, session: Session) -> KeyIds:
    """The text of a stored key; who asked for it and when is kept."""
    key, _ = await keys.reveal(session, call.actor, call.path["key_id"], call.services.secret)
    return KeyIds([key.id])


async def list_key_views(call: AdminCall) -> KeyViews:
    """Who has been shown a key's text after its making."""
    database, key_id = call.services.database, call.path["key_id"]
    await store.show(database, key_id)
    views = await views_of(database, key_id)
    return KeyViews([KeyViewed(one.viewed_at, one.os_user, one.host) for one in views[-VIEWS_MAX:]])


_OF = NounRoutes(KEY, "keys")
ROUTES: tuple[Route, ...] = (
    _OF.list("Keys of an account, or of all, the newest first.", keys.page),
    route("POST", "keys", create_key, body=KEY.New, status=201, finish=show_made_key),
    route(
        "POST", "keys/bulk", create_keys, body=NewKeys, status=201, scope="keys", finish=show_made
    ),
    _OF.show("One key, without its text.", store.show),
    _OF.set("Set what a key may do, and whether it works.", keys.change),
    _OF.do("revoke", "Refuse a key for good.", keys.revoke),
    route("POST", "keys/{key_id}/reveal", reveal_key, finish=show_made_key),
    route("GET", "keys/{key_id}/views", list_key_views),
)
