"""The rows of the call log that a key may read (reference 6.1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, cast

from gw.api.logs.parameters import Parameters, refuse
from gw.keys.principal import Principal

Scope = Literal["key", "account"]


@dataclass(frozen=True, slots=True)
class Visibility:
    """The rows of one account, or of one of its keys; never another account's."""

    scope: Scope
    account_id: str
    key_id: str | None  # None: every key of the account

    def narrowed(self, key_id: str) -> Visibility:
        """Return the scope narrowed to one key."""
        return replace(self, key_id=key_id)


def of_scope(principal: Principal, scope: Scope) -> Visibility | None:
    """Return the visibility of the key in this scope; None if the scope is forbidden.

    The whole account is visible to console-created keys with the toggle enabled.
    """
    if scope == "key":
        return Visibility("key", principal.account_id, principal.key_id)
    if principal.kind == "console" and principal.account_logs:
        return Visibility("account", principal.account_id, None)
    return None


def widest(principal: Principal) -> Visibility:
    """Return the widest visibility of the key, for look-ups by id."""
    whole = of_scope(principal, "account")
    return whole or Visibility("key", principal.account_id, principal.key_id)


SCOPES = ("key", "account")


def read_visibility(parameters: Parameters, see: Callable[[Scope], Visibility]) -> Visibility:
    """Return scope and key of a request; a key of another account finds nothing."""
    scope = cast(Scope, parameters.choice("scope", SCOPES) or "key")
    key_id = parameters.text("key_id")
    if key_id is not None and scope != "account":
        raise refuse("key_id", "is taken only with scope=account.")
    visibility = see(scope)
    return visibility if key_id is None else visibility.narrowed(key_id)
