"""Parses a price list of LiteLLM's form: an object of models with costs in USD per token.

(`model_prices_and_context_window.json`, as of 2026-10-13.) Costs without a counterpart and rows of
unknown providers are reported in the list (`PriceList.unmapped`).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any

from channels.prices import PriceSpec, PriceStep, TierPrice
from gw.config.load import read_text
from gw.config.prices import SEARCH_SIZES, STEPS_MAX
from gw.moving_in.litellm.names import KIND_OF_PROVIDER, MODES
from gw.moving_in.plan import is_name
from gw.price_list import reading

_PER_TOKEN: Mapping[str, str] = MappingProxyType(
    {
        "input_cost_per_token": "input",
        "output_cost_per_token": "output",
        "cache_read_input_token_cost": "cached_input",
        "cache_creation_input_token_cost": "cache_write",
        "cache_creation_input_token_cost_above_1hr": "cache_write_1h",
        "input_cost_per_audio_token": "audio_input",
        "cache_read_input_audio_token_cost": "cached_audio_input",
        "input_cost_per_image_token": "image_input",
        "cache_read_input_image_token_cost": "cached_image_input",
        "output_cost_per_audio_token": "audio_output",
        "output_cost_per_image_token": "image_output",
        "output_cost_per_reasoning_token": "reasoning_output",
    }
)
_EACH: Mapping[str, tuple[str, int]] = MappingProxyType(
    {
        "input_cost_per_request": ("per_request", 1),
        "file_search_cost_per_1k_calls": ("per_file_search", 1000),
        "code_interpreter_cost_per_session": ("per_code_session", 1),
    }
)
_TIERS = {"priority": "priority", "flex": "flex", "batches": "batch", "fast": "fast"}
_MEMBER = re.compile(
    rf"(?P<base>.+?)(?:_above_(?P<thousands>\d{{1,6}})k_tokens)?(?:_(?P<tier>{'|'.join(_TIERS)}))?"
)
_SEARCHES = "search_context_cost_per_query"
_FACTORS = "provider_specific_entry"
_STEP = Decimal(1).scaleb(-12)  # the finest step of a price here
_MOST = Decimal(1_000_000)
_PUBLISHED = "https://github.com/BerriAI/litellm/blob/main/model_prices_and_context_window.json"


def read_prices(path: Path) -> reading.PriceList:
    """Parse the list at `path`, of the form of `bundled.yaml` or of LiteLLM's.

    Raises ConfigFaults for a list of neither form.
    """
    text = read_text(path)
    entries = _entries(text)
    if entries is None:
        return reading.read_list(text, source=path)
    changed = datetime.fromtimestamp(path.stat().st_mtime, UTC).date()
    return _ListReader(str(path), changed).read(entries)


def _entries(text: str) -> Mapping[str, Any] | None:
    """Return the models of a LiteLLM list; None for any other text."""
    if not text.lstrip().startswith("{"):
        return None
    try:
        value = json.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError):
        return None
    rows = value.values() if isinstance(value, dict) else ()
    is_listed = any(isinstance(one, dict) and "litellm_provider" in one for one in rows)
    return value if is_listed else None


class _ListReader:
    def __init__(self, file: str, dated: date) -> None:
        self._file = file
        self._dated = dated
        self._rows: dict[tuple[str, str], reading.PriceRow] = {}
        self._unmapped: list[str] = []

    def read(self, entries: Mapping[str, Any]) -> reading.PriceList:
        others: Counter[str] = Counter()
        for name, entry in entries.items():
            if name == "sample_spec" or not isinstance(entry, dict):
                continue
            provider, mode = str(entry.get("litellm_provider")), entry.get("mode")
            kind = _kind_of(provider)
            if not kind:
                others[f"rows of {provider}: no kind of channel is for this provider"] += 1
            elif mode is not None and MODES.get(mode, mode) is not None:
                others[f"rows of mode {mode}: their prices are not read from this form"] += 1
            else:
                self._add(name, kind, provider, entry)
        counted = [f"{count} {what}" for what, count in sorted(others.items())]
        rows = tuple(self._rows.values())
        return reading.PriceList(self._file, self._dated, rows, (*self._unmapped, *counted))

    def _add(self, name: str, kind: str, provider: str, entry: Mapping[str, Any]) -> None:
        upstream = name.removeprefix(f"{provider}/")
        model = upstream.rpartition("/")[2]
        if not is_name(upstream) or not is_name(model):
            self._unmapped.append(f"{name}: a name here has neither spaces nor commas")
            return
        if (kind, upstream) in self._rows:
            self._unmapped.append(f"{name}: listed twice for {kind}")
            return
        price = self._price(name, entry)
        if price is None:
            self._unmapped.append(f"{name}: no cost of input and output")
            return
        page = entry.get("source")
        self._rows[kind, upstream] = reading.PriceRow(
            provider=kind,
            model=model,
            upstream=upstream,
            price=price,
            source=reading.PriceSource(page if isinstance(page, str) else _PUBLISHED, None),
            context_size=_whole(entry.get("max_input_tokens")),
            max_output_tokens=_whole(entry.get("max_output_tokens")),
            endpoint_type=None,
            capabilities=(),
            aliases=(),
            note="",
        )

    def _price(self, name: str, entry: Mapping[str, Any]) -> PriceSpec | None:
        tokens: dict[tuple[str, int], dict[str, Decimal]] = {}  # by tier and bound
        members: dict[str, Any] = {}
        factors: dict[str, Decimal] = {}
        for key, value in entry.items():
            if key == _SEARCHES:
                members["per_web_search"] = self._searches(name, value)
            elif key == _FACTORS:
                factors, members["regions"] = self._factors(name, value)
            elif (
                "cost" in key and value is not None and not self._take(key, value, tokens, members)
            ):
                self._unmapped.append(f"{name}: {key}")
        plain = tokens.pop(("", 0), {})
        # A model without cost there is unknown, or paid for otherwise.
        if not {"input", "output"} <= plain.keys() or not plain["input"] + plain["output"]:
            return None
        stated: dict[str, Any] = {**plain, **members}
        return PriceSpec(
            **{key: value for key, value in stated.items() if value is not None},
            above_tokens=_steps("", tokens) or None,
            service_tiers=_tiers_of(tokens, factors) or None,
        )

    def _take(
        self,
        key: str,
        value: Any,
        tokens: dict[tuple[str, int], dict[str, Decimal]],
        members: dict[str, Any],
    ) -> bool:
        """Add one cost to `tokens` or `members`. False if it has no counterpart."""
        if key in _EACH:
            member, over = _EACH[key]
            members[member] = _amount(value, Decimal(1) / over)
            return members[member] is not None
        match = _MEMBER.fullmatch(key)
        member = _PER_TOKEN.get(match["base"], "") if match is not None else ""
        cost = _amount(value, Decimal(1_000_000))
        if match is None or not member or cost is None:
            return False
        where = (_TIERS.get(match["tier"] or "", ""), int(match["thousands"] or 0) * 1000)
        tokens.setdefault(where, {})[member] = cost
        return True

    def _searches(self, name: str, value: Any) -> Decimal | dict[str, Decimal] | None:
        """Return the price of a search; one amount if all sizes of context cost the same."""
        sizes = value if isinstance(value, dict) else {}
        found = {}
        for size in SEARCH_SIZES:
            cost = _amount(sizes.get(f"search_context_size_{size}"), Decimal(1))
            if cost is not None:
                found[size] = cost
        if not found:
            self._unmapped.append(f"{name}: {_SEARCHES}")
            return None
        return found if len(set(found.values())) > 1 else next(iter(found.values()))

    def _factors(
        self, name: str, value: Any
    ) -> tuple[dict[str, Decimal], dict[str, Decimal] | None]:
        """Return the factors of tiers, and of regions."""
        found, regions = dict[str, Decimal](), dict[str, Decimal]()
        for key, factor in value.items() if isinstance(value, dict) else ():
            amount = _amount(factor, Decimal(1))
            if key in ("fast", "priority", "flex") and amount:
                found[key] = amount
            elif key == "us" and amount:
                regions[key] = amount
            else:
                self._unmapped.append(f"{name}: {_FACTORS}.{key}")
        return found, regions or None


def _tiers_of(
    tokens: Mapping[tuple[str, int], dict[str, Decimal]], factors: Mapping[str, Decimal]
) -> dict[str, TierPrice]:
    tiers = {tier: TierPrice(factor=factor) for tier, factor in factors.items()}
    for tier in sorted({tier for tier, _ in tokens if tier}):
        own = tokens.get((tier, 0), {})
        tiers[tier] = TierPrice(prices=own, above_tokens=_steps(tier, tokens))
    return tiers


def _steps(
    tier: str, tokens: Mapping[tuple[str, int], dict[str, Decimal]]
) -> tuple[PriceStep, ...]:
    bounds = sorted(above for one, above in tokens if one == tier and above)
    return tuple(PriceStep(above, tokens[tier, above]) for above in bounds[:STEPS_MAX])


def _kind_of(provider: str) -> str:
    """Return the kind of a provider's channels; Google and Amazon have several names."""
    return next(
        (
            KIND_OF_PROVIDER[name]
            for name in (provider, provider.partition("-")[0], provider.partition("_converse")[0])
            if name in KIND_OF_PROVIDER
        ),
        "",
    )


def _amount(value: Any, times: Decimal) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return None
    amount = value * times
    return amount.quantize(_STEP).normalize() if 0 <= amount <= _MOST else None


def _whole(value: Any) -> int | None:
    return value if type(value) is int and value > 0 else None
