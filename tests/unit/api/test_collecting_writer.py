"""A stream as one response."""

import json
from typing import Any, cast

import pytest

from channels.errors import UpstreamMalformed
from gw.api.chat.collecting_writer import CollectingWriter
from gw.api.response_writer import HandlerWriter
from gw.calls.chat import TIMED_OUT
from gw.errors import GatewayError
from tests.support.rows import cases


class Sent:
    """What the client gets."""

    def __init__(self) -> None:
        self.head: tuple[Any, ...] = ()
        self.body: Any = None

    def begin(self, *head: Any) -> None:
        self.head = head

    def send(self, body: bytes) -> None:
        self.body = json.loads(body)


def collected(*chunks: Any, is_done: bool = True, bytes_max: int = 10_000) -> Sent:
    """The response that some chunks come to, in pieces that are cut anywhere."""
    text = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks)
    stream = (": still here\n\n" + text + ("data: [DONE]\n\n" if is_done else "")).encode()
    sent = Sent()
    writer = CollectingWriter(cast(HandlerWriter, sent), bytes_max=bytes_max)
    writer.begin("text/event-stream", {"X-A": "1"})
    middle = len(stream) // 3
    writer.write(stream[:middle])
    writer.write(stream[middle : 2 * middle])
    writer.finish(stream[2 * middle :])
    writer.deliver()
    return sent


def chunk(index: int = 0, finish: str | None = None, **delta: Any) -> dict[str, Any]:
    choice = {"index": index, "delta": delta, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "choices": [choice]}


def test_pieces_become_one_message_for_each_choice() -> None:
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    sent = collected(
        chunk(role="assistant", content=""),
        chunk(content="one "),
        chunk(1, content="other"),
        chunk(content="two", annotations=[{"a": 1}]),
        chunk(annotations=[{"b": 2}], refusal=None),
        chunk(finish="stop"),
        chunk(1, finish="length"),
        {"id": "c", "model": "m", "choices": [], "usage": usage},
    )
    assert sent.head == ("application/json", {"X-A": "1"})
    annotated = {"content": "one two", "annotations": [{"a": 1}, {"b": 2}], "role": "assistant"}
    assert sent.body == {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "usage": usage,
        "choices": [
            {"index": 0, "message": annotated, "finish_reason": "stop"},
            {
                "index": 1,
                "message": {"content": "other", "role": "assistant"},
                "finish_reason": "length",
            },
        ],
    }


@cases(
    "chunks, is_done, status, code",
    ([chunk(content="x")], False, 502, "upstream_error"),
    ([chunk(content="x"), {"error": {"message": "No."}}], True, 502, "upstream_error"),
    ([{"error": {"message": TIMED_OUT}}], True, 504, "upstream_timeout"),
)
def test_a_failed_stream_is_an_error(chunks: Any, is_done: bool, status: int, code: str) -> None:
    with pytest.raises(GatewayError) as caught:
        collected(*chunks, is_done=is_done)
    assert (caught.value.http_status, caught.value.kind.code) == (status, code)


def test_a_stream_that_is_too_large_fails_where_it_is() -> None:
    with pytest.raises(UpstreamMalformed):
        collected(*[chunk(content="x" * 90)] * 100, bytes_max=1000)
