"""Checks across values: duplicate ids, models bound to missing channels, and the like.

Each function takes sections as read, some of whose keys may have been refused, and reports the
locations of conflicts (contract §2, spec: Account wallet, Model catalog entry).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from importlib.util import find_spec
from ipaddress import ip_address

from channels.dialects.dialect import MODEL
from channels.dialects.table import CHAT_DIALECTS, DIALECTS, asked_tier
from channels.families import (
    CHAT_PRICES,
    DEARER_TIERS,
    ENDPOINT_TYPES,
    FAMILIES,
    MESSAGES,
    MODEL_TYPES,
    TOKEN_PRICES,
    UNIT_PRICES,
    VIDEOS,
    Family,
)
from channels.media import plain_submit
from channels.prices import DIMENSIONS, PriceSpec
from channels.redaction import CHANNEL_ID_CHARACTERS_MIN, KEY_CHARACTERS_MIN
from channels.registry import NO_AUTH, PLAIN
from gw.config.config import ListenAddress
from gw.config.readers import Location, quoted, suggestion
from gw.config.upstream import PROVED, Fields, key_fields
from gw.config.values import Located, Section

# How addresses of endpoints end, the version left out, the longest first.
_OWN_ENDS = sorted(
    {
        path.removeprefix("/v1")
        for path in (
            *(dialect.address.path for dialect in DIALECTS.values() if not dialect.address.action),
            *(plain_submit.VIDEOS, plain_submit.MUSIC, plain_submit.SPEECH, plain_submit.VOICES),
            *(plain_submit.TRANSCRIPTS, plain_submit.AVATARS, "/v1/embeddings", "/v1/completions"),
        )
    }
    | {":generateContent", ":streamGenerateContent"},
    key=len,
    reverse=True,
)
# The settings required to reach a bucket.
BUCKET_KEYS = ("endpoint", "bucket", "access_key", "secret_key")


def check_listeners(top: Section) -> None:
    """Check that listeners have distinct addresses; port 0 is always distinct."""
    taken: dict[ListenAddress, str] = {}
    for name in ("listen", "admin_listen", "console_listen"):
        address = top.get(name)
        if address is None or not address.port:
            continue
        other = taken.setdefault(address, name)
        if other != name:
            top.location(name).blame(
                found=f"{quoted(str(address))}, which {other} has too",
                allowed="an address of its own",
            )


def check_secrets(top: Section) -> None:
    """Check that the previous secret differs from the secret."""
    if top.get("previous_secret") and top.get("previous_secret") == top.get("secret"):
        top.location("previous_secret").blame(
            found="the same as secret", allowed="what secret was before, or empty"
        )


def check_retention(top: Section) -> None:
    """Check that entries are kept longer than rows of the call log, which they prove."""
    log, ledger = top.get("retention_months"), top.get("ledger_retention_months")
    if ledger is None or (log is not None and ledger > log):
        return
    top.location("ledger_retention_months").blame(
        found=f"{ledger}, with retention_months: {'null' if log is None else log}",
        allowed="null, or more than retention_months, which is set then",
    )


def check_certificate(tls: Section | None) -> None:
    """Check that a certificate has its key, and a key its certificate."""
    if tls is None:
        return
    for name, other in (("certificate", "key"), ("key", "certificate")):
        if tls.get(name) == "" and tls.get(other):
            tls.location(name).blame(found="nothing", allowed=f"a file, where there is a {other}")


def check_buckets(top: Section) -> None:
    """Check that a bucket has its name, its keys, and its client library."""
    for name, others in (("media_store", "none or local"), ("kb_store", "local")):
        store = top.get(name)
        if store is not None and store.get("kind") == "s3":
            _check_bucket(store, others)


def _check_bucket(store: Section, others: str) -> None:
    for name in BUCKET_KEYS:
        if store.get(name) == "":
            store.location(name).blame(found="nothing", allowed="a text, where the kind is s3")
    if find_spec("botocore") is None:
        store.location("kind").blame(
            found="s3, which needs a package that is not installed",
            allowed=others,
            hint="pip install 'model-gateway[s3]'",
        )


def check_channel_ids(channels: Sequence[Section]) -> None:
    """Check that channels have distinct ids."""
    first: dict[str, Location] = {}
    for channel in channels:
        channel_id = channel.get("id")
        if channel_id in first:
            channel.location("id").blame(
                found=f"{quoted(channel_id)}, which is {first[channel_id].path} already",
                allowed="an id of its own",
            )
        elif channel_id is not None:
            first[channel_id] = channel.at


def check_model_names(models: Sequence[Section]) -> None:
    """Check that ids and aliases are distinct; ids first, so that the alias is reported."""
    first: dict[str, Location] = {}
    ids = [
        Located(model.values["id"], model.location("id"))
        for model in models
        if "id" in model.values
    ]
    aliases = [alias for model in models for alias in model.get("aliases", ())]
    for name in [*ids, *aliases]:
        if name.value in first:
            name.at.blame(
                found=f"{quoted(name.value)}, which is {first[name.value].path} already",
                allowed="a name no other model has as id or alias",
            )
        else:
            first[name.value] = name.at


def check_bindings(models: Sequence[Section], channels: Sequence[Section] | None) -> None:
    """Check that models are bound to existing channels, each once. None: unknown channels."""
    known = [channel.get("id") for channel in channels or ()]
    ids = [channel_id for channel_id in known if channel_id is not None]
    # If the id of some channel was refused, any binding may refer to it.
    all_known = channels is not None and len(ids) == len(known)
    for model in models:
        seen: set[str] = set()
        for bound in model.get("channels", ()):
            channel_id = bound.get("id")
            if channel_id is None:
                continue
            if all_known and channel_id not in ids:
                bound.location("id").blame(
                    found=f"the unknown channel {quoted(channel_id)}",
                    allowed=f"one of {', '.join(dict.fromkeys(ids))}" if ids else "none",
                    hint=suggestion(channel_id, ids),
                )
            elif channel_id in seen:
                bound.location("id").blame(
                    found=f"the channel {quoted(channel_id)} again",
                    allowed="each channel once for a model",
                )
            seen.add(channel_id)


def check_prices(models: Sequence[Section]) -> None:
    """Check that a callable model with a channel has the price of its endpoint."""
    for model in models:
        price = model.get("price")
        if price is None or not model.get("callable") or not model.get("channels"):
            continue
        _check_area(price)
        if "endpoint_type" in model.values:
            _check_price(price, model.values["endpoint_type"])
            check_price_units(price, model.values["endpoint_type"])
            for bound in model.get("channels", ()):
                _check_entry_price(bound, model.values["endpoint_type"])


def _check_price(price: Section, endpoint_type: str | None) -> None:
    if endpoint_type is None:
        for key in CHAT_PRICES:
            # Not `is None` alone: an absent key was refused, and is already reported.
            if price.get(key, Decimal(0)) is None:
                price.location(key).blame(
                    found="no price", allowed="a price: a chat model needs input and output"
                )
        return
    units = ENDPOINT_TYPES[endpoint_type].prices
    if units and all(price.get(key, Decimal(0)) is None for key in units):
        price.at.blame(
            found="no price by the unit that is billed",
            allowed=f"{' or '.join(units)} for {endpoint_type}",
        )


def _check_entry_price(bound: Section, endpoint_type: str | None) -> None:
    """Check that only models billed by tokens have a channel's own price."""
    price: PriceSpec | None = bound.get("price")
    if price is None:
        return
    units = [name for name in UNIT_PRICES if getattr(price, name) is not None]
    if endpoint_type is not None or units:
        bound.location("price").blame(
            found="a price by the unit" if units else f"a price of {endpoint_type}",
            allowed="a price of tokens on a channel of a chat model",
        )


def check_price_units(price: Section, endpoint_type: str | None) -> None:
    """Report prices of units that this endpoint is not billed by; token prices are allowed."""
    billed: Sequence[str] = (*TOKEN_PRICES, *DIMENSIONS)
    hint = ""
    if endpoint_type is not None:
        kind = ENDPOINT_TYPES[endpoint_type]
        billed = (*kind.prices, *kind.more_prices)
        if "input" in billed:
            billed = (*billed, *DIMENSIONS)
    for key in price.locations:
        if price.get(key) is None or key in billed or key in TOKEN_PRICES:
            continue
        if endpoint_type is None:
            fitting = [kind.name for kind in ENDPOINT_TYPES.values() if key in kind.prices]
            hint = (
                f"a model billed so says endpoint_type: {' or '.join(fitting)}" if fitting else ""
            )
        price.location(key).blame(
            found=f"{key}, which {endpoint_type or 'a chat model'} is not billed by",
            allowed=f"the prices {', '.join(billed)}" if billed else "no price, as it is free",
            hint=hint,
        )


def _check_area(price: Section) -> None:
    pair = ("per_image_large", "area_threshold_mp")
    for key, other in (pair, pair[::-1]):
        if price.get(key) is not None and price.get(other, Decimal(0)) is None:
            price.location(other).blame(found="nothing", allowed=f"a value, as {key} is there")


def check_of_protocols(channels: Sequence[Section]) -> None:
    """Check that a channel sets dialects and paths only of protocols that it speaks."""
    for channel in channels:
        protocols = channel.get("protocols")
        for section in (channel.get("wire"), channel.get("paths")):
            if section is None or protocols is None:
                continue
            for protocol in section.locations:
                if section.get(protocol) is not None and protocol not in protocols:
                    section.location(protocol).blame(
                        found=f"{protocol}, which is not among this channel's protocols",
                        allowed=f"the protocols {', '.join(protocols)}",
                    )


def check_hosted_paths(channels: Sequence[Section]) -> None:
    """Check that a path contains the model if the host's default path does."""
    for channel in channels:
        wires, paths = channel.get("wire"), channel.get("paths")
        if wires is None or paths is None:
            continue
        for protocol, wire in wires.values.items():
            if wire in (None, PLAIN) or not FAMILIES[protocol].is_chat:
                continue
            if MODEL not in CHAT_DIALECTS[protocol].hostings[wire].address.path:
                continue
            path = paths.get(protocol)
            if path is not None and MODEL not in path:
                paths.location(protocol).blame(
                    found=quoted(path), allowed=f"a path with {MODEL} in it, with wire {wire}"
                )


def check_keys(channels: Sequence[Section]) -> None:
    """Check that a channel of tasks has one key: polls need the key that made the task."""
    for channel in channels:
        keys, protocols = channel.get("api_key"), channel.get("protocols")
        tasks = [one for one in protocols or () if FAMILIES[one].has_tasks]
        if tasks and len(keys or ()) > 1:
            channel.location("api_key").blame(
                found=f"{len(keys)} keys, and the protocol {tasks[0]}",
                allowed="one key where tasks are made",
                hint="a channel for each key shares the load, too",
            )


def check_fields(channels: Sequence[Section]) -> None:
    """Check that a channel's headers and query do not set the fields of its key."""
    for channel in channels:
        protocols, api_key = channel.get("protocols"), channel.get("api_key")
        if protocols is None or "auth" not in channel.values:
            continue
        if not api_key and channel.values["auth"] not in PROVED:
            continue
        taken = key_fields(channel.values["auth"], protocols)
        for name, names in zip(("headers", "query"), taken, strict=True):
            for field, _ in channel.get(name, Fields()).pairs:
                if field.lower() in names:
                    channel.location(name).blame(
                        found=f"{field}, which takes the key",
                        allowed="another name, or auth: none and no api_key",
                    )


def check_videos(models: Sequence[Section]) -> None:
    """Check that `video` is only set for general video models."""
    for model in models:
        video = model.get("video")
        if video is None or not video.locations or "endpoint_type" not in model.values:
            continue
        model_id, endpoint_type = model.get("id", ""), model.values["endpoint_type"]
        if endpoint_type not in MODEL_TYPES[VIDEOS.protocol]:
            named = "a chat model" if endpoint_type is None else f"a model of {endpoint_type}"
        elif VIDEOS.channel_protocol(model_id) != VIDEOS.protocol:
            named = f"{quoted(model_id)}, which is of another kind by its id"
        else:
            continue
        types = " or ".join(one.name for one in VIDEOS.endpoint_types)
        model.location("video").blame(
            found=f"video on {named}", allowed=f"video on a general model of {types}"
        )


def check_agents(agents: Section | None, models: Sequence[Section]) -> None:
    """Check that the default model of agents is a callable chat model."""
    name = agents.get("default_model") if agents is not None else None
    if agents is None or not name:
        return
    fit: list[str] = []
    for model in models:
        if model.get("callable") is not False and model.get("endpoint_type") is None:
            aliases = [alias.value for alias in model.get("aliases", ())]
            fit += [one for one in (model.get("id"), *aliases) if one is not None]
    if name not in fit:
        agents.location("default_model").blame(
            found=quoted(name),
            allowed="a chat model that can be called",
            hint=suggestion(name, fit),
        )


# Cautions: settings that are served, and that `gw check-config` warns about.
#
# Each function takes sections as read, without faults, and cautions the locations (contract §7:
# Short names).


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
        family = _family_of(model.values["endpoint_type"])
        bound = [by_id[one.values["id"]] for one in model.values["channels"]]
        if family is None or not bound or not model.values["callable"]:
            continue
        model_id = model.values["id"]
        protocol = family.channel_protocol(model_id)
        speaking = [channel for channel in bound if protocol in channel["protocols"]]
        wires = {channel["wire"].get(protocol) for channel in speaking}
        if not speaking:
            model.location("channels").caution(
                f"none of these channels speaks {protocol}: every call is answered 503"
            )
        elif wires == {"shanjian"} and model_id.startswith(("dh-lipsync", "dh-motion")):
            model.location("channels").caution(
                "the wire shanjian makes dh-avatar alone: every call is answered 503"
            )


def _family_of(endpoint_type: str | None) -> Family | None:
    """Return the family of a dedicated endpoint; None for chat models and placeholders."""
    served = (row for row in FAMILIES.values() if not row.is_chat and not row.is_withdrawn)
    return next((row for row in served if endpoint_type in MODEL_TYPES[row.protocol]), None)


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
        one.values["id"] for one in channels if MESSAGES.protocol in one.values["protocols"]
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
    if not is_refused and not set(price.service_tiers or ()).intersection(DEARER_TIERS):
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
    elif tier in DEARER_TIERS and tier not in (price.service_tiers or ()):
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
        end = next((one for one in _OWN_ENDS if base_url.endswith(one)), None)
        if end is not None:
            channel.location("base_url").caution(
                f"ends in {end}, the path of an endpoint: each protocol's own path is appended, so "
                "leave it out of the address, or say it in paths"
            )


def caution_quoted_keys(channels: Sequence[Section]) -> None:
    """Caution a key with quotes around it: some files of variables are read with them."""
    for channel in channels:
        if any(len(key) > 1 and key[0] == key[-1] and key[0] in "\"'`" for key in _keys(channel)):
            channel.location("api_key").caution(
                "has quotes around it, and is sent with them: a file of variables may have them "
                "where its reader takes them for a part of the value"
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
