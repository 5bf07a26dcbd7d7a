"""The accounts and keys of new-api's users and tokens."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from gw.moving_in.new_api.quota import Quota
from gw.moving_in.new_api.tables import ENABLED, Row
from gw.moving_in.plan import Plan, PlannedAccount, PlannedKey

_NAME_CHARACTERS = 200


class AccountReader:
    """Adds accounts to a plan whose models are known; `groups` are ratios by group.

    Raises ConfigFaults for amounts that cannot be parsed.
    """

    def __init__(self, plan: Plan, quota: Quota, groups: Mapping[str, Decimal]) -> None:
        self._plan = plan
        self._quota = quota
        self._groups = groups

    def read_accounts(self, users: list[Row], tokens: list[Row], source: str) -> None:
        """Add each user with its keys; `source` distinguishes installations."""
        by_user: dict[Any, list[Row]] = {}
        for token in tokens:
            by_user.setdefault(token["user_id"], []).append(token)
        for user in users:
            label = f"user {user['id']} ({user['username']})"
            if user["deleted_at"]:
                self._plan.leave(label, "it is deleted over there")
                continue
            balance = self._quota.nano_usd(user["quota"], label)
            if balance < 0:
                self._plan.leave(f"the debt of {label}", "an account begins with nothing or more")
            if user["aff_quota"]:
                self._plan.leave(f"what {label} earned by inviting", "only its quota is money here")
            self._group(user["group"], label)
            name = str(user["username"]).strip()[:_NAME_CHARACTERS]
            self._plan.accounts.append(
                PlannedAccount(
                    id=account_id(source, user),
                    name=name if name.isprintable() and name else f"user {user['id']}",
                    balance_nano_usd=max(balance, 0),
                    is_enabled=user["status"] == ENABLED,
                    keys=tuple(self._keys_of(by_user.get(user["id"], []), label)),
                )
            )

    def _group(self, group: Any, label: str) -> None:
        times = self._groups.get(str(group or "default"), Decimal(1))
        if times != 1:
            self._plan.leave(
                f"the ratio {times} of group {group or 'default'} ({label})",
                "prices are the same for every account",
            )

    def _keys_of(self, tokens: list[Row], label: str) -> list[PlannedKey]:
        keys = []
        for token in tokens:
            what = f"key {token['name']} of {label}"
            if token["deleted_at"]:
                continue
            if token["status"] != ENABLED:
                self._plan.leave(what, "it is disabled, expired or exhausted over there")
                continue
            if token["allow_ips"]:
                self._plan.leave(f"addresses of {what}", "a key works from everywhere")
            cap = None
            if not token["unlimited_quota"]:
                cap = max(self._quota.nano_usd(token["remain_quota"], what), 0)
            name = str(token["name"] or "").strip()[:_NAME_CHARACTERS]
            keys.append(
                PlannedKey(
                    name=name if name.isprintable() and name else f"key {token['id']}",
                    models=self._models_of(token, what),
                    expires_at=_instant(token["expired_time"]),
                    spend_cap_nano_usd=cap,
                )
            )
        return keys

    def _models_of(self, token: Row, what: str) -> tuple[str, ...] | None:
        if not token["model_limits_enabled"]:
            return None
        names = [one.strip() for one in str(token["model_limits"] or "").split(",")]
        known = tuple(dict.fromkeys(one for one in names if one in self._plan.models))
        for name in names:
            if name and name not in self._plan.models:
                self._plan.leave(f"model {name} of {what}", "the model is not carried over")
        return known


def account_id(source: str, user: Row) -> str:
    """Return the id of a user's account, the same at each import of one installation."""
    marks = (source, str(user["id"]), str(user["aff_code"] or user["created_at"] or ""))
    digest = hashlib.sha256("\0".join(("new-api", *marks)).encode()).hexdigest()
    return f"acct_{digest[:20]}"


def _instant(seconds: Any) -> datetime | None:
    """Return the instant at which a key expires; None: never."""
    number = int(seconds if seconds is not None else -1)
    if number < 0:
        return None
    return datetime.fromtimestamp(min(number, 253_402_300_799), UTC)
