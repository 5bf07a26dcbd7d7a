"""A listening socket that is about to be closed, and the kernel's queue before it."""

import select
import socket
from collections.abc import Iterator
from contextlib import contextmanager

from gw.http.listening_sockets import refuse_handshakes
from loadtests.rig.waiting import PATIENCE_SECONDS


@contextmanager
def listening(port: int = 0) -> Iterator[socket.socket]:
    """A socket that shares its port with those that allow it."""
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.settimeout(PATIENCE_SECONDS)
        sock.bind(("127.0.0.1", port))
        sock.listen()
        yield sock


def test_client_that_is_not_let_in_any_more_finds_the_next_process() -> None:
    with listening() as old, socket.create_connection(old.getsockname()) as queued:
        place = old.getsockname()
        assert refuse_handshakes(old)
        with socket.socket() as late:
            late.setblocking(False)
            late.connect_ex(place)
            assert select.select([], [late], [], 0)[1] == []  # neither refused nor let in
            # Who was let in before stays so.
            accepted, _ = old.accept()
            with accepted:
                queued.sendall(b"still here")
                assert accepted.recv(100) == b"still here"
            with listening(place[1]) as new:
                old.close()
                found, address = new.accept()  # it sends its first packet again
                with found:
                    assert address == late.getsockname()
