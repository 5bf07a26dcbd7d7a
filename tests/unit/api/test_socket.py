"""What of a message becomes the body of a call, and what a socket keeps for the next one."""

from __future__ import annotations

import json

import pytest

from gw.api.socket import STATE_BYTES_MAX, STATES_BYTES_MAX, Conversation, NotFound, body_of
from gw.http.websocket import SocketBook


def test_a_conversation_is_kept_within_its_bounds() -> None:
    book = SocketBook()
    one, other = Conversation(book), Conversation(book)
    one.keep("r1", [b"1", b"22"])
    assert (one.items("r1"), one.items("r2"), book.kept_bytes) == ([b"1", b"22"], None, 3)
    one.keep("r2", [b"x" * (STATE_BYTES_MAX + 1)])
    assert (one.items("r1"), one.items("r2"), book.kept_bytes) == (None, None, 0)
    book.kept_bytes = STATES_BYTES_MAX
    other.keep("r3", [b"1"])
    assert other.items("r3") is None
    book.kept_bytes = 0
    other.keep("r3", [b"1"])
    other.forget()
    assert (other.items("r3"), book.kept_bytes) == (None, 0)


def test_a_body_has_the_items_of_the_response_that_it_continues() -> None:
    conversation = Conversation(SocketBook())
    conversation.keep("r1", [b'{"a":1}', b'{"b": 2}'])
    message = {"type": "response.create", "model": "m", "store": False, "input": "Hi"}
    continued = json.dumps({**message, "previous_response_id": "r1", "stream": False}).encode()
    body, items, is_warm_up = body_of(continued, conversation)
    hello = {"role": "user", "content": "Hi"}
    assert json.loads(body) == {
        "model": "m",
        "store": False,
        "input": [{"a": 1}, {"b": 2}, hello],
        "stream": True,
    }
    assert (len(items), is_warm_up) == (3, False)
    with pytest.raises(NotFound):
        body_of(continued.replace(b'"r1"', b'"r2"'), conversation)
    warm_up = json.dumps({**message, "generate": False, "input": [hello]}).encode()
    assert body_of(warm_up, conversation)[2]
