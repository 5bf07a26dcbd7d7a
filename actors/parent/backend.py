"""The limits of a worker, kept by its parent for all workers."""

from __future__ import annotations

from collections.abc import Sequence

from actors.limits.backend import BackendUnavailable, LimitCommand
from actors.limits.status import LimitStatus
from actors.parent.link import REPLY_SECONDS, ParentLink, ParentUnavailable
from actors.parent.protocol import Begin, CommandBatch, message_of

CONNECT_SECONDS = 1.0


class ParentBackend:
    """Uses the link that the worker was started with."""

    name = "parent"
    permits_expire = False  # they end with the link

    def __init__(self, link: ParentLink) -> None:
        self._link = link

    async def connect(self) -> None:
        """Start again over the same link: earlier messages arrive first."""
        try:
            await self._link.ask(Begin(), seconds=CONNECT_SECONDS)
        except ParentUnavailable as error:
            raise BackendUnavailable(str(error)) from error

    async def call(
        self, commands: Sequence[LimitCommand], *, timeout_factor: int = 1
    ) -> Sequence[LimitStatus | None]:
        """Send a batch in one round trip."""
        batch = CommandBatch([message_of(command) for command in commands])
        try:
            return (await self._link.ask(batch, seconds=REPLY_SECONDS * timeout_factor)).statuses
        except ParentUnavailable as error:
            raise BackendUnavailable(str(error)) from error

    async def close(self) -> None:
        """Close the link, which releases what this process holds."""
        await self._link.close()
