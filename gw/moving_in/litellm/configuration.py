"""Parses a configuration of LiteLLM's proxy: `model_list`, custom prices, fallbacks, aliases.

(https://docs.litellm.ai/docs/proxy/configs, as of 2026-10-13.) A file of another shape is refused;
settings without a counterpart are left, each with the reason.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

from channels.families import FAMILIES, MODEL_TYPES
from channels.kinds import KINDS
from channels.prices import PriceSpec
from channels.registry import Binding
from gw.config import nodes
from gw.config.faults import FaultReport, Location
from gw.config.load import read_text
from gw.config.yaml_source import parse
from gw.moving_in import plan
from gw.moving_in.litellm import names
from gw.moving_in.litellm.channels import ChannelReader
from gw.moving_in.litellm.nodes import (
    decimal_of,
    is_nothing,
    member_of,
    number_of,
    scalar_of,
    table_of,
    text_of,
)
from gw.price_list.offers import dearest, price_of
from gw.price_list.reading import PriceList, PriceRow

_PRICE_STEP = Decimal(1).scaleb(-12)  # the finest step of a price here


def read_litellm(path: Path, price_list: PriceList) -> plan.Plan:
    """Parse the file at `path`. Raises ConfigFaults, by line."""
    report = FaultReport(str(path))
    root = parse(read_text(path), {}, report)
    reader = _ConfigurationReader(price_list)
    if isinstance(root, nodes.Table):
        reader.read(root, report.top())
    elif not isinstance(root, nodes.Unreadable):
        report.top().blame(
            found=nodes.described(root), allowed="a configuration of LiteLLM: a mapping"
        )
    report.raise_if_any()
    return reader.plan


class _ConfigurationReader:
    def __init__(self, price_list: PriceList) -> None:
        self.plan = plan.Plan()
        self._channels = ChannelReader(self.plan)
        self._price_list = price_list
        # The prices of a model's deployments: the file's own, or rows of the list.
        self._own: dict[str, list[PriceSpec]] = {}
        self._rows: dict[str, list[PriceRow | None]] = {}
        self._upstream: dict[str, set[str]] = {}

    def read(self, root: nodes.Table, at: Location) -> None:
        entry = root.entries.get("model_list")
        if entry is None or not isinstance(entry.value, nodes.Items):
            where = at.key("model_list", entry.mark if entry else None)
            where.blame(found="no list", allowed="a list of models, as LiteLLM has it")
            return
        for index, node in enumerate(entry.value.items):
            where = at.key("model_list", entry.mark).item(index, node.mark)
            table = table_of(node, where)
            if table is not None:
                self._deployment(table, where)
        for name, one in root.entries.items():
            section = at.key(name, one.mark)
            if name in ("router_settings", "litellm_settings", "general_settings"):
                self._settings(name, one.value, section)
            elif name == "environment_variables":
                self._environment(one.value)
            elif name != "model_list":
                self.plan.leave(name, "there is nothing like it here")
        self._prices()

    def _deployment(self, node: nodes.Table, at: Location) -> None:
        name = text_of(node, "model_name", at)
        params = member_of(node, "litellm_params", at)
        if name is None or params is None:
            return
        where = at.key("litellm_params", node.entries["litellm_params"].mark)
        model = text_of(params, "model", where)
        info = member_of(node, "model_info", at, is_needed=False)
        if model is None or info is None:
            return
        label = f"model {name} ({model})"
        provider, upstream = _split(model, scalar_of(params, "custom_llm_provider"))
        kind = names.KIND_OF_PROVIDER.get(provider)
        mode = scalar_of(info, "mode") or "chat"
        reason = _unfit(name, upstream, mode)
        if reason is not None:
            self.plan.leave(label, reason)
        elif kind is None or (kind and kind not in KINDS):
            self.plan.leave(label, f"no kind of channel is for its provider, {provider or 'none'}")
        else:
            channel = self._channels.read(kind, provider, params, where, label)
            if channel is not None:
                model_type = names.MODES[mode]
                self._add(name, upstream, channel, provider, model_type, params, info, where, label)
        self._leave_settings(node, params, label)

    def _leave_settings(self, node: nodes.Table, params: nodes.Table, label: str) -> None:
        for param in params.entries:
            if param not in names.PARAMS:
                self.plan.leave(f"{param} of {label}", "requests go as clients write them")
            elif names.PARAMS[param]:
                self.plan.leave(f"{param} of {label}", names.PARAMS[param])
        for limit in ("rpm", "tpm"):
            if limit in node.entries:
                self.plan.leave(f"{limit} of {label}", names.PARAMS[limit])

    def _add(
        self,
        name: str,
        upstream: str,
        channel: plan.PlannedChannel,
        provider: str,
        endpoint_type: str | None,
        params: nodes.Table,
        info: nodes.Table,
        at: Location,
        label: str,
    ) -> None:
        if not _is_spoken(channel, endpoint_type):
            self.plan.leave(label, f"its channel does not speak the endpoint of {endpoint_type}")
            return
        model = self.plan.models.setdefault(
            name, plan.PlannedModel(id=name, endpoint_type=endpoint_type)
        )
        if model.endpoint_type != endpoint_type:
            self.plan.leave(label, "another deployment of the same name is for another endpoint")
            return
        self.plan.bind(model, channel, upstream, channel.kind or provider)
        self._upstream.setdefault(name, set()).add(upstream)
        context_size = number_of(info, "max_input_tokens", at)
        max_output_tokens = number_of(info, "max_output_tokens", at)
        model.context_size = model.context_size or context_size
        model.max_output_tokens = model.max_output_tokens or max_output_tokens
        own = self._own_price(params, info, endpoint_type, at)
        if own is not None:
            self._own.setdefault(name, []).append(own)
        else:
            base = scalar_of(info, "base_model")
            row = self._price_list.of(channel.kind, upstream)
            if row is None and base:
                row = self._price_list.of("openai", base.rpartition("/")[2])
            self._rows.setdefault(name, []).append(row)

    def _own_price(
        self, params: nodes.Table, info: nodes.Table, endpoint_type: str | None, at: Location
    ) -> PriceSpec | None:
        """Return the price in the file; `litellm_params` override `model_info`."""
        members: dict[str, Decimal] = {}
        for key, (member, times, kind) in names.PRICE_MEMBERS.items():
            if kind != endpoint_type:
                continue
            for table in (info, params):
                entry = table.entries.get(key)
                if entry is not None:
                    cost = decimal_of(entry.value, at.key(key, entry.mark))
                    if cost is not None:
                        members[member] = (cost * times).quantize(_PRICE_STEP).normalize()
        price = PriceSpec(**members)  # type: ignore[arg-type]
        return price if plan.is_priced(price, endpoint_type) else None

    def _prices(self) -> None:
        for name, model in self.plan.models.items():
            rows = self._rows.get(name, [])
            listed = [row for row in rows if row is not None]
            found = price_of(listed) if len(listed) == len(rows) and listed else None
            own = self._own.get(name, [])
            if rows and found is None:
                continue
            prices = [*own, *([found] if found is not None else [])]
            model.price = dearest(prices) if prices else None
            model.rows = tuple(listed)

    def _settings(self, section: str, node: nodes.Node, at: Location) -> None:
        if isinstance(node, nodes.Scalar) and node.is_nothing:
            return
        table = table_of(node, at)
        for name, entry in table.entries.items() if table is not None else ():
            if name == "model_group_alias":
                self._aliases(entry.value)
            elif name == "fallbacks":
                self._fallbacks(entry.value, at.key(name, entry.mark))
            elif not is_nothing(entry.value):
                known = names.GENERAL if section == "general_settings" else names.SETTINGS
                reason = known.get(name, "there is nothing like it here")
                self.plan.leave(f"{section}.{name}", reason)

    def _aliases(self, node: nodes.Node) -> None:
        for alias, entry in node.entries.items() if isinstance(node, nodes.Table) else ():
            value = entry.value
            target = value.text if isinstance(value, nodes.Scalar) else None
            if isinstance(value, nodes.Table):
                target = scalar_of(value, "model")
            model = self.plan.models.get(target or "")
            if model is not None and alias not in self.plan.models and plan.is_name(alias):
                model.aliases.append(alias)
            else:
                self.plan.leave(f"the alias {alias}", "its model is not carried over, or has it")

    def _fallbacks(self, node: nodes.Node, at: Location) -> None:
        """Merge fallbacks between deployments of the same upstream model; leave all others."""
        if not isinstance(node, nodes.Items):
            at.blame(found=nodes.described(node), allowed="a list of mappings of a model to models")
            return
        for index, one in enumerate(node.items):
            table = table_of(one, at.item(index, one.mark))
            for name, entry in table.entries.items() if table is not None else ():
                others = entry.value.items if isinstance(entry.value, nodes.Items) else ()
                for other in others:
                    if isinstance(other, nodes.Scalar):
                        self._fallback(name, other.text)

    def _fallback(self, name: str, other: str) -> None:
        model, target = self.plan.models.get(name), self.plan.models.get(other)
        if model is None or target is None or not self._upstream[name] & self._upstream[other]:
            self.plan.leave(
                f"the fallback of {name} to {other}",
                "clients get and pay for the model that they name; channels of one model stand in "
                "for each other",
            )
            return
        bound = {one.channel_id for one in model.bindings}
        for binding in target.bindings:
            if binding.channel_id not in bound:
                upstream = binding.upstream_model or target.id
                named = None if upstream == model.id else upstream
                model.bindings.append(Binding(binding.channel_id, named))
        self._own.setdefault(name, []).extend(self._own.get(other, []))
        self._rows.setdefault(name, []).extend(self._rows.get(other, []))

    def _environment(self, node: nodes.Node) -> None:
        for name in node.entries if isinstance(node, nodes.Table) else ():
            self.plan.leave(f"environment_variables.{name}", "set it in the environment")


def _is_spoken(channel: plan.PlannedChannel, endpoint_type: str | None) -> bool:
    if endpoint_type is None:
        return any(FAMILIES[one].is_chat for one in channel.protocols)
    return any(endpoint_type in MODEL_TYPES[one] for one in channel.protocols)


def _unfit(name: str, upstream: str, mode: str) -> str | None:
    """Return the reason why a deployment cannot be carried over; None if it can."""
    if mode not in names.MODES:
        return f"mode {mode}: there is no such endpoint here"
    if "*" in name or "*" in upstream:
        return "models have names here: gw models import adds those it knows"
    if not plan.is_name(name) or not plan.is_name(upstream):
        return "a name here has neither spaces nor commas"
    return None


def _split(model: str, provider: str | None) -> tuple[str, str]:
    """Return the provider of a model and its upstream name."""
    if provider:
        return provider, model.removeprefix(f"{provider}/")
    named, slash, upstream = model.partition("/")
    if named == "bedrock":
        # The gateway chooses Bedrock's API by the model.
        return named, upstream.removeprefix("converse/").removeprefix("invoke/")
    if slash and named in names.KIND_OF_PROVIDER:
        return named, upstream
    for beginning, guess in names.GUESSES.items():
        if not slash and model.startswith(beginning):
            return guess, model
    return (named, upstream) if slash else ("", model)
