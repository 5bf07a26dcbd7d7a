"""The most that a request may be billed by, if its model has more than the four plain prices.

The service tier is a member of the request, parsed strictly: a dearer one without a price is
refused (`unpriced`). Other members are searched for in the text of the body, since they only
decide the hold; the charge follows the upstream's usage.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from actors.wallet import sheets
from actors.wallet.pricing import Billable, TokenPrice
from channels.dialects.token_counts import served_region
from channels.families import DEARER_TIERS, SERVICE_TIERS
from channels.registry import ModelSpec
from gw.calls.token_charge import tokens_of_bytes
from gw.errors import INVALID_REQUEST, GatewayError

# The members of a tier, as spelled by the protocols.
SPEED = "speed"  # of messages, whose fast mode is no service tier
TIER_MEMBERS = ("service_tier", SPEED, "serviceTier")
REGION = "inference_geo"
_MEMBERS = frozenset((*TIER_MEMBERS, REGION))
_PREFIX = "service_tier_"  # of the native protocol's names
# Of a longer body only the first and the last half of this are searched, for a millisecond.
LOOKED_THROUGH_BYTES_MAX = 1024 * 1024
# The limit of tool calls in a hold.
TOOL_CALLS_MAX = 1000

# Prices of parts of the tokens: texts of which any one shows that a request may be billed by it.
_MARKS: Mapping[str, tuple[bytes, ...]] = {
    "audio_input": (b'"input_audio"', b'"audio/'),
    "image_input": (b'"image_url"', b'"input_image"', b'"image"', b'"image/'),
    "audio_output": (b'"modalities"', b'"AUDIO"'),
    "image_output": (b'"IMAGE"', b'"image_generation"'),
}
_HOUR = re.compile(rb'"ttl"\s*:\s*"1h"')
_TOOLS: Mapping[str, tuple[bytes, ...]] = {
    "per_web_search": (b'"web_search', b'"googleSearch', b'"google_search'),
    "per_file_search": (b'"file_search"', b'"fileSearch"'),
    "per_code_session": (b'"code_interpreter"', b'"code_execution', b'"codeExecution"'),
}
_USES = re.compile(rb'"max_(?:uses|tool_calls)"\s*:\s*(\d{1,9})')
_SIZE = re.compile(rb'"search_context_size"\s*:\s*"(low|medium|high)"')


def billed_by(model: ModelSpec, parameters: Mapping[str, str], body: bytes) -> Billable | None:
    """Return what a request is billed by besides plain tokens. Raises GatewayError."""
    price: TokenPrice = model.derived.get(TokenPrice) or sheets.price_of(model)
    is_plain = price.sheet is None and price.channels is None
    if is_plain and _MEMBERS.isdisjoint(parameters):
        return None
    tier = tier_named(model, price, parameters)
    region = region_named(model, price, parameters) if REGION in parameters else None
    return None if is_plain else billable_of(body, tier, region)


# The number of responses requested, by the names of `ParsedChatRequest.parameters`.
_CHOICES = (
    "n",
    "generationConfig.candidateCount",
    "generationConfig.candidate_count",
    "generation_config.candidateCount",
    "generation_config.candidate_count",
)
_NAMES_CHOICES = frozenset(_CHOICES)


def choices_of(parameters: Mapping[str, str]) -> int:
    """Return how many responses a request asks for."""
    if _NAMES_CHOICES.isdisjoint(parameters):
        return 1
    stated = next(parameters[name] for name in _CHOICES if name in parameters)
    return int(stated) if stated.isascii() and stated.isdigit() else 1


def tier_named(model: ModelSpec, price: TokenPrice, parameters: Mapping[str, str]) -> str | None:
    """Return the tier that a request names; None for the standard one.

    Raises GatewayError for a dearer one without a price, unless the model's policy is to bill it at
    the standard price.
    """
    for member in TIER_MEMBERS:
        tier = parameters.get(member, "").lower().removeprefix(_PREFIX)
        if tier not in SERVICE_TIERS:
            continue
        if tier == "fast" and member != SPEED:
            tier = "priority"  # the other name
        if tier in DEARER_TIERS and model.refuses_unpriced and not sheets.has_tier(price, tier):
            raise GatewayError(
                INVALID_REQUEST,
                f"{member}: `{parameters[member]}` has no price for the model `{model.id}`. "
                "Leave it out for the standard tier.",
                param=member,
            )
        return tier
    return None


def region_named(model: ModelSpec, price: TokenPrice, parameters: Mapping[str, str]) -> str:
    """Return the region that a request is limited to; empty where it may be served anywhere.

    Raises GatewayError like `tier_named`: providers charge for a region.
    """
    region = served_region(parameters.get(REGION)) or ""
    if region and model.refuses_unpriced and not sheets.has_region(price, region):
        raise GatewayError(
            INVALID_REQUEST,
            f"{REGION}: `{region}` has no price for the model `{model.id}`. "
            "Leave it out to be served anywhere.",
            param=REGION,
        )
    return region


def refuse_advisor(model: ModelSpec, tools: Sequence[str]) -> None:
    """Raise GatewayError for the adviser tool, whose tokens have no price.

    A model whose policy is `unpriced: standard` forwards it.
    """
    if sheets.ADVISOR in tools and model.refuses_unpriced:
        raise GatewayError(
            INVALID_REQUEST,
            f"tools: `{sheets.ADVISOR}` has no price for the model `{model.id}`. Leave it out.",
            param="tools",
        )


def billable_of(body: bytes, tier: str | None, region: str | None = None) -> Billable:
    """Return the members that a request may be billed by, in this tier and region."""
    text = body
    if len(body) > LOOKED_THROUGH_BYTES_MAX:
        half = LOOKED_THROUGH_BYTES_MAX // 2
        text = body[:half] + body[-half:]
    members = {name for name, marks in _MARKS.items() if any(mark in text for mark in marks)}
    if b'"cache_control"' in text and _HOUR.search(text):
        members.add("cache_write_1h")
    tools = {name: 1 for name, marks in _TOOLS.items() if any(mark in text for mark in marks)}
    if "per_web_search" in tools:
        uses = sum(int(found) for found in _USES.findall(text))
        tools["per_web_search"] = min(max(uses, 1), TOOL_CALLS_MAX)
    size = _SIZE.search(text)
    return Billable(
        tier=tier,
        region=region,
        input_tokens=tokens_of_bytes(len(body)),
        members=frozenset(members),
        tools=tools,
        search_size=None if size is None else size[1].decode(),
    )
