"""Bodies nested just as deep as one reader can follow and the next, further down, cannot."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial

from channels.dialects.chat.request import ChatRequest, read_request, upstream_body
from channels.errors import InvalidRequest
from tests.support.nesting import depths
from tests.support.rows import cases
from tests.unit.channels.chat_bodies import MESSAGES

FRAMES = 30  # of the gateway between reading a request and making the upstream's body of it


def far_down(work: Callable[[], bytes], frames: int = FRAMES) -> bytes:
    return far_down(work, frames - 1) if frames else work()


def sent(request: ChatRequest) -> bytes:
    names = {"upstream_model": "up", "max_tokens_param": "max_tokens"}
    return upstream_body(request, **names, default_max_tokens=5)


def passed_on(body: bytes) -> bytes:
    return sent(read_request(body))


@cases(
    "template",
    b'{"model":"m",%(messages)b,"stream":true,"stream_options":{"x":%(deep)b}}',
    b'{"model":%(deep)b,%(messages)b}',
    b'{"model":"m","messages":%(deep)b}',
    b'{"model":"m","messages":[{"role":%(deep)b}]}',
    b'{"model":"m","messages":[{"role":"user","content":[{"type":%(deep)b}]}]}',
    b'{"model":"m",%(messages)b,"temperature":%(deep)b}',
    b'{"model":"m",%(messages)b,"tools":[{"type":%(deep)b}]}',
    b'{"model":"m",%(messages)b,"x":%(deep)b}',
)
def test_no_depth_is_more_than_a_refusal(template: bytes) -> None:
    for depth in depths():
        for left, right in ((b"[", b"]"), (b'{"a":', b"}")):
            deep = left * depth + b"1" + right * depth
            body = template % {b"messages": MESSAGES, b"deep": deep}
            with suppress(InvalidRequest):
                far_down(partial(passed_on, body))


def test_what_was_read_high_up_can_be_sent_from_far_down() -> None:
    for depth in depths():
        deep = b"[" * depth + b"]" * depth
        body = b'{"model":"m",%b,"stream":true,"stream_options":{"x":%b}}' % (MESSAGES, deep)
        with suppress(InvalidRequest):
            assert b'"include_usage":true' in far_down(partial(sent, read_request(body)))
