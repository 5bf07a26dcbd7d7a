"""Makes a plan of new-api's tables: channels, models with their ratios as prices, accounts.

There, quota is what is counted: `QuotaPerUnit` of it is one USD, a token costs its model's ratio,
output `CompletionRatio` times as much, what is read from a cache `CacheRatio` times.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any
from urllib.parse import urlsplit

from actors.wallet.money import MAX_NANO_USD, NANO_PER_USD, div_round_half_up
from channels.families import FAMILIES
from channels.kinds import KINDS
from channels.registry import PriceSpec
from gw.config.faults import ConfigFaults, Fault
from gw.moving_in.new_api_tables import Row, json_of
from gw.moving_in.new_api_types import (
    BY_HAND,
    OTHERS,
    OWN_COMPLETION_RATIO,
    TYPES,
    ChannelType,
)
from gw.moving_in.plan import (
    Plan,
    PlannedAccount,
    PlannedChannel,
    PlannedKey,
    PlannedModel,
    Secret,
    Value,
    is_key,
    is_name,
)
from gw.price_list.offers import price_of
from gw.price_list.reading import PriceList, PriceRow

ENABLED = 1
QUOTA_PER_USD = Decimal(500_000)
_TOKENS = Decimal(1_000_000)
_RATIO_MAX = Decimal(1_000_000)
_PRICE_STEP = Decimal(1).scaleb(-12)
_NAME_CHARACTERS = 200
_PRIORITY_MAX = 1_000_000
# Of a channel, what is told when it is set, and why it stays.
_SETTINGS: Mapping[str, str] = {
    "param_override": "requests go as clients write them",
    "header_override": "set headers of the channel",
    "status_code_mapping": "an upstream's status is passed on",
    "setting": "look for a proxy or the like there: say proxy of the channel",
}


def plan_of(
    tables: Mapping[str, list[Row]], price_list: PriceList, *, source: str, origin: str
) -> Plan:
    """Make the plan. `source` tells one installation's accounts from another's, `origin` is what a
    fault names. Raises ConfigFaults for money that cannot be read."""
    options = {str(row["key"]): row["value"] for row in tables["options"]}
    reader = _Reader(options, price_list, origin)
    reader.channels(tables["channels"])
    reader.prices()
    reader.accounts(tables["users"], tables["tokens"], source)
    return reader.plan


class _Reader:
    def __init__(self, options: Mapping[str, Any], price_list: PriceList, origin: str) -> None:
        self.plan = Plan()
        self._price_list = price_list
        self._origin = origin
        self._per_usd = QUOTA_PER_USD
        if (written := options.get("QuotaPerUnit")) not in (None, ""):
            self._per_usd = _decimal(written) or Decimal(0)
        if self._per_usd <= 0:
            self._refuse("QuotaPerUnit that is no number above zero", "so much quota for one USD")
        self._ratios = {name: _numbers(options.get(name)) for name in _RATIOS}
        self._groups = _numbers(options.get("GroupRatio"))
        self._rows: dict[str, list[PriceRow | None]] = {}

    # --- Channels and models ---

    def channels(self, rows: list[Row]) -> None:
        highest = max((int(row["priority"] or 0) for row in rows), default=0)
        for row in rows:
            label = f"channel {row['id']} ({row['name']})"
            number = int(row["type"] or 0)
            channel_type = TYPES.get(number)
            if row["status"] != ENABLED:
                self.plan.leave(label, "it is disabled over there")
            elif number in BY_HAND:
                self.plan.leave(label, BY_HAND[number])
            elif channel_type is None:
                name = OTHERS.get(number, f"type {number}")
                self.plan.leave(label, f"no kind of channel is for {name}")
            else:
                priority = min(highest - int(row["priority"] or 0) + 1, _PRIORITY_MAX)
                self._channel(row, channel_type, label, priority)

    def _channel(self, row: Row, channel_type: ChannelType, label: str, priority: int) -> None:
        found = self._address(row, channel_type, label)
        if found is None:
            return
        kind, address, chat_path = found
        keys = self._keys(row, label)
        for name, reason in _SETTINGS.items():
            if row[name] not in (None, "", "{}", "null"):
                self.plan.leave(f"{name} of {label}", reason)
        if row["weight"]:
            self.plan.leave(f"weight of {label}", "channels of one priority share by load")
        if (row["group"] or "default") != "default":
            self.plan.leave(f"group {row['group']} of {label}", "channels serve every account")
        version = str(row["other"] or "") if kind == "azure-openai-deployments" else ""
        organization = row["openai_organization"]
        headers: list[tuple[str, Value]] = []
        if organization:
            headers.append(("OpenAI-Organization", Secret(str(organization))))
        # A task is known to the key that made it alone, so that its channel has one key.
        is_split = kind and any(FAMILIES[one].has_tasks for one in KINDS[kind].protocols)
        parts = [(key,) for key in keys] if is_split else [tuple(keys)]
        mapping = json_of(row["model_mapping"])
        names = [one.strip() for one in str(row["models"] or "").split(",") if one.strip()]
        for part in parts:
            channel = PlannedChannel(
                kind=kind,
                base_url=address,
                keys=part,
                chat_path=chat_path,
                headers=tuple(headers),
                query=(("api-version", version),) if version else (),
                priority=priority,
            )
            for name in dict.fromkeys(names):
                upstream = mapping.get(name, name) if isinstance(mapping, dict) else name
                self._model(name, str(upstream), channel, str(row["name"] or kind), label)

    def _address(
        self, row: Row, channel_type: ChannelType, label: str
    ) -> tuple[str, str, str] | None:
        """Kind, address and whole path of chat; an empty address is that of the kind."""
        kind, written = channel_type.kind, str(row["base_url"] or "").strip().rstrip("/")
        address, path = written or channel_type.base_url, ""
        if channel_type.name == "Custom" and written:
            parts = urlsplit(written)  # the whole address of chat
            address, path = f"{parts.scheme}://{parts.netloc}", parts.path
        elif kind and address == KINDS[kind].base_url.removesuffix(channel_type.suffix):
            address = ""
        elif kind == "openai" and address:
            kind = ""  # somebody else, who speaks as OpenAI does
        elif address and channel_type.suffix:
            address += channel_type.suffix
        if address:
            parts = urlsplit(address)
            is_plain = not parts.query and not parts.username
            if parts.scheme not in ("http", "https") or not parts.hostname or not is_plain:
                self.plan.leave(label, "its address is none that a channel here can have")
                return None
        elif not kind or not KINDS[kind].base_url:
            self.plan.leave(label, "it has no address")
            return None
        return kind, address, path

    def _keys(self, row: Row, label: str) -> list[Value]:
        """The keys that are not disabled, each once."""
        info = json_of(row["channel_info"])
        texts = [str(row["key"] or "").strip()]
        if isinstance(info, dict) and info.get("is_multi_key"):
            states = info.get("multi_key_status_list") or {}
            lines = str(row["key"] or "").strip("\n").split("\n")
            texts = [
                line.strip()
                for index, line in enumerate(lines)
                if str(states.get(str(index), ENABLED)) == str(ENABLED)
            ]
            if len(texts) < len(lines):
                self.plan.leave(f"some keys of {label}", "they are disabled over there")
        found = [text for text in dict.fromkeys(texts) if text]
        fitting = [text for text in found if is_key(text)]
        if len(fitting) < len(found):
            self.plan.leave(f"some keys of {label}", "a key is ASCII without spaces")
        return [Secret(text) for text in fitting]

    def _model(
        self, name: str, upstream: str, channel: PlannedChannel, called: str, label: str
    ) -> None:
        if not is_name(name) or not is_name(upstream):
            self.plan.leave(f"model {name} of {label}", "a name here has neither spaces nor commas")
            return
        row = self._price_list.of(channel.kind, upstream)
        endpoint_type = row.endpoint_type if row is not None else None
        if name in self._ratios["ModelPrice"] and row is None:
            self.plan.leave(
                f"model {name}", "it is billed by the call: say its endpoint_type and its price"
            )
            return
        model = self.plan.models.setdefault(
            name, PlannedModel(id=name, endpoint_type=endpoint_type)
        )
        if model.endpoint_type == endpoint_type:
            self.plan.bind(model, channel, upstream, called)
            self._rows.setdefault(name, []).append(row)

    def prices(self) -> None:
        """By the options where they say one, else of the price list."""
        for name, model in self.plan.models.items():
            own = self._own_price(name) if model.endpoint_type is None else None
            listed = [row for row in self._rows[name] if row is not None]
            if own is not None:
                model.price = own
            elif len(listed) == len(self._rows[name]):
                model.price, model.rows = price_of(listed), tuple(listed)

    def _own_price(self, name: str) -> PriceSpec | None:
        ratio = self._ratios["ModelRatio"].get(name)
        times = self._ratios["CompletionRatio"].get(name)
        if ratio is None:
            return None
        if times is None:
            self.plan.leave(
                f"the ratio of {name}", "its completion ratio is not in the options of new-api"
            )
            return None
        if name.startswith(OWN_COMPLETION_RATIO):
            self.plan.leave(
                f"what new-api makes of the completion ratio of {name}",
                "its code may have one of its own for it: compare the price",
            )
        cached = self._ratios["CacheRatio"].get(name)
        written = self._ratios["CreateCacheRatio"].get(name)
        return PriceSpec(
            input=self._price(ratio),
            output=self._price(ratio * times),
            cached_input=None if cached is None else self._price(ratio * cached),
            cache_write=None if written is None else self._price(ratio * written),
        )

    def _price(self, ratio: Decimal) -> Decimal:
        """USD per million tokens of a ratio."""
        exact = ratio * _TOKENS / self._per_usd
        return exact.quantize(_PRICE_STEP).normalize()

    # --- Accounts ---

    def accounts(self, users: list[Row], tokens: list[Row], source: str) -> None:
        by_user: dict[Any, list[Row]] = {}
        for token in tokens:
            by_user.setdefault(token["user_id"], []).append(token)
        for user in users:
            label = f"user {user['id']} ({user['username']})"
            if user["deleted_at"]:
                self.plan.leave(label, "it is deleted over there")
                continue
            balance = self._nano_usd(user["quota"], label)
            if balance < 0:
                self.plan.leave(f"the debt of {label}", "an account begins with nothing or more")
            if user["aff_quota"]:
                self.plan.leave(f"what {label} earned by inviting", "only its quota is money here")
            self._group(user["group"], label)
            name = str(user["username"]).strip()[:_NAME_CHARACTERS]
            self.plan.accounts.append(
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
            self.plan.leave(
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
                self.plan.leave(what, "it is disabled, expired or exhausted over there")
                continue
            if token["allow_ips"]:
                self.plan.leave(f"addresses of {what}", "a key works from everywhere")
            cap = None
            if not token["unlimited_quota"]:
                cap = max(self._nano_usd(token["remain_quota"], what), 0)
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
        known = tuple(dict.fromkeys(one for one in names if one in self.plan.models))
        for name in names:
            if name and name not in self.plan.models:
                self.plan.leave(f"model {name} of {what}", "the model is not carried over")
        return known

    def _nano_usd(self, quota: Any, what: str) -> int:
        """Quota as money, rounded once; what is owed is below zero."""
        number = _decimal(quota if quota is not None else 0)
        if number is None:
            self._refuse(f"quota of {what} that is no number", "a whole number")
        assert number is not None
        amount = abs(Fraction(number)) / Fraction(self._per_usd) * NANO_PER_USD
        nano_usd = div_round_half_up(amount.numerator, amount.denominator)
        if nano_usd > MAX_NANO_USD:
            self._refuse(f"quota of {what} that is more than the ledger holds", "less")
        return -nano_usd if number < 0 else nano_usd

    def _refuse(self, found: str, allowed: str) -> None:
        raise ConfigFaults([Fault(self._origin, "", found, allowed)])


_RATIOS = ("ModelRatio", "CompletionRatio", "CacheRatio", "CreateCacheRatio", "ModelPrice")


def account_id(source: str, user: Row) -> str:
    """The id of a user's account: the same at each import of one installation."""
    marks = (source, str(user["id"]), str(user["aff_code"] or user["created_at"] or ""))
    digest = hashlib.sha256("\0".join(("new-api", *marks)).encode()).hexdigest()
    return f"acct_{digest[:20]}"


def _instant(seconds: Any) -> datetime | None:
    """When a key ends; None: never."""
    number = int(seconds if seconds is not None else -1)
    if number < 0:
        return None
    return datetime.fromtimestamp(min(number, 253_402_300_799), UTC)


def _numbers(text: Any) -> dict[str, Decimal]:
    """A JSON object of numbers, exactly as written; what is none is left out."""
    value = json_of(text)
    found = {}
    for name, written in value.items() if isinstance(value, dict) else ():
        number = _decimal(written)
        if number is not None and 0 <= number <= _RATIO_MAX:
            found[name] = number
    return found


def _decimal(written: Any) -> Decimal | None:
    try:
        number = Decimal(str(written))
    except InvalidOperation:
        return None
    return number if number.is_finite() else None
