"""Checks across values: duplicate ids, models bound to missing channels, and the like.

Each function takes sections as read, some of whose keys may have been refused, and reports the
locations of conflicts (running.md: Configuration; reference 5.1, 4.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from importlib.util import find_spec

from channels import families
from channels.dialects.address import MODEL
from channels.dialects.table import CHAT_DIALECTS
from channels.prices import DIMENSIONS, PriceSpec
from channels.registry import PLAIN
from gw.config.addresses import ListenAddress
from gw.config.faults import Location
from gw.config.mappings import LocatedValue, Section
from gw.config.nodes import quoted
from gw.config.suggestions import suggestion
from gw.config.upstream import PROVED, Fields, key_fields

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
        LocatedValue(model.values["id"], model.location("id"))
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
        if "chain" in model.locations:  # whose models have prices
            continue
        _check_area(price)
        if "endpoint_type" in model.values:
            _check_price(price, model.values["endpoint_type"])
            check_price_units(price, model.values["endpoint_type"])
            for bound in model.get("channels", ()):
                _check_entry_price(bound, model.values["endpoint_type"])


def _check_price(price: Section, endpoint_type: str | None) -> None:
    if endpoint_type is None:
        for key in families.CHAT_PRICES:
            # Not `is None` alone: an absent key was refused, and is already reported.
            if price.get(key, Decimal(0)) is None:
                price.location(key).blame(
                    found="no price", allowed="a price: a chat model needs input and output"
                )
        return
    units = families.ENDPOINT_TYPES[endpoint_type].prices
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
    units = [name for name in families.UNIT_PRICES if getattr(price, name) is not None]
    if endpoint_type is not None or units:
        bound.location("price").blame(
            found="a price by the unit" if units else f"a price of {endpoint_type}",
            allowed="a price of tokens on a channel of a chat model",
        )


def check_price_units(price: Section, endpoint_type: str | None) -> None:
    """Report prices of units that this endpoint is not billed by; token prices are allowed."""
    billed: Sequence[str] = (*families.TOKEN_PRICES, *DIMENSIONS)
    hint = ""
    if endpoint_type is not None:
        kind = families.ENDPOINT_TYPES[endpoint_type]
        billed = (*kind.prices, *kind.more_prices)
        if "input" in billed:
            billed = (*billed, *DIMENSIONS)
    for key in price.locations:
        if price.get(key) is None or key in billed or key in families.TOKEN_PRICES:
            continue
        if endpoint_type is None:
            fitting = [kind.name for kind in families.ENDPOINT_TYPES.values() if key in kind.prices]
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
            if wire in (None, PLAIN) or not families.FAMILIES[protocol].is_chat:
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
        tasks = [one for one in protocols or () if families.FAMILIES[one].has_tasks]
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
        if endpoint_type not in families.MODEL_TYPES[families.VIDEOS.protocol]:
            named = "a chat model" if endpoint_type is None else f"a model of {endpoint_type}"
        elif families.VIDEOS.channel_protocol(model_id) != families.VIDEOS.protocol:
            named = f"{quoted(model_id)}, which is of another kind by its id"
        else:
            continue
        types = " or ".join(one.name for one in families.VIDEOS.endpoint_types)
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
