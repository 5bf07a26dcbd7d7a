"""Pages of keys: list and form, one key with its settings and text, client set-up, requests."""

from __future__ import annotations

from gw.accounts import Account
from gw.admin import keys as handled
from gw.agents import table
from gw.console.changes import change, in_force
from gw.console.client_setups import setups
from gw.console.pages import ConsoleHandler
from gw.console.texts import TEXTS
from gw.cursors import Position, write_position
from gw.keys import store
from gw.keys.key import KEY, KeyRecord, KeyWish
from gw.keys.key_requests import list_pending_requests
from gw.keys.principal import AGENT
from gw.keys.store import UnknownKey
from gw.nouns.member import Member
from gw.nouns.noun import Changes
from gw.nouns.refused import Invalid

PAGE = 100


class KeysPage(ConsoleHandler):
    """The common parts of the pages of keys."""

    async def key(self, account_id: str, key_id: str) -> tuple[Account, KeyRecord]:
        """Return a key of an account that the session may see; refuse any other with 404."""
        account = await self.account(account_id)
        try:
            key = await store.show(self.services.database, key_id)
        except UnknownKey:
            self.refuse(404, "error.not_found")
        if key.account_id != account_id:
            self.refuse(404, "error.not_found")
        return account, key

    def read_settings(self, key: KeyRecord | None = None) -> Changes:
        """Parse the form of a new key or of this one. Raises Invalid, Refused."""
        return KEY.of_form(self, form_of(key), self.services.current.registry)

    def show_key(self, account: Account, key: KeyRecord, *, text: str | None, is_new: bool) -> None:
        """Show a key; its text only in the response to a form, which is never cached."""
        self.page(
            "key.html",
            account=account,
            key=key,
            status=key.status_at(self.now),
            text=text,
            is_new=is_new,
            form=form_of(key),
            models=model_names(self),
            setups=setups(self, key, text),
        )


class KeysHandler(KeysPage):
    """The keys of an account, the newest first, and the form that creates one."""

    async def on_get(self, account_id: str) -> None:
        account = await self.account(account_id)
        database = self.services.database
        after = self.after()
        found = await store.list_newest(database, account_id, limit=PAGE + 1, after=after)
        more = found[PAGE - 1] if len(found) > PAGE else None
        self.page(
            "keys.html",
            account=account,
            keys=[(key, key.status_at(self.now)) for key in found[:PAGE]],
            after=write_position(Position(more.created_at, more.id)) if more else None,
            form=form_of(None),
            models=model_names(self),
            agents=await table.list_all(database, account_id),
        )

    async def on_post(self, account_id: str) -> None:
        account = await self.account(account_id)
        async with change(self) as (transaction, actor):
            agent_id = self.field("agent") or None
            kind = "console" if agent_id is None else AGENT
            wish = KeyWish(
                account_id=account_id, agent_id=agent_id, kind=kind, **self.read_settings()
            )
            key, text = await handled.create(transaction, actor, wish, self.services.secret)
        self.show_key(account, key, text=text, is_new=True)


class KeyHandler(KeysPage):
    """One key."""

    async def on_get(self, account_id: str, key_id: str) -> None:
        account, key = await self.key(account_id, key_id)
        self.show_key(account, key, text=None, is_new=False)

    async def on_post(self, account_id: str, key_id: str) -> None:
        account, key = await self.key(account_id, key_id)
        act = self.field("act")
        if act == "reveal":
            async with change(self) as (transaction, actor):
                key, text = await handled.reveal(transaction, actor, key_id, self.services.secret)
            self.show_key(account, key, text=text, is_new=False)
            return
        async with change(self) as (transaction, actor):
            if act == "revoke":
                # Its name must be typed, so that no slip of the hand revokes a key.
                if self.field("word") != key.name:
                    raise Invalid(TEXTS("keys.wrong_word", name=key.name))
                await handled.revoke(transaction, actor, key_id)
            else:
                await handled.change(transaction, actor, key_id, self._changes(act, key))
        await in_force(self)
        self.redirect(f"/accounts/{account_id}/keys/{key_id}", status=303)

    def _changes(self, act: str, key: KeyRecord) -> Changes:
        """Return the changes of the button's form. Raises Invalid, Refused."""
        if act in ("enable", "disable"):
            return {"enabled": act == "enable"}
        if act != "set":
            self.refuse(400, "error.request")
        return self.read_settings(key)


class RequestsHandler(KeysPage):
    """Pending requests for keys of agents, the oldest first."""

    async def on_get(self) -> None:
        after = self.after()
        found = await list_pending_requests(self.services.database, after=after, limit=PAGE + 1)
        more = found[PAGE - 1] if len(found) > PAGE else None
        self.page(
            "requests.html",
            requests=found[:PAGE],
            after=write_position(Position(more.created_at, more.id)) if more else None,
        )

    async def on_post(self) -> None:
        """Create the key and show its text in this response, or reject the request."""
        request_id, act = self.field("id"), self.field("act")
        if act not in ("approve", "reject"):
            self.refuse(400, "error.request")
        async with change(self) as (transaction, actor):
            if act == "reject":
                await handled.reject(transaction, actor, request_id)
            else:
                secret = self.services.secret
                key, text = await handled.approve(transaction, actor, request_id, secret)
        if act == "reject":
            self.redirect("/requests", status=303)
            return
        self.show_key(await self.account(key.account_id), key, text=text, is_new=True)


def form_of(key: KeyRecord | None) -> list[Member]:
    """Return the members in the form of a new key or of this one."""
    # Models and logs of an agent's key are its account's business.
    fixed = ("allowed_models", "account_logs") if key and key.kind == AGENT else ()
    return [one for one in KEY.form if one.field not in fixed]


def model_names(handler: ConsoleHandler) -> list[str]:
    """Return the models that a key may be allowed, in the order of the configuration."""
    models = handler.services.current.registry.models.values()
    return [model.id for model in models if model.callable]
