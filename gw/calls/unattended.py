"""Work that goes on when the client for whom it was begun has left (contract for media §2.7).

It runs in a task of its own. As long as the client is there it is the request that is in flight;
from then on the work is, by itself, so that a process that is stopped waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol

from gw.calls.call import Client, ResponseWriter
from metrics.logs import EventLog


class Attendant(ResponseWriter, Protocol):
    """The client's side of work that may go on without it."""

    def left_alone(self) -> None:
        """The client has left, and the work goes on."""

    def ended_alone(self, error: Exception | None) -> None:
        """Work that was left alone has ended, by this error if it failed."""


class WorkInFlight(Protocol):
    """What a stopping process waits for."""

    def enter(self, request: Work) -> None: ...

    def leave(self, request: Work) -> None: ...


class Nobody:
    """A client that cannot leave."""

    client_gone = False

    def __init__(self, client: Client) -> None:
        self._client = client

    def owns_row(self) -> None:
        self._client.owns_row()


class Work:
    """Work that was left alone; `cut` cancels it."""

    def __init__(self, task: asyncio.Task[None]) -> None:
        self._task = task

    def __repr__(self) -> str:
        return f"<Work {self._task.get_name()}>"

    def cut(self) -> None:
        """End now, because the process ends."""
        self._task.cancel()


class Unattended:
    """Runs work that its client cannot stop. One per process."""

    def __init__(self, in_flight: WorkInFlight) -> None:
        self._in_flight = in_flight
        self._log = EventLog("gw.calls")

    async def run(self, work: Coroutine[Any, Any, None], attendant: Attendant) -> None:
        """Run it to its end, and raise what it raises, as long as the client is there.

        Cancelled by anybody else than a client who leaves, it cancels the work too, and waits for
        its end.
        """
        task = asyncio.create_task(work, name="unattended")
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if not attendant.client_gone:
                task.cancel()
                await asyncio.wait([task])
                if not task.cancelled():
                    task.exception()  # the process ends: nobody is there to be told
            elif task.done():
                self._ended(task, attendant)
            else:
                self._leave_alone(task, attendant)
            raise

    def _leave_alone(self, task: asyncio.Task[None], attendant: Attendant) -> None:
        left = Work(task)
        self._in_flight.enter(left)
        attendant.left_alone()

        def ended(task: asyncio.Task[None]) -> None:
            try:
                self._ended(task, attendant)
            finally:
                self._in_flight.leave(left)

        task.add_done_callback(ended)

    def _ended(self, task: asyncio.Task[None], attendant: Attendant) -> None:
        error = None if task.cancelled() else task.exception()
        attendant.ended_alone(error if isinstance(error, Exception) else None)
