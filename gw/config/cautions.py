"""Cautions: settings that are served, and that `gw check-config` warns about.

Each function takes sections as read, without faults, and cautions the locations (reference 1.8:
Short names).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import ip_address

from channels import families
from channels.credentials import NO_AUTH
from channels.dialects.table import DIALECTS, asked_tier
from channels.family import Family
from channels.media.plain import submits
from channels.prices import PriceSpec
from channels.redaction import CHANNEL_ID_CHARACTERS_MIN, KEY_CHARACTERS_MIN
from gw.config.addresses import ListenAddress
from gw.config.mappings import Section
from gw.config.upstream import PROVED

# How addresses of endpoints end, the version left out, the longest first.
_OWN_ENDS = sorted(
    {
        path.removeprefix("/v1")
        for path in (
            *(dialect.address.path for dialect in DIALECTS.values() if not dialect.address.action),
            *(submits.VIDEOS, submits.MUSIC, submits.SPEECH, submits.VOICES),
            *(submits.TRANSCRIPTS, submits.AVATARS, "/v1/completions"),
            *("/v1/models", "/v1/messages/count_tokens", "/v1/audio/transcriptions"),
        )
    },
    key=len,
    reverse=True,
)

# The last part of a path that names what is done, such as :generateContent.
_ACTION = re.compile(r"(?<=[^/]):[A-Za-z]+\Z")

_QUOTES = "\"'`"

_INNER_LISTENERS: Mapping[str, str] = {
    "admin_listen": "reads metrics, model and channel names",
    "console_listen": "is shown the console's sign-in, which opens everything",
}


def caution_wildcard_listeners(top: Section) -> None:
    """Caution listeners that are not for clients, on all addresses."""
    for name, what in _INNER_LISTENERS.items():
        address: ListenAddress | None = top.values[name]
        if address is not None and _is_wildcard(address.host):
            top.location(name).caution(
                f"{address} is every interface: whoever reaches the port {what}; 127.0.0.1 or an "
                "address of an inner network is safer"
            )


def caution_unused_channels(models: Sequence[Section], channels: Sequence[Section]) -> None:
    """Caution a channel without models, which is never called."""
    used = {bound.values["id"] for model in models for bound in model.values["channels"]}
    for channel in channels:
        if channel.values["id"] not in used:
            channel.location("id").caution("no model uses this channel")


def caution_unserved_models(models: Sequence[Section], channels: Sequence[Section]) -> None:
    """Caution a callable model whose channels do not speak its protocol."""
    by_id = {channel.values["id"]: channel.values for channel in channels}
    for model in models:
        rows = _families_of(model.values["endpoint_type"])
        bound = [by_id[one.values["id"]] for one in model.values["channels"]]
        if not rows or not bound or not model.values["callable"]:
            continue
        model_id = model.values["id"]
        protocols = [row.channel_protocol(model_id) for row in rows]
        speaking = [one for one in bound if not set(protocols).isdisjoint(one["protocols"])]
        wires = {one["wire"].get(protocol) for one in speaking for protocol in protocols}
        if not speaking:
            status = 404 if families.EMBEDDINGS in rows else 503
            model.location("channels").caution(
                f"none of these channels speaks {' or '.join(protocols)}: every call is answered "
                f"{status}"
            )
        elif wires == {"shanjian"} and model_id.startswith(("dh-lipsync", "dh-motion")):
            model.location("channels").caution(
                "the wire shanjian makes dh-avatar alone: every call is answered 503"
            )


def _families_of(endpoint_type: str | None) -> list[Family]:
    """Return the families of a dedicated endpoint; empty for chat models and placeholders."""
    rows = (row for row in families.FAMILIES.values() if not row.is_chat)
    return [row for row in rows if endpoint_type in families.MODEL_TYPES[row.protocol]]


# Models listed in one caution.
MODELS_NAMED_MAX = 3


def asked_tiers(channels: Sequence[Section]) -> dict[str, str | None]:
    """Return the service tiers that channels ask for in their own headers, by channel."""
    values = [one.values for one in channels]
    return {one["id"]: asked_tier(one["wire"].values, one["headers"].pairs) for one in values}


def caution_unpriced(models: Sequence[Section], channels: Sequence[Section]) -> None:
    """Caution billable usage that upstreams of a chat model can report, and that has no price."""
    without_search: dict[str, list[str]] = {}
    of_messages = {
        one.values["id"]
        for one in channels
        if families.MESSAGES.protocol in one.values["protocols"]
    }
    asked = asked_tiers(channels)
    for model in models:
        values = model.values
        if values["endpoint_type"] is not None or not values["callable"]:
            continue
        price = PriceSpec(**values["price"].values)
        for bound in values["channels"]:
            channel_id = bound.values["id"]
            own = (bound.values["price"] or PriceSpec()).over(price)
            is_refused = values["unpriced"] == "refuse"
            messages = [
                *_unpriced(own, is_refused, channel_id in of_messages),
                *_asked(own, asked[channel_id]),
            ]
            for message in messages:
                model.location("price").caution(f"{message} (channel {channel_id})")
            if own.per_web_search is None:
                without_search.setdefault(channel_id, []).append(values["id"])
    for channel in channels:
        lacking = without_search.get(channel.values["id"])
        if lacking and "tools" in channel.locations and "web_search" in channel.values["tools"]:
            rest = len(lacking) - MODELS_NAMED_MAX
            named = ", ".join(lacking[:MODELS_NAMED_MAX]) + (f" and {rest} more" * (rest > 0))
            channel.location("tools").caution(
                "searches that the upstream runs cost nothing: no per_web_search in the price of"
                f" {named}"
            )


def _unpriced(price: PriceSpec, is_refused: bool, speaks_messages: bool) -> Iterator[str]:
    if not is_refused and not set(price.service_tiers or ()).intersection(families.DEARER_TIERS):
        yield (
            "unpriced is standard, so that dearer service tiers are served at the standard price:"
            " service_tiers has none of them"
        )
    lacks_hour = price.cache_write is not None and price.cache_write_1h is None
    # Only upstreams of messages have one-hour cache writes.
    if price.has_dimensions and lacks_hour and speaks_messages:
        yield "no cache_write_1h: what is written to a cache for an hour costs as cache_write"
    tiers = price.service_tiers or {}
    for name in tiers if price.above_tokens else ():
        if tiers[name].prices and not tiers[name].above_tokens:
            yield (
                f"service_tiers.{name} has prices of its own and no above_tokens: long prompts"
                " cost the same there"
            )


def _asked(price: PriceSpec, tier: str | None) -> Iterator[str]:
    """Upstreams that take a tier in a header state it, so that its price is of `service_tiers`."""
    if tier in (price.service_tiers or ()) and price.factor is not None:
        yield (
            f"the channel's headers ask for {tier}, which costs service_tiers.{tier} and the"
            " factor: state it once"
        )
    elif tier in families.DEARER_TIERS and tier not in (price.service_tiers or ()):
        yield f"the channel's headers ask for {tier}, and service_tiers has no price of it"


def caution_short_names(channels: Sequence[Section]) -> None:
    """Caution a secret too short to be redacted: it may be part of ordinary text."""
    for channel in channels:
        if len(channel.values["id"]) < CHANNEL_ID_CHARACTERS_MIN:
            channel.location("id").caution(
                "too short to be masked in messages that clients see: give the channel an id of "
                f"{CHANNEL_ID_CHARACTERS_MIN} characters or more"
            )
        short = [len(one) for one in _field_secrets(channel)]
        if short and min(short) < KEY_CHARACTERS_MIN:
            channel.at.caution(
                "what headers or query take from the environment is too short to be masked where "
                f"the upstream repeats it: {KEY_CHARACTERS_MIN} characters or more are"
            )
        if any(len(key) < KEY_CHARACTERS_MIN for key in channel.values["api_key"]):
            channel.location("api_key").caution(
                "too short to be masked where the upstream repeats it: keys of "
                f"{KEY_CHARACTERS_MIN} characters or more are"
            )


def _field_secrets(channel: Section) -> frozenset[str]:
    secrets: frozenset[str] = channel.values["headers"].secrets | channel.values["query"].secrets
    return secrets


def caution_versions_twice(channels: Sequence[Section]) -> None:
    """Caution a version at the end of `base_url` and at the beginning of the appended path."""
    for channel in channels:
        values = channel.values
        last = values["base_url"].rpartition("/")[2]
        for protocol in values["protocols"]:
            dialect = DIALECTS.get(protocol)
            if dialect is None or values["paths"].get(protocol) is not None:
                continue
            if dialect.address.path.startswith(f"/{last}/"):
                channel.location("base_url").caution(
                    f"requests go to {values['base_url']}{dialect.address.path}: each "
                    f"protocol's own path is appended, so leave /{last} out of the address"
                )
                break


def caution_endpoints_in_address(channels: Sequence[Section]) -> None:
    """Caution an address that ends in a protocol's own path, which would be appended to it."""
    for channel in channels:
        base_url, paths = channel.values["base_url"], channel.values["paths"]
        if all(paths.get(one) is not None for one in channel.values["protocols"]):
            continue
        found = _ACTION.search(base_url)
        if found is not None:
            end: str | None = found[0]
        else:
            end = next((one for one in _OWN_ENDS if base_url.lower().endswith(one)), None)
        if end is not None:
            channel.location("base_url").caution(
                f"ends in {end}, the path of an endpoint: each protocol's own path is appended, so "
                "leave it out of the address, or say it in paths"
            )


def caution_quoted_keys(channels: Sequence[Section]) -> None:
    """Caution a key with quotes at an end, or with the sign of a variable at its beginning.

    Some files of variables are read with their quotes, and without putting values in.
    """
    for channel in channels:
        keys = [key for key in _keys(channel) if key]
        if any(key[0] in _QUOTES or key[-1] in _QUOTES for key in keys):
            channel.location("api_key").caution(
                "has quotes around it, and is sent with them: a file of variables may have them "
                "where its reader takes them for a part of the value"
            )
        if any(key[0] == "$" for key in keys):
            channel.location("api_key").caution(
                "begins with $, and is sent with it: the variable named in it was not put in"
            )


def _keys(channel: Section) -> Sequence[str]:
    keys: Sequence[str] = channel.values["api_key"]
    return keys


def caution_unsent_keys(channels: Sequence[Section]) -> None:
    """Caution a configured key that `auth` never sends."""
    for channel in channels:
        way = channel.values["auth"]
        if way in (NO_AUTH, *PROVED) and channel.values["api_key"]:
            channel.location("api_key").caution(f"not sent anywhere: auth is {way}")


def _is_wildcard(host: str) -> bool:
    try:
        return ip_address(host).is_unspecified
    except ValueError:
        return False  # a name
