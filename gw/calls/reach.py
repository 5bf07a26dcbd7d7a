"""What a request may be billed by at most, where its model has more than the four plain prices.

The service tier that a request names is a member of its own, read strictly: a dearer one without a
price is refused (`unpriced`). The rest is looked for in the text of the body, because it only
decides how much is held; what is charged is what the upstream reports.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from actors.wallet.pricing import Reach, TokenPrice
from actors.wallet.sheets import has_tier
from channels.families import DEARER_TIERS, SERVICE_TIERS
from channels.registry import ModelSpec
from gw.errors import INVALID_REQUEST, GatewayError

# The members that name a tier, in the protocols' spellings.
SPEED = "speed"  # of messages, where fast is no tier of service
TIER_MEMBERS = ("service_tier", SPEED, "serviceTier")
_PREFIX = "service_tier_"  # of the native protocol's names in full
# Of a longer body its beginning and its end are looked through, which takes a millisecond.
LOOKED_THROUGH_BYTES_MAX = 1024 * 1024
# What is held for calls of tools, whatever a request states.
TOOL_CALLS_MAX = 1000

# A price of a part of the tokens, and the texts of which one shows that a request reaches it.
_MARKS: Mapping[str, tuple[bytes, ...]] = {
    "cache_write": (b'"cache_control"',),
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
_USES = re.compile(rb'"max_uses"\s*:\s*(\d{1,9})')
_SIZE = re.compile(rb'"search_context_size"\s*:\s*"(low|medium|high)"')


def tier_named(model: ModelSpec, price: TokenPrice, parameters: Mapping[str, str]) -> str | None:
    """The tier that a request names, None for the standard one.

    Raises GatewayError where it is a dearer one without a price, unless the model's policy is to
    sell that at the standard price.
    """
    for member in TIER_MEMBERS:
        tier = parameters.get(member, "").lower().removeprefix(_PREFIX)
        if tier not in SERVICE_TIERS:
            continue
        if tier == "fast" and member != SPEED:
            tier = "priority"  # its other name
        if tier in DEARER_TIERS and model.refuses_unpriced and not has_tier(price, tier):
            raise GatewayError(
                INVALID_REQUEST,
                f"{member}: `{parameters[member]}` has no price for the model `{model.id}`. "
                "Leave it out for the standard tier.",
                param=member,
            )
        return tier
    return None


def reach_of(body: bytes, tier: str | None) -> Reach:
    """What a request can reach by its body, in this tier."""
    text = body
    if len(body) > LOOKED_THROUGH_BYTES_MAX:
        half = LOOKED_THROUGH_BYTES_MAX // 2
        text = body[:half] + body[-half:]
    members = {name for name, marks in _MARKS.items() if any(mark in text for mark in marks)}
    if "cache_write" in members and _HOUR.search(text):
        members.add("cache_write_1h")
    tools = {name: 1 for name, marks in _TOOLS.items() if any(mark in text for mark in marks)}
    if "per_web_search" in tools:
        uses = sum(int(found) for found in _USES.findall(text))
        tools["per_web_search"] = min(max(uses, 1), TOOL_CALLS_MAX)
    size = _SIZE.search(text)
    return Reach(
        tier=tier,
        members=frozenset(members),
        tools=tools,
        search_size=None if size is None else size[1].decode(),
    )
