"""Which channels may serve a call, and in which order. Pure: it reads settings and loads.

Candidates are the model's channels that support the client's protocol, by priority; those of equal
priority are ordered by least load, or for a pinned conversation by a hash that is the same in every
process (reference 10.1). Slots and health are decided by the channel's actor, not by the router.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from channels import families
from channels.registry import ChannelSpec, ModelSpec


class ChannelView(Protocol):
    """The attributes of a channel actor that the router reads."""

    @property
    def spec(self) -> ChannelSpec: ...

    @property
    def in_use(self) -> int: ...

    @property
    def turn(self) -> tuple[float, int]: ...


class Candidate(Struct, frozen=True):
    """One channel that may serve the call, with its model name and protocol.

    `first_event_seconds` bounds its silence before the first event; None: only the call's limit.
    `step`: the model of a chain that it would serve; empty: the call's own.
    """

    channel_id: str
    upstream_model: str
    protocol: str
    first_event_seconds: float | None = None
    step: str = ""


def candidates(
    model: ModelSpec,
    protocol: str,
    channels: Mapping[str, ChannelView],
    *,
    pin: str | None = None,
    translations: Sequence[str] = (),
) -> list[Candidate]:
    """Return the channels to try, in order; empty if none serves this model on this protocol.

    Channels reachable by translation follow, ordered alike, each with the first of `translations`
    that it supports: the protocols that the client's can be translated to, the preferred first.
    Channels whose keys are all set aside come last, before them those whose keys rest. Those of a
    chain's models follow each other in its order.
    """
    if model.chain:
        return [
            replace(one, step=step.id)
            for step in model.chain
            for one in candidates(step, protocol, channels, pin=pin, translations=translations)
        ]
    family = families.FAMILIES[protocol]
    if model.endpoint_type not in families.MODEL_TYPES[protocol]:
        return []
    if family.by_model:
        protocol = family.channel_protocol(model.id)
    found: list[Candidate] = []
    for binding in model.bindings:
        channel = channels.get(binding.channel_id)
        if channel is None:
            continue
        spec, name, used = channel.spec, binding.upstream_model or model.id, protocol
        spoken = spec.spoken(name) if spec.by_model else spec.protocols
        if protocol not in spoken:
            used = next((other for other in translations if other in spoken), "")
            if not used:
                continue
        seconds = None
        if family.streams:
            seconds = binding.first_event_seconds or spec.health.first_event_seconds
        found.append(Candidate(binding.channel_id, name, used, seconds))
    if len(found) > 1:
        found.sort(key=lambda one: _rank(channels[one.channel_id], one.protocol != protocol, pin))
    return found


def serving_protocols(model: ModelSpec, channels: Mapping[str, ChannelView]) -> list[str]:
    """Return the public names of the protocols that reach a model without translation."""
    return [
        families.PUBLIC_NAMES[protocol]
        for protocol in families.PROTOCOLS
        if model.is_served_on(protocol) and candidates(model, protocol, channels)
    ]


def _rank(
    channel: ChannelView, is_translated: bool, pin: str | None
) -> tuple[bool, bool, bool, int, float, tuple[float, int]]:
    spec = channel.spec
    if pin is None:
        distance, turn = channel.in_use / spec.max_concurrency, channel.turn
    else:
        distance, turn = _distance(pin, spec), (0.0, 0)
    ring = spec.ring
    return ring.is_aside, ring.is_resting, is_translated, spec.priority, distance, turn


def _distance(pin: str, channel: ChannelSpec) -> float:
    """Rendezvous hashing: the loss of a channel moves only the conversations pinned to it.

    Each channel gets a share of the conversations in proportion to its slots.
    """
    digest = hashlib.blake2b(f"{pin}\0{channel.id}".encode(), digest_size=8).digest()
    return -math.log((int.from_bytes(digest) + 1) / 2**64) / channel.max_concurrency
