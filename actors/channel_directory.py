"""The channel actors of this process by id, kept in step with the configuration.

A reload adds, changes and removes actors without affecting an attempt under way: a lease keeps
its actor alive until it is released.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from actors import channel
from actors.clock import Clock
from actors.supervisor import Supervisor
from channels.registry import ChannelSpec
from metrics.logs import EventLog
from metrics.prometheus import Metrics


class ChannelDirectory(dict[str, channel.ChannelActor]):
    """Maps a channel id to its actor; only `configure` changes it."""

    def __init__(self, *, supervisor: Supervisor, clock: Clock, metrics: Metrics) -> None:
        super().__init__()
        self._supervisor = supervisor
        self._clock = clock
        self._metrics = metrics
        self._retired: dict[str, channel.ChannelActor] = {}
        self._withdrawn: frozenset[str] = frozenset()
        self._log = EventLog("actors.directory")

    def configure(self, specs: Mapping[str, ChannelSpec]) -> None:
        """Start actors of new channels, configure changed ones, retire removed ones."""
        for channel_id, spec in specs.items():
            actor = self.get(channel_id)
            if actor is None:
                self._start(spec)
            elif actor.spec != spec:
                actor.tell(channel.Configure(spec))
                self._log.info("channel_changed", channel=channel_id)
        for channel_id in [known for known in self if known not in specs]:
            # The actor still takes back its leases, but grants no new one.
            retired = self._retired[channel_id] = self.pop(channel_id)
            retired.tell(channel.Retire())
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
            actor.send(channel.Withdraw() if channel_id in self._withdrawn else channel.Reopen())

    def _start(self, spec: ChannelSpec) -> None:
        self._start_actor(spec)
        if spec.id in self._withdrawn:
            self._withdraw_or_reopen(spec.id)

    def _start_actor(self, spec: ChannelSpec) -> None:
        retired = self._retired.pop(spec.id, None)
        if retired is not None:  # added again, with the leases that are still granted
            retired.tell(channel.Configure(spec))
            self[spec.id] = retired
            return
        actor = channel.ChannelActor(spec, clock=self._clock, metrics=self._metrics)
        self[spec.id] = actor
        self._supervisor.start(f"channel:{spec.id}", actor.run)
