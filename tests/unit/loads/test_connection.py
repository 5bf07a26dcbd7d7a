"""The client of tests and loads, where its server cannot be reached."""

import socket

import pytest

from loadtests.rig.connection import Connection


class Reset(Connection):
    """Its server ends while it connects."""

    def _connect(self, sock: socket.socket) -> None:
        raise ConnectionResetError


def test_request_that_found_no_connection_is_waited_for_by_nobody() -> None:
    with Reset("http://127.0.0.1:1") as connection, pytest.raises(ConnectionResetError):
        connection.send(b"GET / HTTP/1.1\r\n\r\n")
