"""Routes of keys."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from actors.store.session import Session
from channels.registry import Registry
from gw.admin import keys, values
from gw.admin.keys import KEYS_AT_ONCE_MAX, KeyQuery, KeyView, KeyWithText, WishRefused, with_text
from gw.admin.pagination import Page
from gw.admin.refusals import Invalid, Refused
from gw.api.admin import member_types
from gw.api.admin.table import AdminCall, Route
from gw.keys.issue import KeyWish
from gw.keys.principal import OWNER
from gw.keys.store import KeyChanges
from gw.keys.store import show as show_key
from gw.keys.views import views_of


class NewKey(Struct, forbid_unknown_fields=True):
    """A new key. `allowed_models`: null is every model, an empty list none."""

    account_id: member_types.Id
    name: member_types.Name
    kind: member_types.Kind = "console"
    agent_id: member_types.Id | None = None
    user: str = OWNER
    allowed_models: member_types.Models | None = None
    expires_at: values.Instant | None = None
    spend_cap_usd: member_types.Usd | None = None
    account_logs: bool = False


class NewKeys(Struct, forbid_unknown_fields=True):
    """New keys: all are made, or none."""

    keys: Annotated[list[NewKey], Meta(min_length=1, max_length=KEYS_AT_ONCE_MAX)]


class KeyIds(Struct, frozen=True):
    """The ids of keys: what is kept of a response that has their texts."""

    ids: list[str]


class KeysWithTexts(Struct, frozen=True):
    """New keys with their texts, in the order of the request."""

    keys: list[KeyWithText]


class KeySettings(Struct, forbid_unknown_fields=True):
    """New settings of a key; absent members stay, null removes a limit."""

    name: member_types.Name | UnsetType = UNSET
    kind: member_types.Kind | UnsetType = UNSET
    enabled: bool | UnsetType = UNSET
    allowed_models: member_types.Models | UnsetType | None = UNSET
    expires_at: values.Instant | UnsetType | None = UNSET
    spend_cap_usd: member_types.Usd | UnsetType | None = UNSET
    account_logs: bool | UnsetType = UNSET


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


async def list_keys(call: AdminCall) -> Page[KeyView]:
    return await keys.page(call.services.database, call.query)


async def show_one_key(call: AdminCall) -> KeyView:
    return await keys.show(call.services.database, call.path["key_id"])


async def create_key(call: AdminCall, session: Session) -> KeyIds:
    wish = _wish(call.body, call.registry)
    key, _ = await keys.create(session, call.actor, wish, call.services.secret)
    return KeyIds([key.id])


async def create_keys(call: AdminCall, session: Session) -> KeyIds:
    wishes = []
    for index, body in enumerate(call.body.keys):
        try:
            wishes.append(_wish(body, call.registry))
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


def _wish(body: NewKey, registry: Registry) -> KeyWish:
    cap = body.spend_cap_usd
    return KeyWish(
        account_id=body.account_id,
        name=values.label(body.name),
        kind=body.kind,
        agent_id=body.agent_id,
        allowed_models=member_types.models_of(body.allowed_models, registry),
        expires_at=body.expires_at,
        account_logs=body.account_logs,
        spend_cap_nano_usd=None if cap is None else values.usd(cap),
        user=values.user_name(body.user),
    )


async def set_key(call: AdminCall, session: Session) -> KeyView:
    body: KeySettings = call.body
    changes = KeyChanges()
    if body.name is not UNSET:
        changes["name"] = values.label(body.name)
    if body.kind is not UNSET:
        changes["kind"] = body.kind
    if body.enabled is not UNSET:
        changes["enabled"] = body.enabled
    if body.allowed_models is not UNSET:
        changes["allowed_models"] = member_types.models_of(body.allowed_models, call.registry)
    if body.expires_at is not UNSET:
        changes["expires_at"] = body.expires_at
    if body.spend_cap_usd is not UNSET:
        cap = body.spend_cap_usd
        changes["spend_cap_nano_usd"] = None if cap is None else values.usd(cap)
    if body.account_logs is not UNSET:
        changes["account_logs"] = body.account_logs
    return keys.view(await keys.change(session, call.actor, call.path["key_id"], changes))


async def revoke_key(call: AdminCall, session: Session) -> KeyView:
    return keys.view(await keys.revoke(session, call.actor, call.path["key_id"]))


async def reveal_key(call: AdminCall, session: Session) -> KeyIds:
    key, _ = await keys.reveal(session, call.actor, call.path["key_id"], call.services.secret)
    return KeyIds([key.id])


async def list_views(call: AdminCall) -> KeyViews:
    database, key_id = call.services.database, call.path["key_id"]
    await show_key(database, key_id)
    views = await views_of(database, key_id)
    return KeyViews([KeyViewed(one.viewed_at, one.os_user, one.host) for one in views[-VIEWS_MAX:]])


ROUTES: tuple[Route, ...] = (
    Route(
        method="GET",
        path="keys",
        name="list_keys",
        summary="Keys of an account, or of all, the newest first.",
        query=KeyQuery,
        response=Page[KeyView],
        read=list_keys,
    ),
    Route(
        method="POST",
        path="keys",
        name="create_key",
        summary="Make a key. Its text is in this response alone; a replay shows it, recorded.",
        body=NewKey,
        response=KeyWithText,
        status=201,
        change=create_key,
        finish=show_made_key,
    ),
    Route(
        method="POST",
        path="keys/bulk",
        name="create_keys",
        summary="Make up to 1,000 keys, all or none; a replay shows their texts, recorded.",
        body=NewKeys,
        response=KeysWithTexts,
        status=201,
        change=create_keys,
        scope="keys",
        finish=show_made,
    ),
    Route(
        method="GET",
        path="keys/{key_id}",
        name="show_key",
        summary="One key, without its text.",
        response=KeyView,
        read=show_one_key,
    ),
    Route(
        method="PATCH",
        path="keys/{key_id}",
        name="set_key",
        summary="Set what a key may do, and whether it works.",
        body=KeySettings,
        response=KeyView,
        change=set_key,
        in_force=True,
    ),
    Route(
        method="POST",
        path="keys/{key_id}/revoke",
        name="revoke_key",
        summary="Refuse a key for good.",
        response=KeyView,
        change=revoke_key,
        in_force=True,
    ),
    Route(
        method="POST",
        path="keys/{key_id}/reveal",
        name="reveal_key",
        summary="The text of a stored key; who asked for it and when is kept.",
        response=KeyWithText,
        change=reveal_key,
        finish=show_made_key,
    ),
    Route(
        method="GET",
        path="keys/{key_id}/views",
        name="list_key_views",
        summary="Who has been shown a key's text after its making.",
        response=KeyViews,
        read=list_views,
    ),
)
