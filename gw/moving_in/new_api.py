"""Makes a plan of new-api's tables: channels, and models with their ratios as prices.

new-api counts in quota: one USD is `QuotaPerUnit` of it. An input token costs its model's ratio, an
output token `CompletionRatio` times as much, a cached one `CacheRatio` times.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any
from urllib.parse import urlsplit

from actors.wallet.money import MAX_NANO_USD, NANO_PER_USD, div_round_half_up
from channels.families import FAMILIES
from channels.kinds import KINDS
from channels.prices import PriceSpec
from gw.config.faults import ConfigFaults, Fault
from gw.keys.secret import Secret
from gw.moving_in.new_api.tables import ENABLED
from gw.moving_in.new_api_tables import Row, json_of
from gw.moving_in.plan import (
    Plan,
    PlannedAccount,
    PlannedChannel,
    PlannedKey,
    PlannedModel,
    Value,
    is_address,
    is_key,
    is_name,
)
from gw.price_list.reading import PriceList, PriceRow, price_of

# Numbers of new-api's tables: ratios as written, and quota as money.

QUOTA_PER_USD = Decimal(500_000)
_RATIO_MAX = Decimal(1_000_000)
_TOKENS = Decimal(1_000_000)
_PRICE_STEP = Decimal(1).scaleb(-12)


class Quota:
    """The conversion of new-api's quota into money; faults name `origin`.

    Raises ConfigFaults for amounts that cannot be parsed.
    """

    def __init__(self, options: Mapping[str, Any], origin: str) -> None:
        self._origin = origin
        self._per_usd = QUOTA_PER_USD
        if (written := options.get("QuotaPerUnit")) not in (None, ""):
            self._per_usd = decimal_of(written) or Decimal(0)
        if self._per_usd <= 0:
            self._refuse("QuotaPerUnit that is no number above zero", "so much quota for one USD")

    def price(self, ratio: Decimal) -> Decimal:
        """Return a ratio as USD per million tokens."""
        exact = ratio * _TOKENS / self._per_usd
        return exact.quantize(_PRICE_STEP).normalize()

    def nano_usd(self, quota: Any, what: str) -> int:
        """Return quota as nano-USD, rounded once; a debt is negative. Raises ConfigFaults."""
        number = decimal_of(quota if quota is not None else 0)
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


def numbers_of(text: Any) -> dict[str, Decimal]:
    """Return the numbers of a JSON object exactly as written; others are left out."""
    value = json_of(text)
    found = {}
    for name, written in value.items() if isinstance(value, dict) else ():
        number = decimal_of(written)
        if number is not None and 0 <= number <= _RATIO_MAX:
            found[name] = number
    return found


def decimal_of(written: Any) -> Decimal | None:
    try:
        number = Decimal(str(written))
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


# The accounts and keys of new-api's users and tokens.

_NAME_CHARACTERS = 200


class AccountReader:
    """Adds accounts to a plan whose models are known; `groups` are ratios by group.

    Raises ConfigFaults for amounts that cannot be parsed.
    """

    def __init__(self, plan: Plan, quota: Quota, groups: Mapping[str, Decimal]) -> None:
        self._plan = plan
        self._quota = quota
        self._groups = groups

    def read(self, users: list[Row], tokens: list[Row], source: str) -> None:
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


# Channel types of new-api by number, with their kinds of channel and addresses.
#
# (https://github.com/QuantumNous/new-api, constant/channel.go.)


@dataclass(frozen=True, slots=True)
class ChannelType:
    """One channel type. `kind`: empty for chat at an address.

    `base_url`: new-api's address, if it differs from the kind's; `suffix`: the end of the kind's
    address that new-api's lacks.
    """

    name: str
    kind: str
    base_url: str = ""
    suffix: str = ""


TYPES: Mapping[int, ChannelType] = {
    1: ChannelType("OpenAI", "openai"),
    3: ChannelType("Azure", "azure-openai-deployments"),
    4: ChannelType("Ollama", "ollama", "http://localhost:11434"),
    6: ChannelType("OpenAIMax", "", "https://api.openaimax.com"),
    7: ChannelType("OhMyGPT", "", "https://api.ohmygpt.com"),
    8: ChannelType("Custom", ""),
    10: ChannelType("AIProxy", "", "https://api.aiproxy.io"),
    12: ChannelType("API2GPT", "", "https://api.api2gpt.com"),
    13: ChannelType("AIGC2D", "", "https://api.aigc2d.com"),
    14: ChannelType("Anthropic", "anthropic"),
    17: ChannelType("Ali", "dashscope", "", "/compatible-mode"),
    20: ChannelType("OpenRouter", "openrouter"),
    24: ChannelType("Gemini", "gemini"),
    25: ChannelType("Moonshot", "moonshot", "https://api.moonshot.cn"),
    26: ChannelType("ZhipuV4", "zhipu"),
    31: ChannelType("LingYiWanWu", "", "https://api.lingyiwanwu.com"),
    35: ChannelType("MiniMax", "minimax", "https://api.minimax.chat"),
    40: ChannelType("SiliconFlow", "siliconflow", "https://api.siliconflow.cn"),
    42: ChannelType("Mistral", "mistral"),
    43: ChannelType("DeepSeek", "deepseek"),
    45: ChannelType("VolcEngine", "ark"),
    47: ChannelType("Xinference", ""),
    48: ChannelType("xAI", "xai"),
    53: ChannelType("Submodel", "", "https://llm.submodel.ai"),
}
# Names of unsupported types, for reports.
OTHERS: Mapping[int, str] = {
    2: "Midjourney",
    5: "MidjourneyPlus",
    15: "Baidu",
    16: "Zhipu",
    18: "Xunfei",
    23: "Tencent",
    27: "Perplexity",
    34: "Cohere",
    36: "SunoAPI",
    37: "Dify",
    38: "Jina",
    39: "Cloudflare",
    46: "BaiduV2",
    49: "Coze",
    50: "Kling",
    51: "Jimeng",
    52: "Vidu",
    54: "DoubaoVideo",
    55: "Sora",
    56: "Replicate",
    57: "Codex",
}
# Types with a kind, but with credentials of another form in new-api: what the operator must do.
BY_HAND: Mapping[int, str] = {
    33: "AWS: its key is an access key, a secret and a region in one; write a channel of kind "
    "bedrock with region, and credentials or an api_key",
    41: "VertexAI: its key is the file of a service account; save it, and write a channel of kind "
    "vertex with project, region and credentials: {file: …}",
}
# new-api's code overrides the ratio of output to input of these models, whatever its options state.
OWN_COMPLETION_RATIO = ("gpt-", "chatgpt-", "o1", "o3", "o4", "claude-", "gemini-")


_PRIORITY_MAX = 1_000_000
# Settings of a channel that are reported if set, with the reason why they are left.
_SETTINGS: Mapping[str, str] = {
    "param_override": "requests go as clients write them",
    "header_override": "set headers of the channel",
    "status_code_mapping": "an upstream's status is passed on",
    "setting": "look for a proxy or the like there: say proxy of the channel",
}


def plan_of(
    tables: Mapping[str, list[Row]], price_list: PriceList, *, source: str, origin: str
) -> Plan:
    """Make the plan. `source` separates the accounts of installations; faults name `origin`.

    Raises ConfigFaults for amounts that cannot be parsed.
    """
    options = {str(row["key"]): row["value"] for row in tables["options"]}
    quota = Quota(options, origin)
    reader = _Reader(options, price_list, quota)
    reader.channels(tables["channels"])
    reader.prices()
    accounts = AccountReader(reader.plan, quota, numbers_of(options.get("GroupRatio")))
    accounts.read(tables["users"], tables["tokens"], source)
    return reader.plan


def _upstream_names(row: Row) -> dict[str, str]:
    """Return the upstream's name of each model of a channel."""
    mapping = json_of(row["model_mapping"])
    names = [one.strip() for one in str(row["models"] or "").split(",") if one.strip()]
    if not isinstance(mapping, dict):
        mapping = {}
    return {name: str(mapping.get(name, name)) for name in names}


class _Reader:
    def __init__(self, options: Mapping[str, Any], price_list: PriceList, quota: Quota) -> None:
        self.plan = Plan()
        self._price_list = price_list
        self._quota = quota
        self._ratios = {name: numbers_of(options.get(name)) for name in _RATIOS}
        self._rows: dict[str, list[PriceRow | None]] = {}

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
        self._leave_settings(row, label)
        version = str(row["other"] or "") if kind == "azure-openai-deployments" else ""
        organization = Secret(str(row["openai_organization"] or ""))
        # A task is only known to the key that created it, so its channel has one key.
        is_split = kind and any(FAMILIES[one].has_tasks for one in KINDS[kind].protocols)
        parts = [(key,) for key in keys] if is_split else [tuple(keys)]
        upstreams = _upstream_names(row)
        for part in parts:
            channel = PlannedChannel(
                kind=kind,
                base_url=address,
                keys=part,
                chat_path=chat_path,
                headers=(("OpenAI-Organization", organization),) if organization.value else (),
                query=(("api-version", version),) if version else (),
                priority=priority,
            )
            for name, upstream in upstreams.items():
                self._model(name, upstream, channel, str(row["name"] or kind), label)

    def _leave_settings(self, row: Row, label: str) -> None:
        for name, reason in _SETTINGS.items():
            if row[name] not in (None, "", "{}", "null"):
                self.plan.leave(f"{name} of {label}", reason)
        if row["weight"]:
            self.plan.leave(f"weight of {label}", "channels of one priority share by load")
        if (row["group"] or "default") != "default":
            self.plan.leave(f"group {row['group']} of {label}", "channels serve every account")

    def _address(
        self, row: Row, channel_type: ChannelType, label: str
    ) -> tuple[str, str, str] | None:
        """Return kind, address and whole path of chat; an empty address is the kind's."""
        kind, written = channel_type.kind, str(row["base_url"] or "").strip().rstrip("/")
        address, path = written or channel_type.base_url, ""
        if channel_type.name == "Custom" and written:
            parts = urlsplit(written)  # the complete address of chat
            address, path = f"{parts.scheme}://{parts.netloc}", parts.path
        elif kind and address == KINDS[kind].base_url.removesuffix(channel_type.suffix):
            address = ""
        elif kind == "openai" and address:
            kind = ""  # another provider, compatible with OpenAI
        elif address and channel_type.suffix:
            address += channel_type.suffix
        if address:
            parts = urlsplit(address)
            if not is_address(written or address) or parts.query or parts.username:
                self.plan.leave(label, "its address is none that a channel here can have")
                return None
        elif not kind or not KINDS[kind].base_url:
            self.plan.leave(label, "it has no address")
            return None
        return kind, address, path

    def _keys(self, row: Row, label: str) -> list[Value]:
        """Return the keys that are enabled, each once."""
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
        """Set each model's price: by its ratios, else by the price list."""
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
            input=self._quota.price(ratio),
            output=self._quota.price(ratio * times),
            cached_input=None if cached is None else self._quota.price(ratio * cached),
            cache_write=None if written is None else self._quota.price(ratio * written),
        )


_RATIOS = ("ModelRatio", "CompletionRatio", "CacheRatio", "CreateCacheRatio", "ModelPrice")
