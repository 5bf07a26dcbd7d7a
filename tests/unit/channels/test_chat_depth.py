"""Bodies nested just as deep as one reader can follow and the next, further down, cannot."""

from contextlib import suppress

from channels.dialects.chat.request import read_request, upstream_body
from channels.errors import InvalidRequest
from tests.support.rows import cases
from tests.unit.channels.chat_bodies import MESSAGES

FRAMES = 30  # of the gateway between reading a request and making the upstream's body of it


def from_far_down(body: bytes, frames: int = FRAMES) -> bytes:
    if frames:
        return from_far_down(body, frames - 1)
    request = read_request(body)
    return upstream_body(
        request, upstream_model="up", max_tokens_param="max_tokens", default_max_tokens=5
    )


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
    for depth in range(880, 1000):
        for left, right in ((b"[", b"]"), (b'{"a":', b"}")):
            deep = left * depth + b"1" + right * depth
            body = template % {b"messages": MESSAGES, b"deep": deep}
            with suppress(InvalidRequest):
                from_far_down(body)


def test_what_was_read_high_up_can_be_sent_from_far_down() -> None:
    def sent(request_body: bytes, frames: int) -> bytes:
        request = read_request(request_body)

        def descend(frames: int) -> bytes:
            if frames:
                return descend(frames - 1)
            return upstream_body(
                request, upstream_model="up", max_tokens_param="max_tokens", default_max_tokens=5
            )

        return descend(frames)

    for depth in range(880, 1000):
        deep = b"[" * depth + b"]" * depth
        body = b'{"model":"m",%b,"stream":true,"stream_options":{"x":%b}}' % (MESSAGES, deep)
        with suppress(InvalidRequest):
            assert b'"include_usage":true' in sent(body, FRAMES)
