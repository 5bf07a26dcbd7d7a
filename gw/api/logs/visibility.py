"""Which rows of the call log a key may read (spec: Key visibility matrix)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from gw.keys.principal import Principal

Scope = Literal["key", "account"]


@dataclass(frozen=True, slots=True)
class Visibility:
    """The rows of one account, or of one key of it; never another account's."""

    scope: Scope
    account_id: str
    key_id: str | None  # None: every key of the account

    def narrowed(self, key_id: str) -> Visibility:
        """The scope narrowed to one key."""
        return replace(self, key_id=key_id)


def of_scope(principal: Principal, scope: Scope) -> Visibility | None:
    """What the key sees in this scope; None when the scope is closed to it.

    The whole account is open to console-created keys with the toggle on.
    """
    if scope == "key":
        return Visibility("key", principal.account_id, principal.key_id)
    if principal.kind == "console" and principal.account_logs:
        return Visibility("account", principal.account_id, None)
    return None


def widest(principal: Principal) -> Visibility:
    """Everything that the key may see, for what is asked for by its id."""
    whole = of_scope(principal, "account")
    return whole or Visibility("key", principal.account_id, principal.key_id)
