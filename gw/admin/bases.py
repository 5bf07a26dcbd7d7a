"""An operator's functions of knowledge bases: list, import, grant, remove; each change is audited.

The bases are in `gw/knowledge/`.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, structs

from actors.store.database import Database
from actors.store.session import Session, Statements
from gw import accounts
from gw.admin import audit
from gw.admin.audit import Actor
from gw.knowledge import bases
from gw.knowledge.bases import BaseRecord
from gw.knowledge.folder import Folder
from gw.knowledge.importing import Imported, ImportTarget, import_folder
from gw.knowledge.removal import clean_up, remove_base, remove_page
from gw.knowledge.sources import SourceStore
from gw.nouns.refused import Invalid, Refused
from gw.nouns.values import user_name


class Removed(Struct, frozen=True, omit_defaults=True):
    """A removed base, or page of one. `warnings`: sources that are still stored."""

    kb_id: str
    user: str | None
    removed: bool
    page: str | None = None
    warnings: list[str] | None = None


async def list_all(store: Statements, account_id: str) -> list[BaseRecord]:
    """Return every imported base of an account. Raises UnknownAccount."""
    await accounts.show(store, account_id)
    return await bases.list_bases(store, account_id)


async def find(store: Statements, target: ImportTarget) -> BaseRecord:
    """Return one base. Raises UnknownAccount, UnknownBase."""
    await accounts.show(store, target.account_id)
    return await bases.find_base(store, target.account_id, target.kb_id, target.user)


async def import_pages(
    database: Database,
    actor: Actor,
    target: ImportTarget,
    folder: Folder,
    sources: SourceStore,
    *,
    keep: bool,
) -> Imported:
    """Replace a base by the folder. Raises like `import_folder`."""

    async def noted(session: Session, done: Imported) -> None:
        details = {
            "user": target.user,
            "pages": done.pages,
            "added": done.added,
            "changed": done.changed,
            "removed": done.removed,
        }
        await _note(session, actor, "kb.import", target, details)

    done = await import_folder(database, target, folder, sources, keep=keep, also=noted)
    done.warnings += await clean_up(database, sources, target.account_id)
    return done


async def remove(
    database: Database,
    actor: Actor,
    target: ImportTarget,
    sources: SourceStore,
    *,
    page: str | None = None,
) -> Removed:
    """Remove a base, or one page by its id or alias. Raises UnknownBase, Refused."""

    async def noted(session: Session) -> None:
        details = {"user": target.user, "page": page}
        await _note(session, actor, "kb.remove", target, details)

    removed = Removed(kb_id=target.kb_id, user=target.user, removed=True)
    if page is None:
        await remove_base(database, target, also=noted)
    else:
        page_id = await remove_page(database, target, page, also=noted)
        if page_id is None:
            raise Refused(f"the base has no page {page}", "page_not_found", http_status=404)
        removed = structs.replace(removed, page=page_id)
    warnings = await clean_up(database, sources, target.account_id)
    return structs.replace(removed, warnings=warnings) if warnings else removed


async def grant(
    session: Session,
    actor: Actor,
    target: ImportTarget,
    *,
    user: str | None,
    account: str | None,
) -> BaseRecord:
    """Grant a base to a user of its account, or to all users of another one.

    Raises UnknownAccount, UnknownBase, Invalid, Refused.
    """
    base = await _granted(session, target, user, account)
    if account == target.account_id:
        raise Refused("an account's own users need no grant to it", "own_account")
    await bases.grant(session, base, user=user, account=account)
    await _note(session, actor, "kb.grant", target, {"to_user": user, "to_account": account})
    return await find(session, target)


async def revoke(
    session: Session,
    actor: Actor,
    target: ImportTarget,
    *,
    user: str | None,
    account: str | None,
) -> BaseRecord:
    """Revoke a grant. Raises UnknownAccount, UnknownBase, Invalid, Refused."""
    base = await _granted(session, target, user, account)
    if not await bases.revoke(session, base, user=user, account=account):
        raise Refused("there is no such grant", "grant_not_found", http_status=404)
    await _note(session, actor, "kb.revoke", target, {"to_user": user, "to_account": account})
    return await find(session, target)


async def _granted(
    session: Session, target: ImportTarget, user: str | None, account: str | None
) -> BaseRecord:
    if (user is None) == (account is None):
        raise Invalid("a grant is to a user or to an account: give one of them")
    if user is not None:
        user_name(user)
    return await find(session, target)


async def _note(
    session: Session,
    actor: Actor,
    action: str,
    target: ImportTarget,
    details: Mapping[str, object],
) -> None:
    await audit.note(
        session, actor, action, target.kb_id, account_id=target.account_id, details=details
    )
