"""The channel actors of this process by id, brought in line with the configuration.

A reload adds, changes and removes actors without touching an attempt under way: a lease keeps its
actor alive until it is given back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from actors.channel import ChannelActor, Configure, Retire
from actors.clock import Clock
from actors.supervisor import Supervisor
from channels.registry import ChannelSpec
from metrics.logs import EventLog
from metrics.prometheus import Metrics


class ChannelDirectory(Mapping[str, ChannelActor]):
    """Channel id to its actor."""

    def __init__(self, *, supervisor: Supervisor, clock: Clock, metrics: Metrics) -> None:
        self._supervisor = supervisor
        self._clock = clock
        self._metrics = metrics
        self._actors: dict[str, ChannelActor] = {}
        self._retired: dict[str, ChannelActor] = {}
        self._log = EventLog("actors.directory")

    def __getitem__(self, channel_id: str) -> ChannelActor:
        return self._actors[channel_id]

    # `Mapping` has one that raises and catches; a call asks twice.
    def get(self, channel_id: str, default: Any = None) -> Any:
        """The actor of a channel, or `default`."""
        return self._actors.get(channel_id, default)

    def __iter__(self) -> Iterator[str]:
        return iter(self._actors)

    def __len__(self) -> int:
        return len(self._actors)

    def configure(self, specs: Mapping[str, ChannelSpec]) -> None:
        """Start actors of new channels, tell the changed ones, retire those that are gone."""
        for channel_id, spec in specs.items():
            actor = self._actors.get(channel_id)
            if actor is None:
                self._start(spec)
            elif actor.spec != spec:
                actor.tell(Configure(spec))
                self._log.info("channel_changed", channel=channel_id)
        for channel_id in [known for known in self._actors if known not in specs]:
            # Its actor goes on for the leases that are out; it grants no new one.
            retired = self._retired[channel_id] = self._actors.pop(channel_id)
            retired.tell(Retire())
            self._log.info("channel_removed", channel=channel_id)

    def _start(self, spec: ChannelSpec) -> None:
        retired = self._retired.pop(spec.id, None)
        if retired is not None:  # it comes back, with the slots that are still out
            retired.tell(Configure(spec))
            self._actors[spec.id] = retired
            return
        actor = ChannelActor(spec, clock=self._clock, metrics=self._metrics)
        self._actors[spec.id] = actor
        self._supervisor.start(f"channel:{spec.id}", actor.run)
