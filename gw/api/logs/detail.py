"""The detail view of a row (reference 6.4): a client's view of its own call.

Three lists of name and text: the request's parameters, the upstream's error, and the receipt.
Channels are shown by their positions in the order considered, without names; text of upstreams is
redacted once more, because the row may be older than the current channels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Annotated, Any, TypedDict

from msgspec import Meta

from actors.wallet import receipt
from actors.wallet.money import format_credits, format_usd
from channels.families import DETAIL_KINDS, FAMILIES, PUBLIC_NAMES
from gw.api.logs.record import CallRecord
from gw.instants import format_instant
from metrics.log_redaction import redact


class Pair(TypedDict):
    """A fact and its name."""

    k: Annotated[str, Meta(description="The name.")]
    v: Annotated[str, Meta(description="The fact.")]


Pairs = list[Pair]

PASSED_OVER: Mapping[str, str] = MappingProxyType(
    {
        "data": "it does not promise what was demanded for data",
        "full": "every slot was taken",
        "open": "it was not healthy",
        "removed": "it had been removed from the configuration",
        "resting": "no key of it was left that was neither refused nor throttled",
        "tool": "it lacks a built-in tool of the request",
        "withdrawn": "it had been taken out of service",
    }
)
OUTCOMES: Mapping[str, str] = MappingProxyType(
    {
        "ok": "answered",
        "rate_limited": "takes no more requests for now",
        "status_3xx": "sent us elsewhere",
        "status_4xx": "refused the request",
        "status_5xx": "failed",
        "cut": "broke off",
        "timeout": "timed out",
        "unreachable": "could not be reached",
        "malformed": "gave an answer that cannot be read",
        "error_event": "reported an error within its answer",
        "cancelled": "was given up",
    }
)
BASES: Mapping[str, str] = MappingProxyType(
    {
        "stated": "stated by the upstream",
        "partly_stated": "stated by the upstream in part; output by the characters delivered, / 4",
        "estimated": "estimated: input by the size of the request, output by the characters"
        " delivered, each / 4, rounded up",
        "nothing": "nothing was delivered, nothing is charged",
    }
)
# The same of what is measured otherwise: seconds, searches, tokens of an input.
ESTIMATES: Mapping[str, str] = MappingProxyType(
    {
        "request": "not stated by the upstream: the length that the recording states",
        "response": "not stated by the upstream: the time in which the text is spoken",
        "hold": "not stated by the upstream: as much as was held",
    }
)
RECOVERED = "gateway_restarted"
# A price is for one, for a thousand (milliseconds: one second) or for a million (tokens).
PER: Mapping[int, str] = MappingProxyType(
    {1: "", 1000: "_per_1000", receipt.TOKENS_PER_PRICE: "_per_1m"}
)


def kind_of(record: CallRecord) -> str | None:
    """Return the kind of media; None for chat and retrieval."""
    return DETAIL_KINDS.get(record.unit_type or "")


def request_pairs(record: CallRecord) -> tuple[Pairs, str | None]:
    """Return the parameters of the request, and the reason if there are none."""
    asked = record.detail.get("request")
    if asked:
        return [_pair(name, redact(str(value))) for name, value in asked.items()], None
    if record.error_code == RECOVERED:
        return [], "The gateway stopped during this call; its parameters were not kept."
    if record.status == "rejected":
        return [], "The request was refused before its parameters were read."
    return [], "The parameters of this call were not kept."


def upstream_pairs(record: CallRecord, redact: Callable[[str], str]) -> Pairs:
    """Return the upstream's error without its identity."""
    upstream = record.detail.get("upstream") or {}
    http_status = upstream.get("status")
    facts: dict[str, Any] = {
        "http_status": http_status,
        "response_id": upstream.get("id"),
        "model": upstream.get("model"),
        "finish_reason": upstream.get("finish"),
    }
    facts |= {f"usage_{name}": count for name, count in _stated(record, upstream).items()}
    facts["error_code"] = upstream.get("error_code")
    facts["error"] = upstream.get("error")
    if http_status is not None and http_status >= 400:
        facts["error"] = record.error_message
    return [
        _pair(name, redact(str(value))) for name, value in facts.items() if value not in (None, "")
    ]


def gateway_pairs(
    record: CallRecord, redact: Callable[[str], str], credits_per_usd: Decimal
) -> Pairs:
    """Return the receipt: decisions with reasons, and the calculation of the cost."""
    detail = record.detail
    facts: dict[str, Any] = {
        "trace_id": record.trace,
        "otel_trace_id": detail.get("trace_id"),
        "protocol": _protocol(record.protocol),
        "model": record.model,
        "submitted_at": _instant(record.submitted_at),
        "ended_at": _instant(record.created_at),
        "latency_ms": record.latency_ms,
        "first_byte_ms": detail.get("first_byte_ms"),
        "status": record.status,
        "error_code": record.error_code,
        "error": redact(record.error_message) if record.error_message else None,
        **_attributed(record),
        "data_demanded": detail.get("demanded"),
        "data_promised": detail.get("promised"),
        **_correction(record),
        **_route(record, redact),
        **_chain(detail),
        **_translation(detail),
        **_budget(detail),
        **_money(record, credits_per_usd),
    }
    return [_pair(name, str(value)) for name, value in facts.items() if value is not None]


def _attributed(record: CallRecord) -> dict[str, str]:
    """Return for whom the call was made."""
    attribution = dict(record.attribution or {})
    labels = attribution.pop("labels", {})
    return {**attribution, **{f"label.{key}": value for key, value in labels.items()}}


def _correction(record: CallRecord) -> dict[str, str]:
    """Return the row before its call's true settlement."""
    if record.corrected_at is None:
        return {}
    return {
        "corrected_at": _instant(record.corrected_at),
        "status_before": record.status_before or "",
        "cost_before_usd": format_usd(record.cost_before_nano_usd or 0),
    }


def _stated(record: CallRecord, upstream: Mapping[str, Any]) -> Mapping[str, int]:
    if "usage" in upstream:
        return upstream["usage"]  # type: ignore[no-any-return]
    if not upstream or record.unit_type is not None or record.detail.get("basis"):
        return {}
    if upstream.get("status", 200) >= 400:
        return {}
    found = {
        "input": record.input_tokens,
        "cached": record.cached_tokens,
        "cache_write": record.detail.get("cache_write", 0),
        "output": record.output_tokens,
        "reasoning": record.detail.get("reasoning", 0),
    }
    return {name: n for name, n in found.items() if n or name in ("input", "output")}


def _route(record: CallRecord, redact: Callable[[str], str]) -> dict[str, str]:
    """Return the channels by their positions in the order, and every attempt."""
    detail = record.detail
    order = detail.get("order")
    if order is None:
        return {}
    numbers: dict[str, int] = {}
    for channel, _ in order:
        numbers.setdefault(channel, len(numbers) + 1)
    tried = detail.get("tried", [])
    facts = {"channels_considered": str(len(numbers))}
    if detail.get("pinned"):
        facts["order"] = "pinned by the conversation"
    elif len(numbers) > 1:
        facts["order"] = "by protocol, priority and load"
    for channel, protocol in order:
        position = numbers.pop(channel, None)
        if position is not None:
            is_passthrough = protocol in (record.protocol, _spoken(record))
            way = "native" if is_passthrough else "translated"
            fate = _fate(channel, detail.get("passed_over", {}), [one[0] for one in tried])
            facts[f"channel_{position}"] = f"{_protocol(protocol)}, {way}: {fate}"
    return facts | _attempts(record, [channel for channel, _ in order], redact)


def _spoken(record: CallRecord) -> str | None:
    """Return the protocol of the channels of the row's model; None for a removed family."""
    family = FAMILIES.get(record.protocol)
    return None if family is None else family.channel_protocol(record.model)


def _fate(channel: str, passed_over: Mapping[str, str], tried: list[str]) -> str:
    if channel in passed_over:
        return f"passed over, {PASSED_OVER.get(passed_over[channel], passed_over[channel])}"
    if channel in tried:
        return f"attempt {tried.index(channel) + 1}"
    return "not tried"


def _attempts(record: CallRecord, order: list[str], redact: Callable[[str], str]) -> dict[str, str]:
    """Return one line for each attempt, the failed internal ones first, in the row's order."""
    numbers = list(dict.fromkeys(order))
    facts = {}
    failed = record.attempts
    for number, (channel, at, ms, outcome) in enumerate(record.detail.get("tried", []), start=1):
        started = _instant(datetime.fromtimestamp(at, UTC))
        position = numbers.index(channel) + 1 if channel in numbers else "?"
        line = f"channel {position} {OUTCOMES.get(outcome, outcome)}"
        line += f" after {ms} ms, begun {started}"
        if number <= len(failed):
            error = failed[number - 1]
            line += f": {error['error_code']}: {redact(error['error_message'])}"
        facts[f"attempt_{number}"] = line
    return facts


def _chain(detail: Mapping[str, Any]) -> dict[str, str]:
    """Return which models of a chain were tried, which one served, and which ones were skipped."""
    models = enumerate(detail.get("chain", ()), start=1)
    facts = {f"attempt_{number}_model": model for number, model in models}
    if "served" in detail:
        facts["served_model"] = detail["served"]
    if "skipped" in detail:
        skipped = detail["skipped"].items()
        facts["skipped"] = "; ".join(f"{model}: {', '.join(lost)}" for model, lost in skipped)
    return facts


def _translation(detail: Mapping[str, Any]) -> dict[str, str]:
    if "translation" not in detail:
        return {}
    dropped = "; ".join(detail.get("dropped", ())) or "none"
    return {"translation": detail["translation"], "dropped_fields": dropped}


def _budget(detail: Mapping[str, Any]) -> dict[str, str]:
    """Return the budget that refused the call, and its figures as the refusal saw them."""
    refused = detail.get("budget")
    if refused is None:
        return {}
    figures = {name: nano_usd for name, nano_usd in refused.items() if name != "id"}
    return {
        "budget": refused["id"],
        **{f"budget_{name}_usd": format_usd(nano_usd) for name, nano_usd in figures.items()},
    }


def _money(record: CallRecord, credits_per_usd: Decimal) -> dict[str, Any]:
    """Return hold, price, counts and the sum, from which alone `cost_usd` can be computed."""
    detail = record.detail
    facts: dict[str, Any] = {}
    if "hold" in detail:
        is_refused = record.error_code == "quota_exceeded"
        facts["hold_refused_usd" if is_refused else "hold_usd"] = format_usd(detail["hold"])
    if "estimate" in detail:
        facts["hold_input_tokens"], facts["hold_output_tokens"] = detail["estimate"]
    try:
        lines = record.lines
    except receipt.NoPrice:
        lines = []
    for line in lines:
        unit = "tokens" if line.per == receipt.TOKENS_PER_PRICE else "units"
        facts[f"{unit}_{line.name}"] = line.count
    if "milliseconds" in detail:
        facts["seconds"] = f"{Decimal(detail['milliseconds']) / 1000:f}"
    if "portrait_auth" in detail:
        facts["portrait_auth"] = str(detail["portrait_auth"]).lower()
    if "reasoning" in detail:
        facts["tokens_output_reasoning"] = detail["reasoning"]
    if lines:
        facts |= _prices(detail, lines)
    if "estimated_by" in detail:
        facts["usage"] = ESTIMATES.get(detail["estimated_by"], detail["estimated_by"])
    elif "hold" in detail and record.unit_type is None:
        basis = detail.get("basis", "stated")
        facts["usage"] = BASES.get(basis, basis)
        facts["characters_delivered"] = detail.get("characters")
    if lines:
        facts["cost_computed"] = receipt.formula(lines, receipt.multiplier_of(detail))
    facts["cost_usd"] = format_usd(record.cost_nano_usd)
    facts["cost_credits"] = format_credits(record.cost_nano_usd, credits_per_usd)
    return facts


# What chose among the prices of a model.
_CHOSEN_BY = ("service_tier", "region", "above_tokens")


def _prices(detail: Mapping[str, Any], lines: Sequence[receipt.Line]) -> dict[str, Any]:
    """Return the prices used, and which of the model's prices they are."""
    return {
        **{f"price_{line.name}_usd{PER[line.per]}": line.usd for line in lines},
        "price_multiplier": receipt.multiplier_of(detail),
        **{f"price_{name}": detail["price"].get(name) for name in _CHOSEN_BY},
        "price_agreed": detail.get("account_price"),
    }


def _protocol(name: str) -> str:
    # The row may be older than the current families.
    return PUBLIC_NAMES.get(name, name)


def _instant(instant: datetime) -> str:
    return format_instant(instant, timespec="milliseconds")


def _pair(name: str, text: str) -> Pair:
    return {"k": name, "v": text}
