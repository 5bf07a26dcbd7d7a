"""aiopg's connection with six behaviours changed; tests check them."""

from __future__ import annotations

import asyncio
import select
from contextlib import suppress
from typing import Any
from weakref import ref

import aiopg
import psycopg2
from psycopg2 import extensions

from channels.deadlines import FutureTimeouts


class AiopgConnection(aiopg.Connection):
    """aiopg's connection with six behaviours changed; tests check them."""

    def __init__(self, dsn: str | None, timeout: float, **parameters: Any) -> None:
        # One timer for all statements: one each was a tenth of a ledger batch's CPU here.
        self._timeouts = FutureTimeouts(timeout, TimeoutError)
        super().__init__(dsn, timeout, **parameters)
        self._is_connected = False
        self._breakage = breakage_of(self._conn.fileno())

    async def _poll(self, waiter: asyncio.Future[None], timeout: float) -> None:
        """Wait for the server; close the connection when cancelled or timed out.

        aiopg raises CancelledError for the server's "statement timeout", which callers could not
        distinguish from a real cancellation. Here it stays psycopg2's QueryCanceledError.
        """
        self._go_on()
        self._timeouts.begin(waiter)
        try:
            await waiter
        except (asyncio.CancelledError, TimeoutError):
            self._close()
            raise
        finally:
            self._waiter = None
            self._timeouts.end(waiter)

    @staticmethod
    def _ready(weak_self: ref[Any]) -> None:
        """Let libpq read and write; pass on the result.

        aiopg checks by select() on any error whether its descriptor is still valid. But select()
        raises ValueError for the descriptors of a process with a thousand streams: the statement
        would wait forever and a lost connection would spin. And the descriptor may have been
        reused, for a file opened by a thread: it would stay registered for this connection, and its
        next owner could not be watched. Here libpq is asked.
        """
        connection: AiopgConnection | None = weak_self()
        if connection is not None:
            connection._go_on()

    def _go_on(self) -> None:
        """Process all pending input and output.

        A server that dies before it reads a statement leaves its last messages and then an error.
        uvloop reports both in one event and stops watching, so a partly read reply would never
        complete.
        """
        waiter = self._waiter
        while self._advance() and self._breakage.poll(0):
            if waiter is not None and waiter.done():
                # First its rows are fetched: a connection known to be lost returns none.
                self._loop.call_soon(self._ready, self._weakref)
                return

    def _advance(self) -> bool:
        """Advance once; False when the statement or the connection has failed."""
        try:
            state = self._conn.poll()
            while self._conn.notifies:
                self._notifies.put_nowait(self._conn.notifies.pop(0))
        except (psycopg2.Warning, psycopg2.Error) as error:
            self._fail(error)
            return False
        if state == extensions.POLL_ERROR:
            self._close()  # which fails the waiter
            return False
        if not self._is_connected:
            self._is_connected = state == extensions.POLL_OK
            self._follow()
        if state == extensions.POLL_WRITE:
            if not self._writing and self._fileno is not None:
                self._loop.add_writer(self._fileno, self._ready, self._weakref)
                self._writing = True
            return True
        self._end_writing()
        if state == extensions.POLL_OK and self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        return True

    def _follow(self) -> None:
        """Watch the socket that libpq uses now: each address of the host has its own.

        It often has the same number as the previous one, so it is always registered again.
        """
        self._leave_loop()
        number = self._fileno = self._conn.fileno()
        self._loop.add_reader(number, self._ready, self._weakref)
        self._breakage = breakage_of(number)

    def _fail(self, error: Exception) -> None:
        if self._conn.closed or self._conn.fileno() < 0:  # libpq has closed the descriptor
            self._leave_loop()
        else:
            self._end_writing()
        self._notifies_proxy.close(error)
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)

    def _close(self) -> None:
        # Idempotent: aiopg would unregister the number each time, even if it has been reused.
        self._leave_loop()
        super()._close()

    def _end_writing(self) -> None:
        if self._writing and self._fileno is not None:
            self._writing = False
            self._loop.remove_writer(self._fileno)

    def _leave_loop(self) -> None:
        """Unregister a descriptor, which is closed or may be."""
        if self._fileno is not None:
            with suppress(OSError):  # the kernel has dropped it already
                self._end_writing()
            self._loop.remove_reader(self._fileno)
            self._fileno = None


def breakage_of(number: int) -> select.poll:
    """Return a poll for errors and hang-ups of this descriptor, and for nothing else."""
    breakage = select.poll()
    breakage.register(number, 0)
    return breakage
