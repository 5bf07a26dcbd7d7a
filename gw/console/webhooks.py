"""Webhooks as pages for operators: all of them and the form that makes one; one, its deliveries."""

from __future__ import annotations

from actors.webhooks.settings import Settings
from gw.admin import webhooks as handled
from gw.admin.pagination import AccountQuery
from gw.admin.webhooks import DeliveryQuery, Replay
from gw.console.changes import actor_of, change, in_force, in_words
from gw.console.pages import ConsoleHandler
from gw.keys.sealing import KeySealer
from gw.webhooks import table
from gw.webhooks.settings import settings_of
from gw.webhooks.table import STATUSES, UnknownWebhook
from gw.webhooks.webhook import WEBHOOK, WEBHOOKS_MAX, WebhookRecord

DELIVERIES_SHOWN = 50


class WebhooksPage(ConsoleHandler):
    """The common parts of the pages of webhooks."""

    @property
    def sending(self) -> Settings:
        return settings_of(self.services.current.config)

    @property
    def sealer(self) -> KeySealer:
        return KeySealer(self.services.secret)

    async def show_one(
        self, webhook: WebhookRecord, *, secret: str | None = None, tested: str | None = None
    ) -> None:
        """Show a webhook; a new secret only in the response to a form, which is never cached."""
        status = next((one for one in STATUSES if one == self.parameters.text("status")), None)
        query = DeliveryQuery(
            limit=DELIVERIES_SHOWN, status=status, cursor=self.parameters.text("cursor")
        )
        with in_words():
            found = await handled.deliveries(self.services.database, webhook.id, query)
        self.page(
            "webhook.html",
            webhook=webhook,
            deliveries=found.data,
            cursor=found.next_cursor,
            status=status,
            statuses=STATUSES,
            form=WEBHOOK.form,
            secret=secret,
            tested=tested,
        )


class WebhooksHandler(WebhooksPage):
    """All webhooks, the newest first."""

    async def on_get(self) -> None:
        found = await handled.page(self.services.database, AccountQuery(limit=WEBHOOKS_MAX))
        self.page("webhooks.html", webhooks=found.data, form=WEBHOOK.new_form)

    async def on_post(self) -> None:
        async with change(self) as (transaction, actor):
            new = WEBHOOK.new_of_form(self, self.services.current.registry)
            webhook, secret = await handled.create(
                transaction, actor, new, settings=self.sending, sealer=self.sealer
            )
        await in_force(self)
        await self.show_one(webhook, secret=secret)


class WebhookHandler(WebhooksPage):
    """One webhook."""

    async def on_get(self, webhook_id: str) -> None:
        await self.show_one(await self._webhook(webhook_id))

    async def on_post(self, webhook_id: str) -> None:
        await self._webhook(webhook_id)
        act = self.field("act")
        if act == "test":
            await self._test(webhook_id)
            return
        secret = None
        async with change(self) as (transaction, actor):
            if act in ("enable", "disable"):
                changes = {"enabled": act == "enable"}
            elif act == "set":
                changes = WEBHOOK.of_form(self, WEBHOOK.form, self.services.current.registry)
            else:
                changes = {}
            if changes:
                await handled.change(transaction, actor, webhook_id, changes, settings=self.sending)
            elif act == "delete":
                await handled.delete(transaction, actor, webhook_id)
            elif act == "rotate":
                _, secret = await handled.rotate(
                    transaction,
                    actor,
                    webhook_id,
                    handled.KEEP_HOURS_DEFAULT,
                    sealer=self.sealer,
                )
            elif act == "replay":
                event = self.field("event") or None
                wish = Replay(event=event, dead=event is None)
                await handled.replay(transaction, actor, webhook_id, wish, settings=self.sending)
            else:
                self.refuse(400, "error.request")
        await in_force(self)
        if secret is not None:
            await self.show_one(await self._webhook(webhook_id), secret=secret)
            return
        self.redirect("/webhooks" if act == "delete" else f"/webhooks/{webhook_id}", status=303)

    async def _test(self, webhook_id: str) -> None:
        async with change(self):  # booked, so that the form is sent once
            pass
        sent = await handled.test(
            self.services.database,
            actor_of(self.who),
            webhook_id,
            settings=self.sending,
            sealer=self.sealer,
            clock=self.services.clock,
        )
        await self.show_one(await self._webhook(webhook_id), tested=sent.last_outcome)

    async def _webhook(self, webhook_id: str) -> WebhookRecord:
        try:
            return await table.show(self.services.database, webhook_id)
        except UnknownWebhook:
            self.refuse(404, "error.not_found")
