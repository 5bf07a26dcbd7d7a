"""An operator's functions of keys: create, request, change, reveal, revoke; each is audited.

The table is `gw/keys/store.py`; `gw/keys/issue.py` makes keys, `gw/keys/key_requests.py`
keeps requests for them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from msgspec import structs

from actors.store.session import Session, Statements
from actors.wallet.ledger import UnknownAccount
from gw import accounts
from gw.admin import audit, pagination
from gw.admin.audit import Actor, Noted
from gw.admin.locking import with_lock
from gw.admin.refusals import refusal_of
from gw.agents import table
from gw.keys import issue, key_requests, store, views
from gw.keys.hashing import KeyHasher
from gw.keys.issue import NotRevealable
from gw.keys.key import KEY, KeyRecord, KeyWish
from gw.keys.key_requests import REQUEST, KeyRequest, KeyRequestWish
from gw.keys.principal import AGENT
from gw.keys.sealing import KeySealer
from gw.keys.secret import Secret
from gw.nouns.noun import Changes
from gw.nouns.refused import Invalid, Refused


class KeyWithText(KEY.View):  # type: ignore[name-defined, misc]
    """A key with its text, returned only by its creation and by a reveal."""

    key: str


def with_text(key: KeyRecord, text: str) -> KeyWithText:
    """Return a key with its text."""
    return KeyWithText(**structs.asdict(KEY.view(key)), key=text)


async def page(database: Statements, query: pagination.AccountQuery) -> pagination.Page[KeyRecord]:
    """Return a page of one or all accounts' keys, newest first. Raises UnknownAccount, Invalid."""
    return await pagination.newest(database, store.SQL["newest_first"], KEY, query)


def check_wish(wish: KeyWish) -> None:
    """Raise Invalid for conflicting settings of a new key."""
    if (wish.agent_id is not None) != (wish.kind == AGENT):
        raise Invalid(f"an agent goes with the kind {AGENT}, and that needs one")
    if wish.kind == AGENT:
        _check_fence(has_models=wish.allowed_models is not None, reads_logs=wish.account_logs)


def check_changes(changes: Changes, key: KeyRecord) -> None:
    """Raise Invalid for changes that `key` does not allow: an agent's key is restricted.

    Its restrictions cannot be removed, and other keys cannot get them.
    """
    if not changes:
        raise Invalid("nothing to set: name at least one setting")
    kind = changes.get("kind", key.kind)
    if (kind == AGENT) != (key.kind == AGENT):
        raise Invalid(f"{key.id} is of kind {key.kind} and cannot become one of kind {kind}")
    if key.kind == AGENT:
        _check_fence(
            has_models=changes.get("allowed_models") is not None,
            reads_logs=changes.get("account_logs", False),
        )


def _check_fence(*, has_models: bool, reads_logs: bool) -> None:
    """Raise Invalid for models and logs of an agent's key, which its account decides."""
    if has_models:
        raise Invalid(
            f"a key of kind {AGENT} has no list of models of its own: see `gw account set`"
        )
    if reads_logs:
        raise Invalid(f"a key of kind {AGENT} reads no logs")


async def create(
    session: Session, actor: Actor, wish: KeyWish, secret: Secret
) -> tuple[KeyRecord, str]:
    """Create a key; its text is returned only here and by a reveal.

    Raises UnknownAccount, Invalid, WrongSecret.
    """
    check_wish(wish)
    await _check_agent(session, wish.account_id, wish.agent_id)
    issued = await issue.issue_key(
        session, wish, hasher=KeyHasher(secret), sealer=KeySealer(secret)
    )
    return await _made(session, actor, "key.create", issued.id), issued.text


# Keys of one statement and of one request: a few hundred kilobytes.
KEYS_AT_ONCE_MAX = 1000


class WishRefused(Refused):
    """One of several keys was refused, and so none is made; `place` says which."""

    def __init__(self, place: str, error: Exception) -> None:
        refusal = refusal_of(error)
        assert refusal is not None
        super().__init__(
            f"{place}: {refusal.message}", refusal.code, http_status=refusal.http_status
        )


async def create_all(
    session: Session,
    actor: Actor,
    wishes: Sequence[KeyWish],
    secret: Secret,
    *,
    place: Callable[[int], str],
) -> list[KeyRecord]:
    """Create keys, all or, if one is refused, none; `with_texts` returns their texts.

    `place` says in an error which wish was refused, by its index. Raises WishRefused, WrongSecret.
    """
    await _check_wishes(session, wishes, place)
    hasher, sealer = KeyHasher(secret), KeySealer(secret)
    made: list[KeyRecord] = []
    for start in range(0, len(wishes), KEYS_AT_ONCE_MAX):
        part = wishes[start : start + KEYS_AT_ONCE_MAX]
        issued = await issue.issue_keys(session, part, hasher=hasher, sealer=sealer)
        found = await store.show_all(session, [one.id for one in issued])
        made += [key for key, _ in found]
        noted = [Noted(key.id, key.account_id, KEY.noted_new(key)) for key, _ in found]
        await audit.note_all(session, actor, "key.create", noted)
    return made


async def _check_wishes(
    session: Session, wishes: Sequence[KeyWish], place: Callable[[int], str]
) -> None:
    """Check wishes against each other and the database. Raises WishRefused."""
    last: dict[str, int] = {}  # the account's last wish, by which a refused account is placed
    for index, wish in enumerate(wishes):
        last[wish.account_id] = index
        try:
            check_wish(wish)
        except Invalid as error:
            raise WishRefused(place(index), error) from error
    try:
        await store.check_room(session, Counter(wish.account_id for wish in wishes))
    except (UnknownAccount, store.TooManyKeys) as error:
        raise WishRefused(place(last[str(error)]), error) from error
    known: dict[str, frozenset[str]] = {}
    for index, wish in enumerate(wishes):
        if wish.agent_id is None:
            continue
        if wish.account_id not in known:
            of_account = await table.list_all(session, wish.account_id)
            known[wish.account_id] = frozenset(agent.id for agent in of_account)
        if wish.agent_id not in known[wish.account_id]:
            raise WishRefused(place(index), _no_agent(wish.account_id, wish.agent_id))


async def with_texts(
    session: Session, key_ids: Sequence[str], secret: Secret
) -> list[tuple[KeyRecord, str]]:
    """Return stored keys with their texts, which is for who has just made them.

    Raises UnknownKey, NotRevealable, WrongSecret.
    """
    sealer = KeySealer(secret)
    shown: list[tuple[KeyRecord, str]] = []
    for key, sealed in await store.show_all(session, key_ids):
        if sealed is None:
            raise NotRevealable(key.id)
        shown.append((key, sealer.unseal(sealed, key_id=key.id)))
    return shown


async def note_revealed(session: Session, actor: Actor, keys: Sequence[KeyRecord]) -> None:
    """Record that the texts of these keys are about to be shown again."""
    await views.note_views(session, [key.id for key in keys], actor.viewer)
    noted = [Noted(key.id, key.account_id, {}) for key in keys]
    await audit.note_all(session, actor, "key.reveal", noted)


async def import_hash(session: Session, actor: Actor, wish: KeyWish, *, sha256: bytes) -> KeyRecord:
    """Store a key by its hash. Raises UnknownAccount, Invalid, HashIsTaken."""
    check_wish(wish)
    await _check_agent(session, wish.account_id, wish.agent_id)
    key_id = await issue.import_hash(session, wish, sha256=sha256)
    return await _made(session, actor, "key.import", key_id)


async def change(session: Session, actor: Actor, key_id: str, changes: Changes) -> KeyRecord:
    """Set the members named by `changes`.

    A key that an operator disables is locked: its account's owner does not enable it. Raises
    UnknownKey, KeyIsRevoked, KeyIsLocked, CapIsNeeded, Invalid.
    """
    before = await store.show(session, key_id)
    check_changes(changes, before)
    is_locked, refusal = partial(store.is_locked, session, key_id), store.KeyIsLocked(key_id)
    await store.change(session, key_id, await with_lock(actor, changes, is_locked, refusal))
    return await _noted(session, actor, "key.set", key_id, KEY.noted(changes))


async def revoke(session: Session, actor: Actor, key_id: str) -> KeyRecord:
    """Revoke a key for good. Raises UnknownKey."""
    await store.revoke(session, key_id)
    return await _noted(session, actor, "key.revoke", key_id, {})


async def reveal(
    session: Session, actor: Actor, key_id: str, secret: Secret
) -> tuple[KeyRecord, str]:
    """Return the text of a stored key, and record the view in the list of the key too.

    Raises UnknownKey, NotRevealable, WrongSecret.
    """
    text = await issue.reveal_key(session, key_id, KeySealer(secret), viewer=actor.viewer)
    return await _noted(session, actor, "key.reveal", key_id, {}), text


async def request_key(session: Session, actor: Actor, wish: KeyRequestWish) -> KeyRequest:
    """Store a request for a key of an agent. Raises UnknownAccount, Invalid."""
    await _check_agent(session, wish.account_id, wish.agent_id)
    request = await key_requests.request_key(session, wish)
    details = REQUEST.noted_new(request)
    await audit.note(
        session, actor, "key.request", request.id, account_id=request.account_id, details=details
    )
    return request


async def approve(
    session: Session, actor: Actor, request_id: str, secret: Secret
) -> tuple[KeyRecord, str]:
    """Create the requested key. Raises UnknownRequest, RequestIsDecided, WrongSecret."""
    issued = await key_requests.approve_request(
        session,
        request_id,
        viewer=actor.viewer,
        hasher=KeyHasher(secret),
        sealer=KeySealer(secret),
    )
    return await _made(session, actor, "key.approve", issued.id), issued.text


async def reject(session: Session, actor: Actor, request_id: str) -> KeyRequest:
    """Reject a request for good. Raises UnknownRequest, RequestIsDecided."""
    request = await key_requests.reject_request(session, request_id, viewer=actor.viewer)
    await audit.note(session, actor, "key.reject", request_id, account_id=request.account_id)
    return request


async def _check_agent(session: Statements, account_id: str, agent_id: str | None) -> None:
    """Check that an agent belongs to the account. Raises UnknownAccount, Invalid."""
    if agent_id is None:
        return
    await accounts.show(session, account_id)
    found = await table.list_all(session, account_id)
    if agent_id not in [agent.id for agent in found]:
        raise _no_agent(account_id, agent_id)


def _no_agent(account_id: str, agent_id: str) -> Invalid:
    return Invalid(f"the account {account_id} has no agent {agent_id}")


async def _made(session: Session, actor: Actor, action: str, key_id: str) -> KeyRecord:
    key = await store.show(session, key_id)
    details = KEY.noted_new(key)
    await audit.note(session, actor, action, key_id, account_id=key.account_id, details=details)
    return key


async def _noted(
    session: Session, actor: Actor, action: str, key_id: str, details: dict[str, Any]
) -> KeyRecord:
    key = await store.show(session, key_id)
    await audit.note(session, actor, action, key_id, account_id=key.account_id, details=details)
    return key
