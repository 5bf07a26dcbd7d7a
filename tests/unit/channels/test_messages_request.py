"""What a messages request may be, and what becomes of it on the way to a channel."""

from typing import Any

from channels.dialects.messages.request import read_request, upstream_body
from tests.support.rows import cases
from tests.unit.channels.dialect_bodies import MESSAGES, encoded, read_messages, refused


@cases(
    "thread",
    {"type": "continue", "previous_message_id": "msg_1"},
    {"type": "create"},
    {"type": "of tomorrow"},
    {},
    [],
    "msg_1",
    0,
    False,
)
def test_thread_is_refused_in_the_words_that_libraries_read(thread: Any) -> None:
    fault = refused(lambda: read_messages(thread=thread))
    assert fault.param == "thread"
    assert fault.details == {"error_code": "thread_unsupported_request", "unsupported": []}


def test_thread_is_refused_before_what_else_is_wrong_with_its_request() -> None:
    fault = refused(lambda: read_messages(thread={"type": "continue"}, messages=[]))
    assert fault.param == "thread"
    assert refused(lambda: read_messages(Thread={})).param == "Thread"


def test_thread_that_is_null_is_none() -> None:
    body = encoded({**MESSAGES, "thread": None})
    assert upstream_body(read_request(body), upstream_model="m") == body


def test_model_is_replaced_and_nothing_else() -> None:
    body = b'{ "messages" : [{"role":"user","content":"m"}],"max_tokens":5,"model" : "m"\n}'
    request = read_request(body)
    assert upstream_body(request, upstream_model="m") is body
    assert upstream_body(request, upstream_model='a"b') == body.replace(b': "m"', b': "a\\"b"')


def test_content_counts_as_it_was_sent() -> None:
    sent = b'[ {"role":"user","content":"\\u00e9"} ]'
    body = b'{"model":"m","max_tokens":1,"system":"not counted","messages":%b}' % sent
    assert read_request(body).content_bytes == len(sent)
