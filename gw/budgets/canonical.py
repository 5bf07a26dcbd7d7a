"""Subjects of budgets as they are stored, which is as calls and their sums have them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from actors.store.session import Statements
from channels.registry import Registry
from gw.keys.end_users import is_digest, read_or_make
from gw.keys.sealing import KeySealer
from gw.keys.secret import Secret
from gw.nouns.values import read_model

DIGEST = "digest"


@dataclass(frozen=True, slots=True)
class Canonical:
    """Makes subjects canonical under a configuration: its models, and how end users are kept."""

    registry: Registry
    end_users: str
    secret: Callable[[], Secret]

    async def subject(self, store: Statements, account_id: str, scope: str, subject: str) -> str:
        """Return a well-formed subject as it is stored.

        Raises Invalid for an unknown model, and WrongSecret, StoreUnavailable.
        """
        if scope == "model":
            return read_model(subject, self.registry)
        is_name = scope in ("end_user", "every_end_user") and not is_digest(subject)
        if is_name and self.end_users == DIGEST:
            key = await read_or_make(store, KeySealer(self.secret()))
            return key.digest(account_id, subject)
        return subject
