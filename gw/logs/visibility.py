"""Which rows of the call log a key may read (spec: Key visibility matrix)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gw.keys.principal import Principal

Scope = Literal["key", "account"]


@dataclass(frozen=True, slots=True)
class Visibility:
    """The rows of one account, or of one key of it. Nobody sees another account's."""

    account_id: str
    key_id: str | None  # None: every key of the account

    @property
    def scope(self) -> Scope:
        return "account" if self.key_id is None else "key"


def may_read_account(principal: Principal) -> bool:
    """Whether `scope=account` is open to the key: console-created, with the toggle on."""
    return principal.kind == "console" and principal.account_logs


def of_scope(principal: Principal, scope: Scope) -> Visibility | None:
    """What the key sees in this scope; None when the scope is closed to it."""
    if scope == "key":
        return Visibility(principal.account_id, principal.key_id)
    return Visibility(principal.account_id, None) if may_read_account(principal) else None


def widest(principal: Principal) -> Visibility:
    """Everything that the key may see, for what is asked for by its id."""
    return of_scope(principal, "account") or Visibility(principal.account_id, principal.key_id)
