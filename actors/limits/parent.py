"""The limits of a worker, asked of its parent, which keeps those of all workers."""

from __future__ import annotations

from collections.abc import Sequence

from actors.limits.backend import BackendUnavailable
from actors.limits.commands import LimitCommand
from actors.limits.status import LimitStatus
from actors.parent.link import REPLY_SECONDS, ParentLink, ParentUnavailable
from actors.parent.messages import Begin, CommandBatch, message

CONNECT_SECONDS = 1.0


class ParentBackend:
    """Asks over the link that the worker was born with."""

    name = "parent"
    leases_expire = False  # they end with the link

    def __init__(self, link: ParentLink) -> None:
        self._link = link

    def __repr__(self) -> str:
        return f"<ParentBackend {self._link!r}>"

    async def connect(self) -> None:
        """Begin anew, over the same link: what was said before is heard before."""
        try:
            await self._link.ask(Begin(), seconds=CONNECT_SECONDS)
        except ParentUnavailable as error:
            raise BackendUnavailable(str(error)) from error

    async def call(
        self, commands: Sequence[LimitCommand], *, timeout_factor: int = 1
    ) -> Sequence[LimitStatus | None]:
        """Say a batch in one round trip."""
        batch = CommandBatch([message(command) for command in commands])
        try:
            return (await self._link.ask(batch, seconds=REPLY_SECONDS * timeout_factor)).statuses
        except ParentUnavailable as error:
            raise BackendUnavailable(str(error)) from error

    async def close(self) -> None:
        """Close the link: what this process holds is given back with it."""
        await self._link.close()
