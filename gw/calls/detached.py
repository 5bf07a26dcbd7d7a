"""Work that continues after its client has disconnected (reference 7.2).

It runs in a task of its own. While the client is connected, its request counts as in flight;
afterwards the work itself does, so that a draining process waits for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

from gw.calls.call import Client, ResponseWriter

T = TypeVar("T")


class DetachedWriter(ResponseWriter, Protocol):
    """The client's side of detachable work."""

    def detached(self) -> None:
        """Called when the client has disconnected and the work continues."""

    def ended_detached(self, error: Exception | None) -> None:
        """Called at the end of detached work, with its error if it failed."""


class WorkInFlight(Protocol):
    """The work in flight, for which a draining process waits."""

    def enter(self, request: DetachedWork) -> None: ...

    def leave(self, request: DetachedWork) -> None: ...


class StayingClient:
    """A client whose disconnect is ignored."""

    client_gone = False

    def __init__(self, client: Client) -> None:
        self._client = client

    def hold_decided(self) -> None:
        self._client.hold_decided()

    def keep_header(self, name: str, value: str) -> None:
        self._client.keep_header(name, value)


class DetachedWork:
    """Detached work; `cut` cancels it."""

    def __init__(self, task: asyncio.Task[Any]) -> None:
        self._task = task

    def cut(self) -> None:
        """Cancel the work, because the process ends."""
        self._task.cancel()


class DetachedTasks:
    """Runs work that survives its client's disconnect. One per process."""

    def __init__(self, in_flight: WorkInFlight) -> None:
        self._in_flight = in_flight

    async def run(self, work: Coroutine[Any, Any, T], writer: DetachedWriter) -> T:
        """Run the work and return its result, or raise its error, while the client is connected.

        A cancellation for any other reason than a disconnect cancels the work too, and waits for
        its end.
        """
        task = asyncio.create_task(work, name="detached")
        try:
            await asyncio.wait([task])  # unlike shield(), it reports no error of a task left alone
            return task.result()
        except asyncio.CancelledError:
            if not writer.client_gone:
                task.cancel()
                await asyncio.wait([task])
                if not task.cancelled():
                    task.exception()  # marked as retrieved: the process ends
            elif task.done():
                _ended(task, writer)
            else:
                self._detach(task, writer)
            raise

    def _detach(self, task: asyncio.Task[Any], writer: DetachedWriter) -> None:
        work = DetachedWork(task)
        self._in_flight.enter(work)
        writer.detached()

        def ended(task: asyncio.Task[Any]) -> None:
            try:
                _ended(task, writer)
            finally:
                self._in_flight.leave(work)

        task.add_done_callback(ended)


def _ended(task: asyncio.Task[Any], writer: DetachedWriter) -> None:
    error = None if task.cancelled() else task.exception()
    writer.ended_detached(error if isinstance(error, Exception) else None)
