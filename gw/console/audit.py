"""The audit trail as a page."""

from __future__ import annotations

from msgspec import structs

from gw.admin import audit
from gw.admin.audit import AuditEntry, AuditQuery
from gw.console.pages import ConsoleHandler
from gw.nouns.refused import Invalid


class AuditHandler(ConsoleHandler):
    """The audit trail: all of it for operators, an account's for its owner."""

    async def on_get(self) -> None:
        query = AuditQuery(account_id=self.who.account_id, cursor=self.parameters.text("cursor"))
        try:
            page = await audit.trail(self.services.database, query)
        except Invalid:
            self.refuse(400, "error.request")
        entries = page.data if self.who.is_operator else [as_seen_by_owner(e) for e in page.data]
        self.page("audit.html", entries=entries, cursor=page.next_cursor)


def as_seen_by_owner(entry: AuditEntry) -> AuditEntry:
    """Return a change without the operator's name, host and address.

    An owner's session was named after the operator who made its link; its id remains.
    """
    if entry.actor_kind != "owner":
        return structs.replace(entry, actor_kind="operator", actor="", origin="")
    session_id = entry.actor.rpartition("(")[2].removesuffix(")")
    return structs.replace(entry, actor=session_id)
