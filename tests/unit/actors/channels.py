"""Channel actors at work, for the tests of what leases from them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from actors.channel import ChannelActor
from actors.channel_directory import ChannelDirectory
from actors.supervisor import Supervisor
from channels.registry import ChannelSpec
from metrics.prometheus import Metrics
from tests.support.clock import FakeClock


@dataclass
class Channels:
    """A directory, and the clock its actors look at."""

    clock: FakeClock
    metrics: Metrics
    directory: ChannelDirectory

    def configure(self, *specs: ChannelSpec) -> None:
        self.directory.configure({spec.id: spec for spec in specs})

    def samples(self, name: str, channel_id: str) -> dict[str, float]:
        """The metric's lines that name the channel."""
        text = self.metrics.render("")[0].decode()
        found = {}
        for line in text.splitlines():
            if line.startswith(name) and f'channel="{channel_id}"' in line:
                key, _, value = line.rpartition(" ")
                found[key] = float(value)
        return found


@asynccontextmanager
async def channels(*specs: ChannelSpec) -> AsyncIterator[Channels]:
    """Actors of these channels; stopped afterwards."""
    clock, metrics = FakeClock(), Metrics()
    supervisor = Supervisor(clock=clock, metrics=metrics)
    directory = ChannelDirectory(supervisor=supervisor, clock=clock, metrics=metrics)
    made = Channels(clock, metrics, directory)
    made.configure(*specs)
    yield made
    await supervisor.stop()


async def settle(actor: ChannelActor) -> None:
    """Let the actor work off what it has been told."""
    while len(actor.mailbox):
        await asyncio.sleep(0)
