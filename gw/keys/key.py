"""What a key is to operators: its members, each declared once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Annotated

from gw.keys.principal import KEY_KINDS, OWNER
from gw.nouns import kinds
from gw.nouns.member import Member, Setting
from gw.nouns.noun import Noun


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyWish:
    """A new key. `allowed_models`: null is every model, an empty list none."""

    account_id: Annotated[
        str, Member(kinds.ID, "whose key it is", option="account", is_noted=False)
    ]
    name: Annotated[str, Setting(kinds.LABEL, "as lists show it")]
    kind: Annotated[
        str,
        Setting(
            kinds.choice(KEY_KINDS),
            "what it is for: agent speaks for an agent, the others are words in lists",
            has_field=False,
        ),
    ] = "console"
    agent_id: Annotated[
        str | None, Member(kinds.ID, "which agent a key of kind agent speaks for", option="agent")
    ] = None
    user: Annotated[
        str,
        Member(
            replace(kinds.USER, json=str),
            "of the account; for good",
            column="user_name",
            is_noted=False,
        ),
    ] = OWNER
    requested_by: Annotated[str | None, Member(kinds.TEXT, is_given=False, is_noted=False)] = None
    allowed_models: Annotated[
        list[str] | None, Setting(kinds.MODELS, "may be repeated", option="allow", form="models")
    ] = None
    expires_at: Annotated[
        datetime | None,
        Setting(kinds.INSTANT, "refuse it from then on", option="expires", none="never"),
    ] = None
    account_logs: Annotated[
        bool,
        Setting(
            kinds.FLAG,
            "let it read the logs of the whole account",
            none="let it read the logs of its own calls alone",
        ),
    ] = False
    spend_cap_nano_usd: Annotated[
        int | None,
        Setting(
            kinds.USD, "what it may spend in all", name="spend_cap_usd", form="cap", none="any"
        ),
    ] = None
    data_demand: Annotated[
        str | None,
        Setting(
            kinds.DEMAND,
            "what channels must promise for its data",
            option="data",
            form="data",
            none="what its account demands",
        ),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyRecord(KeyWish):
    """A key without its text; amounts are decimal strings.

    `status` is the result of authentication, without the account's state: active, revoked, disabled
    or expired. `allowed_models`: null is every model.
    """

    id: Annotated[str, Member(kinds.ID, before="account_id")]
    prefix: Annotated[str, Member(kinds.TEXT, before="allowed_models")]
    enabled: Annotated[
        bool, Setting(kinds.FLAG, has_option=False, has_field=False, before="allowed_models")
    ]
    is_revealable: Annotated[
        bool,
        Member(
            kinds.FLAG, name="revealable", column="k.sealed IS NOT NULL", before="allowed_models"
        ),
    ]
    spent_nano_usd: Annotated[int, Member(kinds.USD, name="spent_usd", column="s.spent_nano_usd")]
    last_used_at: Annotated[datetime | None, Member(kinds.INSTANT)]
    created_at: Annotated[datetime, Member(kinds.INSTANT)]
    revoked_at: Annotated[datetime | None, Member(kinds.INSTANT)]
    # Disabled by an operator.
    is_locked: Annotated[
        bool, Setting(kinds.FLAG, column="locked", is_given=False, is_shown=False)
    ] = False

    @property
    def status(self) -> Annotated[str, Member(kinds.TEXT, before="enabled")]:
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
