"""A connection that only executes LISTEN, and reconnects by itself.

It runs no other statement, because the first SQL error on an aiopg connection closes its queue of
notifications permanently. Callers choose the channels; triggers of the schema send the
notifications.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

from psycopg2 import Error

from actors.store.connection import DatabaseConnection
from actors.store.errors import DatabaseRefused, StoreError
from metrics.logs import EventLog

BACKOFF_FIRST_SECONDS = 0.05
BACKOFF_MAX_SECONDS = 1.0


class Listener:
    """Passes on the notifications of one channel until closed."""

    def __init__(
        self,
        channel: str,
        *,
        on_payload: Callable[[str], None],
        on_gap: Callable[[], None],
        connect: Callable[[], Awaitable[DatabaseConnection]],
        forget: Callable[[DatabaseConnection], None],
        on_close: Callable[[Listener], None],
        log: EventLog,
    ) -> None:
        self._channel = channel
        self._on_payload = on_payload
        self._on_gap = on_gap
        self._connect = connect
        self._forget = forget
        self._on_close = on_close
        self._log = log
        self._connection: DatabaseConnection | None = None
        self._task: asyncio.Task[None] | None = None

    def __repr__(self) -> str:
        state = "closed" if self._task is None else "lost" if self._connection is None else "on"
        return f"<Listener {self._channel} {state}>"

    async def start(self) -> None:
        """Connect and start passing on notifications. Raises StoreUnavailable.

        A server that refuses to be listened to, as a standby does, is tried until it is none.
        """
        try:
            self._connection = await self._listening()
        except DatabaseRefused as error:
            self._log.warning("listener_refused", channel=self._channel, error=str(error))
        self._task = asyncio.create_task(self._run(), name=f"listen {self._channel}")

    async def close(self) -> None:
        """Stop; no callback is called afterwards."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        self._drop()
        self._on_close(self)

    async def _run(self) -> None:
        while True:
            if self._connection is not None:
                await self._hand_on(self._connection)
                self._drop()
            self._connection = await self._listening_again()
            # Only now: any write missed by reads from here on is followed by a notification.
            self._call(self._on_gap)

    async def _hand_on(self, connection: DatabaseConnection) -> None:
        """Pass on notifications; return when the connection is lost."""
        while True:
            try:
                notification = await connection.notifies.get()
            except Error as error:
                self._log.warning("listener_lost", channel=self._channel, error=str(error).strip())
                return
            self._call(partial(self._on_payload, notification.payload))

    def _call(self, callback: Callable[[], None]) -> None:
        try:
            callback()
        except Exception:  # noqa: BLE001 - one bad payload must not end the listening
            self._log.error("listener_callback_failed", channel=self._channel, exc_info=True)

    async def _listening(self) -> DatabaseConnection:
        connection = await self._connect()
        try:
            await connection.execute(f"LISTEN {connection.quoted(self._channel)}")
        except BaseException:
            self._forget(connection)
            raise
        return connection

    async def _listening_again(self) -> DatabaseConnection:
        backoff = BACKOFF_FIRST_SECONDS
        while True:
            try:
                return await self._listening()
            except StoreError:
                await asyncio.sleep(backoff)
                backoff = min(2 * backoff, BACKOFF_MAX_SECONDS)

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._forget(connection)
