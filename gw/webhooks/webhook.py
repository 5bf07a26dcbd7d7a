"""What a webhook is to operators: its members, each declared once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from msgspec import Meta

from channels.named_host import URL_CHARACTERS_MAX
from gw.nouns import kinds
from gw.nouns.member import Kind, Member, Setting
from gw.nouns.noun import Noun
from gw.webhooks.types import DEFAULT_TYPES, TYPES_KIND

WEBHOOKS_MAX = 100

# Its text is judged where the configuration is known (`gw/admin/webhooks.py`).
URL = Kind(
    json=Annotated[str, Meta(min_length=1, max_length=URL_CHARACTERS_MAX)],
    metavar="URL",
    characters_max=URL_CHARACTERS_MAX,
    input=(("type", "url"), ("placeholder", "https://")),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewWebhook:
    """A new webhook. `types`: exact ones or GROUP.*; `account_id`: null is of all accounts."""

    url: Annotated[str, Setting(URL, "where events are sent to, over https")]
    types: Annotated[
        list[str] | None,
        Setting(
            TYPES_KIND,
            "a type of events, or GROUP.*; may be repeated",
            option="type",
            none="all but call.settled",
            is_shown=False,
        ),
    ] = None
    account_id: Annotated[
        str | None, Member(kinds.ID, "of this one alone", option="account", none="all")
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookRecord(NewWebhook):
    """A webhook as shown; `pending` and `dead` are numbers of deliveries."""

    id: Annotated[str, Member(kinds.ID, before="url")]
    enabled: Annotated[bool, Setting(kinds.FLAG, has_option=False, has_field=False)]
    created_at: Annotated[datetime, Member(kinds.INSTANT)]
    pending: Annotated[int, Member(kinds.COUNT)]
    dead: Annotated[int, Member(kinds.COUNT)]
    # Why the gateway disabled it: gone, failing.
    disabled_for: Annotated[str | None, Member(kinds.TEXT, is_shown=False)]

    @property
    def sent_types(
        self,
    ) -> Annotated[list[str], Member(kinds.TEXTS, name="types", before="account_id")]:
        """The types that it is sent."""
        return list(DEFAULT_TYPES) if self.types is None else self.types


WEBHOOK: Noun[NewWebhook, WebhookRecord] = Noun(
    "Webhook",
    NewWebhook,
    WebhookRecord,
    alias="w",
    settings_doc="New settings of a webhook; absent members stay, `types` is the whole list.",
)
