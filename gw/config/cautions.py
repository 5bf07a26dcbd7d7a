"""What a configuration may say and is hardly meant: it is served, and said by `gw check-config`.

Each function takes sections as read, free of faults, and cautions the locations (contract §7: Short
names).
"""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address

from channels.credentials import NO_AUTH
from channels.dialects.table import DIALECTS
from channels.exact_redaction import KEY_CHARACTERS_MIN
from channels.families import FAMILIES, Family
from channels.redact import CHANNEL_ID_CHARACTERS_MIN
from gw.config.config import ListenAddress
from gw.config.structures import Section
from gw.config.upstream import PROVED


def caution_wildcard_admin(top: Section) -> None:
    """The admin listener asks for no key."""
    address: ListenAddress = top.values["admin_listen"]
    if _is_wildcard(address.host):
        top.location("admin_listen").caution(
            f"{address} is every interface: whoever reaches the port reads metrics, model and "
            "channel names; 127.0.0.1 or an address of an inner network is safer"
        )


def caution_unused_channels(models: Sequence[Section], channels: Sequence[Section]) -> None:
    """A channel that no model is bound to is never called."""
    used = {bound.values["id"] for model in models for bound in model.values["channels"]}
    for channel in channels:
        if channel.values["id"] not in used:
            channel.location("id").caution("no model uses this channel")


def caution_unserved_models(models: Sequence[Section], channels: Sequence[Section]) -> None:
    """A model that is called and whose channels do not speak what it needs is never served."""
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
    """The family of a dedicated endpoint; None for a chat model, and for what is withdrawn."""
    served = (row for row in FAMILIES.values() if not row.is_chat and not row.is_withdrawn)
    return next((row for row in served if row.serves(endpoint_type)), None)


def caution_short_names(channels: Sequence[Section]) -> None:
    """What is too short to be told from other text is not redacted where an upstream repeats it."""
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
    """A version at the end of `base_url` and at the beginning of what is appended to it."""
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


def caution_unsent_keys(channels: Sequence[Section]) -> None:
    """A key that is configured and, by `auth`, sent nowhere."""
    for channel in channels:
        way = channel.values["auth"]
        if way in (NO_AUTH, *PROVED) and channel.values["api_key"]:
            channel.location("api_key").caution(f"not sent anywhere: auth is {way}")


def _is_wildcard(host: str) -> bool:
    try:
        return ip_address(host).is_unspecified
    except ValueError:
        return False  # a name
