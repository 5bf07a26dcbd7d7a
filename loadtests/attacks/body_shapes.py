"""Bodies of any size whose shape costs more than their bytes: many of something small, or deep.

For the attack with large bodies, and for the properties that count steps. `fill` makes what is put
into a body: about so many bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import yaml

Fill = Callable[[int], bytes]

CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
GEMINI, RESPONSES = "/v1beta/models/{}:generateContent", "/v1/responses"
HEADS = {
    CHAT: b'{"model":"%b","messages":[{"role":"user","content":"x"}]',
    MESSAGES: b'{"model":"%b","max_tokens":9,"messages":[{"role":"user","content":"x"}]',
    GEMINI: b'{"contents":[{"parts":[{"text":"x"}]}]',
    RESPONSES: b'{"model":"%b","input":[{"role":"user","content":"x"}]',
}
# The protocols of channels that a client of each protocol may reach.
WAYS = {
    CHAT: ("chat", "messages", "native", "responses"),
    MESSAGES: ("messages", "chat", "responses"),
    GEMINI: ("native", "chat", "messages", "responses"),
    RESPONSES: ("responses", "chat", "messages", "native"),
}
REPLIES = {
    "chat": b'{"id":"a","choices":[{"message":{"content":"yes"},"finish_reason":"stop"}]}',
    "messages": b'{"id":"a","type":"message","content":[{"type":"text","text":"yes"}],'
    b'"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}',
    "native": b'{"responseId":"a","candidates":[{"content":{"parts":[{"text":"yes"}]},'
    b'"finishReason":"STOP"}]}',
    "responses": b'{"id":"a","status":"completed","output":[],'
    b'"usage":{"input_tokens":1,"output_tokens":1}}',
}


def many(item: bytes, size: int) -> bytes:
    """Items with commas between them; each with a number of its own where it has a %d."""
    count = size // (len(item) + 1)
    if b"%d" not in item:
        return b",".join([item] * count)
    digits = len(str(count))
    return b",".join([item % number for number in range(size // (len(item) + digits))])


def _of(head: bytes, item: bytes, tail: bytes) -> Fill:
    return lambda size: head + many(item, size) + tail


def _text(head: bytes, text: bytes, tail: bytes) -> Fill:
    return lambda size: head + text * (size // len(text)) + tail


def _calls(size: int) -> bytes:
    calls = many(b'{"id":"c%d","function":{"name":"f","arguments":"{}"}}', size // 2)
    results = many(b'{"role":"tool","content":"x","tool_call_id":"c%d"}', size // 2)
    return b'{"role":"assistant","tool_calls":[%b]},%b' % (calls, results)


def _gemini_calls(size: int) -> bytes:
    calls = many(b'{"functionCall":{"name":"f"}}', size // 2)
    results = many(b'{"functionResponse":{"name":"f","response":{}}}', size // 2)
    return b'{"role":"model","parts":[%b]},{"parts":[%b]}' % (calls, results)


def _references(target: bytes, *, are_long: bool = True) -> Fill:
    """References to one long thing, or many references; the target has a %b for what is long."""

    def fill(size: int) -> bytes:
        many_bytes = size // 10 if are_long else size // 2
        found = many(b'"p%d":{"$ref":"#/$defs/a"}', many_bytes)
        return b'%b"properties":{%b},"$defs":{"a":%b}}}}]' % (
            _FUNCTION,
            found,
            target % (b"/" * (size - many_bytes)),
        )

    return fill


def _doubling(size: int) -> bytes:
    step = b'"a%d":{"type":"object","properties":{"a":%b,"b":%b}}'
    count = size // 100
    references = [b'{"$ref":"#/$defs/a%d"}' % number for number in range(count + 1)]
    steps = [step % (number, *(2 * [references[number + 1]])) for number in range(count)]
    return b'%b"$ref":"#/$defs/a0","$defs":{%b}}}}]' % (_FUNCTION, b",".join(steps))


def _arguments(size: int) -> bytes:
    call = rb'{"id":"c","function":{"name":"f","arguments":"{\"a\":[%b]}"}}' % many(b"[]", size)
    result = b'{"role":"tool","content":"x","tool_call_id":"c"}'
    return b'{"role":"assistant","tool_calls":[%b]},%b' % (call, result)


_WRITTEN = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8"))
_FUNCTION = _WRITTEN["starts"]["function"].encode()
_PATHS = {"chat": CHAT, "messages": MESSAGES, "native": GEMINI, "responses": RESPONSES}


def _fill(kind: str, start: str | None, *parts: str) -> Fill:
    head, item, tail = (part.encode() for part in parts)
    head = _WRITTEN["starts"][start].encode() + head if start else head
    return (_of if kind == "many" else _text)(head, item, tail)


# Of each shape: the path, what fills a body, and whether that is in place of its only message.
SHAPES: Mapping[str, tuple[str, Fill, bool]] = {
    name: (_PATHS[protocol], _fill(*row), where == "turns")
    for where in ("members", "turns")
    for protocol, rows in _WRITTEN[where].items()
    for name, row in rows.items()
} | {
    "references that double": (CHAT, _doubling, False),
    "a long reference": (CHAT, _references(b'{"$ref":"#%b"}'), False),
    "a long description": (CHAT, _references(b'{"type":"string","description":"%b"}'), False),
    "a long pattern, often": (
        CHAT,
        _references(b'{"type":"string","pattern":"%b"}', are_long=False),
        False,
    ),
    "values in arguments": (CHAT, _arguments, True),
    "open calls": (CHAT, _calls, True),
    "open calls, native": (GEMINI, _gemini_calls, True),
}
# Of a request for a film: what is in the place of its model, and what fills it.
FILMS: Mapping[str, Fill] = {name: _fill(*row) for name, row in _WRITTEN["films"].items()}
# Whole answers, of the protocol of a channel.
HOSTILE_ANSWERS: Mapping[str, tuple[str, Fill]] = {
    name: (protocol, _fill(*row)) for name, (protocol, *row) in _WRITTEN["answers"].items()
}


def in_chunks(body: bytes, chunk_bytes: int = 1) -> bytes:
    """A body in chunks of so many bytes, which are whole in it."""
    pieces = len(body) // chunk_bytes
    if body == body[:chunk_bytes] * pieces:
        return b"%x\r\n%b\r\n" % (chunk_bytes, body[:chunk_bytes]) * pieces + b"0\r\n\r\n"
    chunks = (body[at : at + chunk_bytes] for at in range(0, len(body), chunk_bytes))
    return b"".join(b"%x\r\n%b\r\n" % (len(one), one) for one in chunks) + b"0\r\n\r\n"


_GET = b"GET /v1/models HTTP/1.1\r\nHost: a\r\n%b\r\n"
_CHUNKED = b"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


def _response(status: bytes, body: bytes, lines: bytes = b"") -> bytes:
    return b"HTTP/1.1 %b\r\n%bContent-Length: %d\r\n\r\n%b" % (status, lines, len(body), body)


def _post(lines: bytes, body: bytes) -> bytes:
    return (
        b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %b\r\n"
        b"Connection: close\r\n" + lines + b"\r\n" + body
    )


def _request_in_chunks(chunk: bytes) -> Fill:
    """A body of spaces or line ends, which are no JSON, in chunks of so many bytes."""

    def fill(size: int) -> bytes:
        count = size // (len(chunk) + 5)
        return _post(b"Transfer-Encoding: chunked\r\n", in_chunks(chunk * count, len(chunk)))

    return fill


# Responses of an upstream as they are on the wire: of the protocol of a channel, about so many
# bytes, slow to read for how they are framed or for what their error is.
FRAMED_ANSWERS: Mapping[str, tuple[str, Fill]] = {
    "answer in chunks of a byte": (
        "chat",
        lambda size: (
            b"HTTP/1.1 200 OK\r\n" + _CHUNKED + in_chunks(REPLIES["chat"] + b" " * (size // 6))
        ),
    ),
    "error in chunks of a byte": (
        "chat",
        lambda _: b"HTTP/1.1 400 No\r\n" + _CHUNKED + in_chunks(b" " * (250 * 1024)),
    ),
    "error of lists": (
        "chat",
        lambda _: _response(b"400 No", b'{"error":[' + many(b"[]", 250 * 1024) + b"]}"),
    ),
    "head of tiny lines": (
        "chat",
        lambda _: _response(b"400 No", b"{}", b"a:\r\n" * (30 * 1024 // 4)),
    ),
}
# Requests as they are on the wire, slow to read for how they are framed; %b is the key.
FRAMED_REQUESTS: Mapping[str, Fill] = {
    "request in chunks of a byte": _request_in_chunks(b"x"),
    "request in chunks of a line's end": _request_in_chunks(b"\r\n"),
    "heads of a read each": lambda size: (
        _GET
        % b"".join(b"X-%03d: %b\r\n" % (number, b"y" * 249) for number in range(250))
        * (size // 2**16)
        + _GET % b"Connection: close\r\n"
    ),
}


def film_of(shape: str, model_id: str, size: int) -> bytes:
    """The body of about so many bytes of a request for a film."""
    return FILMS[shape](size).replace(b"%b", model_id.encode(), 1)


def body_of(shape: str, model_id: str, size: int) -> tuple[str, bytes]:
    """The path, and the body of about so many bytes, of a request for a model."""
    path, fill, is_message = SHAPES[shape]
    head = HEADS[path].replace(b"%b", model_id.encode())
    if is_message:
        head = head[: head.index(b"[{") + 1]
        return path.format(model_id), head + fill(size) + b"]}"
    return path.format(model_id), head + fill(size) + b"}"
