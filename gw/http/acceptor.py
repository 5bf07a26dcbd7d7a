"""Accepts the connections of listening sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from typing import Any

from channels.open_files import is_out_of_files
from metrics.logs import EventLog

# The pause before the next attempt when a connection could not be accepted.
ACCEPT_SECONDS = 1.0
# Connections accepted in one iteration of the loop.
ACCEPTS_MAX = 64


class Acceptor:
    """Passes each connection of listening sockets to `take`, with its address, until stopped.

    It pauses for ACCEPT_SECONDS when the process is out of files.
    """

    def __init__(
        self,
        sockets: Sequence[socket.socket],
        take: Callable[[socket.socket, Any], None],
        log: EventLog,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._sockets = list(sockets)
        self._take = take
        self._log = log
        for sock in sockets:
            self._listen(sock)

    def stop(self) -> None:
        """Stop accepting, and close the sockets."""
        sockets, self._sockets = self._sockets, []
        for sock in sockets:
            self._loop.remove_reader(sock)
            sock.close()

    def _listen(self, sock: socket.socket) -> None:
        if sock in self._sockets:  # not closed meanwhile
            self._loop.add_reader(sock, self._accept, sock)

    def _accept(self, sock: socket.socket) -> None:
        for _ in range(ACCEPTS_MAX):
            try:
                connection, address = sock.accept()
            except ConnectionAbortedError:  # disconnected meanwhile
                continue
            except BlockingIOError:
                return
            except OSError as error:
                if not is_out_of_files(error):
                    raise
                # Without a pause it would be ready in each iteration of the loop.
                self._log.error("accept_out_of_files", error=str(error))
                self._loop.remove_reader(sock)
                self._loop.call_later(ACCEPT_SECONDS, self._listen, sock)
                return
            connection.setblocking(False)
            self._take(connection, address)
