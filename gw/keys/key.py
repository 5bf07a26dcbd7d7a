"""What a key is to operators: its members, each declared once."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated

from gw.keys.principal import KEY_KINDS, OWNER
from gw.nouns import kinds
from gw.nouns.member import Member
from gw.nouns.noun import Noun


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyWish:
    """A new key. `allowed_models`: null is every model, an empty list none."""

    account_id: Annotated[
        str, Member(kind=kinds.ID, option="account", help="whose key it is", is_noted=False)
    ]
    name: Annotated[str, Member(kind=kinds.LABEL, help="as lists show it", is_settable=True)]
    kind: Annotated[
        str,
        Member(
            kind=kinds.choice(KEY_KINDS),
            help="what it is for: agent speaks for an agent, the others are words in lists",
            has_field=False,
            is_settable=True,
        ),
    ] = "console"
    agent_id: Annotated[
        str | None,
        Member(kind=kinds.ID, option="agent", help="which agent a key of kind agent speaks for"),
    ] = None
    user: Annotated[
        str,
        Member(
            kind=kinds.USER, column="user_name", help="of the account; for good", is_noted=False
        ),
    ] = OWNER
    requested_by: Annotated[str | None, Member(kind=kinds.TEXT, is_given=False, is_noted=False)] = (
        None
    )
    allowed_models: Annotated[
        list[str] | None,
        Member(
            kind=kinds.MODELS,
            option="allow",
            form="models",
            help="may be repeated",
            is_settable=True,
        ),
    ] = None
    expires_at: Annotated[
        datetime | None,
        Member(
            kind=kinds.INSTANT,
            option="expires",
            form="expires",
            help="refuse it from then on",
            none="never",
            is_settable=True,
        ),
    ] = None
    account_logs: Annotated[
        bool,
        Member(
            kind=kinds.FLAG,
            help="let it read the logs of the whole account",
            none="let it read the logs of its own calls alone",
            is_settable=True,
        ),
    ] = False
    spend_cap_nano_usd: Annotated[
        int | None,
        Member(
            kind=kinds.USD,
            name="spend_cap_usd",
            form="cap",
            help="what it may spend in all",
            none="any",
            is_settable=True,
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRecord(KeyWish):
    """A key without its text; amounts are decimal strings.

    `status` is the result of authentication, without the account's state: active, revoked, disabled
    or expired. `allowed_models`: null is every model.
    """

    id: Annotated[str, Member(kind=kinds.ID, before="account_id")]
    prefix: Annotated[str, Member(kind=kinds.TEXT, before="allowed_models")]
    enabled: Annotated[
        bool,
        Member(
            kind=kinds.FLAG,
            has_option=False,
            has_field=False,
            before="allowed_models",
            is_settable=True,
        ),
    ]
    is_revealable: Annotated[
        bool,
        Member(
            kind=kinds.FLAG,
            name="revealable",
            column="k.sealed IS NOT NULL",
            before="allowed_models",
        ),
    ]
    spent_nano_usd: Annotated[
        int, Member(kind=kinds.USD, name="spent_usd", column="s.spent_nano_usd")
    ]
    last_used_at: Annotated[datetime | None, Member(kind=kinds.INSTANT)]
    created_at: Annotated[datetime, Member(kind=kinds.INSTANT)]
    revoked_at: Annotated[datetime | None, Member(kind=kinds.INSTANT)]
    # Disabled by an operator.
    is_locked: Annotated[
        bool,
        Member(kind=kinds.FLAG, column="locked", is_given=False, is_settable=True, is_shown=False),
    ] = False

    @property
    def status(self) -> Annotated[str, Member(kind=kinds.TEXT, before="enabled")]:
        """The result of authentication now."""
        return self.status_at(datetime.now(UTC))

    def status_at(self, now: datetime) -> str:
        """Return the result of authentication with this key, without the account's state."""
        if self.revoked_at is not None:
            return "revoked"
        if not self.enabled:
            return "disabled"
        if self.expires_at is not None and self.expires_at <= now:
            return "expired"
        return "active"


KEY: Noun[KeyWish, KeyRecord] = Noun(
    "Key",
    KeyWish,
    KeyRecord,
    alias="k",
    settings_doc="New settings of a key; absent members stay, null removes a limit.",
)
