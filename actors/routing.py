"""Which channels may serve a call, and in which order. Pure: it reads specifications and loads.

Candidates are the model's channels that support the client's protocol, by priority; those of equal
priority are ordered by least load, or for a pinned conversation by a hash that is the same in every
process (contract §4). Slots and health are decided by the channel's actor, not by the router.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from actors.actor import Supervisor
from actors.channel import ChannelActor, Configure, Denied, Lease, Reopen, Retire, Withdraw
from actors.clock import Clock
from channels.errors import CredentialsRefused, UpstreamError
from channels.families import FAMILIES, MODEL_TYPES, PROTOCOLS, PUBLIC_NAMES
from channels.registry import ChannelSpec, ModelSpec
from metrics.logs import EventLog
from metrics.prometheus import Metrics


class ChannelView(Protocol):
    """The attributes of a channel actor that the router reads."""

    @property
    def spec(self) -> ChannelSpec: ...

    @property
    def in_use(self) -> int: ...

    @property
    def leases_granted(self) -> int: ...


class Candidate(Struct, frozen=True):
    """One channel that may serve the call, with its model name and protocol.

    `first_event_seconds` bounds its silence before the first event; None: only the call's limit.
    """

    channel_id: str
    upstream_model: str
    protocol: str
    first_event_seconds: float | None = None


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
    Channels whose keys are all set aside come last.
    """
    family = FAMILIES[protocol]
    if model.endpoint_type not in MODEL_TYPES[protocol]:
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
        PUBLIC_NAMES[protocol] for protocol in PROTOCOLS if candidates(model, protocol, channels)
    ]


def _rank(
    channel: ChannelView, is_translated: bool, pin: str | None
) -> tuple[bool, bool, int, float, int]:
    spec = channel.spec
    if pin is None:
        # Equal loads take turns: the channel with the fewest leases granted comes first.
        distance, leases_granted = channel.in_use / spec.max_concurrency, channel.leases_granted
    else:
        distance, leases_granted = _distance(pin, spec), 0
    return spec.ring.is_aside, is_translated, spec.priority, distance, leases_granted


def _distance(pin: str, channel: ChannelSpec) -> float:
    """Rendezvous hashing: the loss of a channel moves only the conversations pinned to it.

    Each channel gets a share of the conversations in proportion to its slots.
    """
    digest = hashlib.blake2b(f"{pin}\0{channel.id}".encode(), digest_size=8).digest()
    return -math.log((int.from_bytes(digest) + 1) / 2**64) / channel.max_concurrency


# The channel actors of this process by id, kept in step with the configuration.
#
# A reload adds, changes and removes actors without affecting an attempt under way: a lease keeps
# its actor alive until it is released.


class ChannelDirectory(dict[str, ChannelActor]):
    """Maps a channel id to its actor; only `configure` changes it."""

    def __init__(self, *, supervisor: Supervisor, clock: Clock, metrics: Metrics) -> None:
        super().__init__()
        self._supervisor = supervisor
        self._clock = clock
        self._metrics = metrics
        self._retired: dict[str, ChannelActor] = {}
        self._withdrawn: frozenset[str] = frozenset()
        self._log = EventLog("actors.directory")

    def configure(self, specs: Mapping[str, ChannelSpec]) -> None:
        """Start actors of new channels, configure changed ones, retire removed ones."""
        for channel_id, spec in specs.items():
            actor = self.get(channel_id)
            if actor is None:
                self._start(spec)
            elif actor.spec != spec:
                actor.tell(Configure(spec))
                self._log.info("channel_changed", channel=channel_id)
        for channel_id in [known for known in self if known not in specs]:
            # The actor still takes back its leases, but grants no new one.
            retired = self._retired[channel_id] = self.pop(channel_id)
            retired.tell(Retire())
            self._log.info("channel_removed", channel=channel_id)

    def withdraw(self, channel_ids: Collection[str], *, reopened: Collection[str] = ()) -> None:
        """Grant no leases on exactly these channels, whether configured or not.

        `reopened` are others that an operator has reset, whether they were withdrawn or not.
        """
        before, self._withdrawn = self._withdrawn, frozenset(channel_ids)
        for channel_id in (before ^ self._withdrawn) | (frozenset(reopened) & self.keys()):
            self._withdraw_or_reopen(channel_id)
            is_withdrawn = channel_id in self._withdrawn
            event = "channel_withdrawn" if is_withdrawn else "channel_reopened"
            self._log.warning(event, channel=channel_id)

    def _withdraw_or_reopen(self, channel_id: str) -> None:
        actor = self.get(channel_id)
        if actor is not None:
            actor.send(Withdraw() if channel_id in self._withdrawn else Reopen())

    def _start(self, spec: ChannelSpec) -> None:
        self._start_actor(spec)
        if spec.id in self._withdrawn:
            self._withdraw_or_reopen(spec.id)

    def _start_actor(self, spec: ChannelSpec) -> None:
        retired = self._retired.pop(spec.id, None)
        if retired is not None:  # added again, with the leases that are still granted
            retired.tell(Configure(spec))
            self[spec.id] = retired
            return
        actor = ChannelActor(spec, clock=self._clock, metrics=self._metrics)
        self[spec.id] = actor
        self._supervisor.start(f"channel:{spec.id}", actor.run)


# Which channels one call leases: its candidates in order, at most three attempts (contract §4).
#
# A full or open channel is passed over, which is no attempt. A channel whose key was refused and
# that has another key is tried once more after all others. The call decides what to do with a
# lease, and whether another channel may be tried after a failure (`gw/calls/attempts.py`).
#
# A call may try a channel whose trial is pending before its turn, if a closed channel precedes it
# and takes the call when the trial fails. The channel must be one that the call could reach within
# its three attempts, in the same protocol. So the call loses nothing: it still tries all it would
# have tried without the trial.

# Spec, Limits: channels tried per request.
TRIES_MAX = 3


class FailedAttempt(Struct, frozen=True, kw_only=True):
    """An attempt that gave no response."""

    seq: int
    channel_id: str
    started_at: float  # Unix seconds
    seconds: float
    error: UpstreamError


class FailoverExhausted(Exception):
    """No channel gave a response. `failed` is empty when none could be tried.

    `cooldown_seconds` is how long every one of them stays open; 0 if any may be available at any
    moment.
    """

    def __init__(
        self,
        failed: Sequence[FailedAttempt],
        passed_over: Mapping[str, str],
        *,
        cooldown_seconds: float = 0.0,
    ) -> None:
        super().__init__(f"{len(failed)} tried, {len(passed_over)} passed over")
        self.failed = failed
        self.passed_over = passed_over
        self.cooldown_seconds = cooldown_seconds


class Failover(Struct, eq=False):
    """Leases the candidates of one call, one after another.

    `failed` are the attempts that gave no response, `passed_over` the channels not tried, with the
    reason. `may_try`: the call may be a trial, so it neither buys a media result nor belongs to a
    conversation named by its client. `is_trial`: the last lease is a trial.
    """

    _candidates: Sequence[Candidate]
    _channels: Mapping[str, ChannelActor]
    may_try: bool = False
    is_trial: bool = False
    failed: list[FailedAttempt] = []
    passed_over: dict[str, str] = {}
    _index: int = 0  # of the next candidate
    _cooldowns: list[float] = []
    _visited: set[str] = set()

    def __repr__(self) -> str:
        return f"<Failover {len(self.failed)} failed, {len(self.passed_over)} passed over>"

    def lease(self) -> tuple[Candidate, Lease]:
        """Lease the next candidate that grants it; the caller releases the lease.

        Raises FailoverExhausted when none is left or three have been tried, and ActorStopped.
        """
        self.is_trial = False
        if self.may_try:
            self.may_try = False
            if len(self._candidates) > 1 and (trial := self._trial()) is not None:
                return trial
        if len(self.failed) < TRIES_MAX:
            for candidate in self._candidates[self._index :]:
                self._index += 1
                channel_id = candidate.channel_id
                if channel_id in self._visited:  # bound twice, under two upstream names
                    continue
                self._visited.add(channel_id)
                channel = self._channels.get(channel_id)
                if channel is None:  # removed by a reload since the candidates were chosen
                    self.passed_over[channel_id] = "removed"
                    continue
                lease = channel.acquire()
                if not isinstance(lease, Denied):
                    return candidate, lease
                self.passed_over[channel_id] = lease.reason
                self._cooldowns.append(channel.cooldown_seconds)
        raise self.exhausted()

    def _trial(self) -> tuple[Candidate, Lease] | None:
        """Lease the candidate that the call tries before its turn; None if no trial is pending."""
        for candidate in self._candidates:
            channel = self._channels.get(candidate.channel_id)
            if channel is not None and channel.health.state != "closed":
                break
        else:
            return None
        before: list[Candidate] = []
        for candidate in self._candidates:
            channel = self._channels.get(candidate.channel_id)
            if channel is None:
                continue
            if before and candidate.protocol == before[0].protocol:
                lease = channel.try_trial()
                if lease is not None:
                    self.is_trial = True
                    self._candidates = left = list(self._candidates)
                    left.remove(candidate)
                    self._visited.add(candidate.channel_id)
                    return candidate, lease
            if channel.may_lease:
                before.append(candidate)
                if len(before) == TRIES_MAX or (
                    len(before) == 1 and channel.health.state != "closed"
                ):
                    break
        return None

    @property
    def has_next(self) -> bool:
        """Whether another channel could be tried after the present attempt."""
        left = {one.channel_id for one in self._candidates[self._index :]} - self._visited
        return len(self.failed) + 1 < TRIES_MAX and any(one in self._channels for one in left)

    def add_failed(
        self, candidate: Candidate, error: UpstreamError, *, started_at: float, seconds: float
    ) -> None:
        """Add a failed attempt on this candidate.

        If its key was refused and it has another, it is tried again after all others.
        """
        self.failed.append(
            FailedAttempt(
                seq=len(self.failed) + 1,
                channel_id=candidate.channel_id,
                started_at=started_at,
                seconds=seconds,
                error=error,
            )
        )
        channel = self._channels.get(candidate.channel_id)
        if channel is None or not isinstance(error, CredentialsRefused):
            return
        if not channel.spec.ring.is_aside:
            self._candidates = [*self._candidates, candidate]
            self._visited.discard(candidate.channel_id)

    def exhausted(self) -> FailoverExhausted:
        """Return the error for when no channel is left to try.

        A refused key as the last failure goes to the client and is no failed attempt.
        """
        failed = tuple(self.failed)
        if failed and isinstance(failed[-1].error, CredentialsRefused):
            self.failed.pop()
        return FailoverExhausted(
            failed, self.passed_over, cooldown_seconds=min(self._cooldowns, default=0.0)
        )
