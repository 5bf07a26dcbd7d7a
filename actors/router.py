"""Which channels may serve a call, in which order. Pure: it reads specifications and loads.

Candidates are the model's channels that speak the client's protocol, by priority; equal
ones share by least load, or, for a pinned conversation, by a hash that every process computes alike
(contract §4). Whether a candidate has a slot and is healthy is its actor's word, not the router's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from channels.families import FAMILIES
from channels.registry import Binding, ChannelSpec, ModelSpec


class ChannelView(Protocol):
    """What the router sees of a channel actor."""

    @property
    def spec(self) -> ChannelSpec: ...

    @property
    def load(self) -> int: ...

    @property
    def leases_granted(self) -> int: ...


class Candidate(Struct, frozen=True):
    """One channel that may serve the call, and how it is spoken to."""

    channel_id: str
    upstream_model: str
    protocol: str


def candidates(
    model: ModelSpec,
    protocol: str,
    channels: Mapping[str, ChannelView],
    *,
    pin: str | None = None,
    translations: Sequence[str] = (),
) -> list[Candidate]:
    """The channels to try, in order. Empty: no channel serves this model on this protocol.

    After these come those reachable by translation, among themselves in the same order,
    each spoken to in the first of `translations` that it speaks: the protocols that the client's
    can be translated to, the preferred first.
    """
    family = FAMILIES[protocol]
    if not family.serves(model.endpoint_type):
        return []
    if family.by_model:
        protocol = family.channel_protocol(model.id)
    passthrough: list[tuple[Binding, ChannelView, str]] = []
    translated: list[tuple[Binding, ChannelView, str]] = []
    for binding in model.bindings:
        channel = channels.get(binding.channel_id)
        if channel is None:
            continue
        spec = channel.spec
        spoken = spec.protocols
        if spec.by_model:
            spoken = spec.spoken(binding.upstream_model or model.id)
        if protocol in spoken:
            passthrough.append((binding, channel, protocol))
            continue
        for other in translations:
            if other in spoken:
                translated.append((binding, channel, other))
                break
    return [
        Candidate(binding.channel_id, binding.upstream_model or model.id, spoken)
        for binding, _, spoken in _ordered(passthrough, pin) + _ordered(translated, pin)
    ]


def _ordered(
    found: list[tuple[Binding, ChannelView, str]], pin: str | None
) -> list[tuple[Binding, ChannelView, str]]:
    if len(found) < 2:
        return found
    second: Callable[[ChannelView], tuple[float, int]]
    if pin is None:
        second = _load
    else:
        second = lambda channel: (_distance(pin, channel.spec.id), 0)  # noqa: E731
    return sorted(found, key=lambda one: (one[1].spec.priority, *second(one[1])))


def _load(channel: ChannelView) -> tuple[float, int]:
    # Equal loads take turns: the one that has been granted fewest leases comes first.
    return channel.load / channel.spec.max_concurrency, channel.leases_granted


def _distance(pin: str, channel_id: str) -> float:
    """Rendezvous hashing: losing one channel moves only the conversations that were on it."""
    digest = hashlib.blake2b(f"{pin}\0{channel_id}".encode(), digest_size=8).digest()
    return float(int.from_bytes(digest))
