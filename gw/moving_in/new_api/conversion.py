"""Makes a plan of new-api's tables: channels, and models with their ratios as prices.

new-api counts in quota: one USD is `QuotaPerUnit` of it. An input token costs its model's ratio, an
output token `CompletionRatio` times as much, a cached one `CacheRatio` times.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from channels.families import FAMILIES
from channels.kinds import KINDS
from channels.prices import PriceSpec
from gw.moving_in import plan
from gw.moving_in.new_api import channel_types
from gw.moving_in.new_api.accounts import AccountReader
from gw.moving_in.new_api.quota import Quota, numbers_of
from gw.moving_in.new_api.tables import ENABLED, Row, json_of
from gw.price_list.offers import price_of
from gw.price_list.reading import PriceList, PriceRow

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
) -> plan.Plan:
    """Make the plan. `source` separates the accounts of installations; faults name `origin`.

    Raises ConfigFaults for amounts that cannot be parsed.
    """
    options = {str(row["key"]): row["value"] for row in tables["options"]}
    quota = Quota(options, origin)
    reader = _TablesReader(options, price_list, quota)
    reader.channels(tables["channels"])
    reader.prices()
    accounts = AccountReader(reader.plan, quota, numbers_of(options.get("GroupRatio")))
    accounts.read_accounts(tables["users"], tables["tokens"], source)
    return reader.plan


def _upstream_names(row: Row) -> dict[str, str]:
    """Return the upstream's name of each model of a channel."""
    mapping = json_of(row["model_mapping"])
    names = [one.strip() for one in str(row["models"] or "").split(",") if one.strip()]
    if not isinstance(mapping, dict):
        mapping = {}
    return {name: str(mapping.get(name, name)) for name in names}


class _TablesReader:
    def __init__(self, options: Mapping[str, Any], price_list: PriceList, quota: Quota) -> None:
        self.plan = plan.Plan()
        self._price_list = price_list
        self._quota = quota
        self._ratios = {name: numbers_of(options.get(name)) for name in _RATIOS}
        self._rows: dict[str, list[PriceRow | None]] = {}

    def channels(self, rows: list[Row]) -> None:
        highest = max((int(row["priority"] or 0) for row in rows), default=0)
        for row in rows:
            label = f"channel {row['id']} ({row['name']})"
            number = int(row["type"] or 0)
            channel_type = channel_types.TYPES.get(number)
            if row["status"] != ENABLED:
                self.plan.leave(label, "it is disabled over there")
            elif number in channel_types.BY_HAND:
                self.plan.leave(label, channel_types.BY_HAND[number])
            elif channel_type is None:
                name = channel_types.OTHERS.get(number, f"type {number}")
                self.plan.leave(label, f"no kind of channel is for {name}")
            else:
                priority = min(highest - int(row["priority"] or 0) + 1, _PRIORITY_MAX)
                self._channel(row, channel_type, label, priority)

    def _channel(
        self, row: Row, channel_type: channel_types.ChannelType, label: str, priority: int
    ) -> None:
        found = self._address(row, channel_type, label)
        if found is None:
            return
        kind, address, chat_path = found
        keys = self._keys(row, label)
        self._leave_settings(row, label)
        version = str(row["other"] or "") if kind == "azure-openai-deployments" else ""
        organization = plan.SecretText(str(row["openai_organization"] or ""))
        # A task is only known to the key that created it, so its channel has one key.
        is_split = kind and any(FAMILIES[one].has_tasks for one in KINDS[kind].protocols)
        parts = [(key,) for key in keys] if is_split else [tuple(keys)]
        upstreams = _upstream_names(row)
        for part in parts:
            channel = plan.PlannedChannel(
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
        self, row: Row, channel_type: channel_types.ChannelType, label: str
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
            if not plan.is_address(written or address) or parts.query or parts.username:
                self.plan.leave(label, "its address is none that a channel here can have")
                return None
        elif not kind or not KINDS[kind].base_url:
            self.plan.leave(label, "it has no address")
            return None
        return kind, address, path

    def _keys(self, row: Row, label: str) -> list[plan.Value]:
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
        fitting = [text for text in found if plan.is_key(text)]
        if len(fitting) < len(found):
            self.plan.leave(f"some keys of {label}", "a key is ASCII without spaces")
        return [plan.SecretText(text) for text in fitting]

    def _model(
        self, name: str, upstream: str, channel: plan.PlannedChannel, called: str, label: str
    ) -> None:
        if not plan.is_name(name) or not plan.is_name(upstream):
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
            name, plan.PlannedModel(id=name, endpoint_type=endpoint_type)
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
