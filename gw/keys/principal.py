"""The principal of a valid key, and the refusals of keys.

Facts only; `cache.py` finds them, `store.py` reads the row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from channels.data_promise import DataDemand
from gw.keys.agreed_prices import AgreedPrices

AGENT = "agent"  # whose keys work on one endpoint alone
KEY_KINDS = ("console", "employee", "compute", AGENT)
# The user of keys that name none: the account's own.
OWNER = "owner"

RefusalReason = Literal[
    "malformed", "unknown", "revoked", "disabled", "expired", "account_inactive"
]

# The messages to the client, each apart from the others (reference 1.1).
MESSAGES: Mapping[RefusalReason, str] = {
    "malformed": (
        "The API key is missing or malformed: a key is `sk-platform-` followed by 64 lower-case"
        " hexadecimal characters."
    ),
    "unknown": "The API key is invalid: there is no such key.",
    "revoked": "The API key has been revoked.",
    "disabled": "The API key is disabled.",
    "expired": "The API key has expired.",
    "account_inactive": "The account of this API key is not active.",
}


class KeyRefused(Exception):
    """A key that opens nothing; `reason` is its code, the text is for the client."""

    def __init__(self, reason: RefusalReason) -> None:
        super().__init__(MESSAGES[reason])
        self.reason = reason


@dataclass(frozen=True, slots=True, weakref_slot=True, kw_only=True)
class Agent:
    """What a key of kind agent speaks for, with its account's settings for models.

    All keys of an agent share one, unless it was changed between their readings.
    """

    id: str
    user: str  # of the account, whose bases it may read
    system_prompt: bytes = field(repr=False)  # a JSON string
    model: str | None
    temperature: float | None
    web_search: bool
    image_generation: bool
    kbs: tuple[str, ...]  # as the user names them
    enabled: bool
    default_model: str | None  # the account's
    allowed_models: frozenset[str] | None  # the account's; canonical ids; empty: none


@dataclass(frozen=True, slots=True)
class Principal:
    """A good key with its account, as a call needs them; None means no restriction."""

    key_id: str
    account_id: str
    key_name: str
    key_prefix: str
    kind: str  # one of KEY_KINDS
    agent_id: str | None
    allowed_models: frozenset[str] | None  # canonical ids; empty: every model is refused
    expires_at: float | None  # Unix seconds
    account_logs: bool
    spend_cap_nano_usd: int | None
    rpm_limit: int | None
    concurrency_limit: int | None
    user: str = OWNER  # of the account; fixed for the life of the key
    # None also for a key of kind agent that has none: it can call nothing.
    agent: Agent | None = field(default=None, repr=False)
    prices: AgreedPrices | None = field(default=None, repr=False)  # None: everyone's
    budgets_version: int = field(default=0, repr=False)  # of the account, as of this reading
    demand: DataDemand | None = field(default=None, repr=False)  # the key's and the account's
