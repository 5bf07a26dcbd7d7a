"""What the gateway uses of Tornado's WebSocket inside, and what a hand-shake has to be."""

from __future__ import annotations

import inspect

import pytest
from tornado.websocket import WebSocketProtocol13, _WebSocketParams

from gw.errors import GatewayError
from gw.http.websocket import ACCOUNT_SOCKETS_MAX, SocketBook, check_handshake
from tests.support.rows import cases


def test_tornado_has_what_is_used_of_it() -> None:
    frame = inspect.signature(WebSocketProtocol13._write_frame)
    assert list(frame.parameters) == ["self", "fin", "opcode", "data", "flags"]
    for name in ("_abort", "accept_connection", "close", "is_closing"):
        assert callable(getattr(WebSocketProtocol13, name))
    names = ["ping_interval", "ping_timeout", "max_message_size", "compression_options"]
    assert list(inspect.signature(_WebSocketParams).parameters) == names


GOOD = {
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Connection": "keep-alive, Upgrade",
}


@cases(
    "name, value, status",
    ("Sec-WebSocket-Version", "8", 426),
    ("Sec-WebSocket-Key", "", 400),
    ("Connection", "keep-alive", 400),
)
def test_a_hand_shake_that_is_none_is_refused(name: str, value: str, status: int) -> None:
    check_handshake(GOOD)
    with pytest.raises(GatewayError) as raised:
        check_handshake({**GOOD, name: value})
    assert raised.value.http_status == status


def test_an_account_has_so_many_sockets_and_no_more() -> None:
    book = SocketBook()
    for _ in range(ACCOUNT_SOCKETS_MAX):
        book.enter("a")
    with pytest.raises(GatewayError):
        book.enter("a")
    book.enter("b")
    book.leave("a")
    book.enter("a")
    for _ in range(ACCOUNT_SOCKETS_MAX):
        book.leave("a")
    book.leave("b")
    assert not book.open
