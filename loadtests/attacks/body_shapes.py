"""Bodies of any size whose shape costs more than their bytes: many of something small, or deep.

For the attack with large bodies, and for the properties that count steps. `fill` makes what is put
into a body: about so many bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

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
ANSWERS = {
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


def _references(target: bytes, *, are_long: bool) -> Fill:
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


_DATA_URL = b'{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:'
_FUNCTION = b',"tools":[{"type":"function","function":{"name":"f","parameters":{'
_SCHEMA = b',"tools":[{"name":"f","input_schema":{'
# Of each shape: the path, what fills a body, and whether that is in place of its only message.
SHAPES: Mapping[str, tuple[str, Fill, bool]] = {
    "tiny tools": (CHAT, _of(b',"tools":[', b'{"type":"a"}', b"]"), False),
    "tiny functions": (
        CHAT,
        _of(b',"tools":[', b'{"type":"function","function":{"name":"f%d"}}', b"]"),
        False,
    ),
    "lists": (CHAT, _of(b',"metadata":[', b"[]", b"]"), False),
    "digits": (CHAT, _of(b',"metadata":[', b"1", b"]"), False),
    "one number": (CHAT, _text(b',"metadata":', b"1", b""), False),
    "deep": (CHAT, _text(b',"metadata":', b"[", b""), False),
    "escapes": (CHAT, _text(b',"metadata":"', b"\\n", b'"'), False),
    "escapes in a name": (CHAT, _text(b',"', b"\\n", b'":1'), False),
    "a text": (CHAT, _text(b',"user":"', "Grüße, ".encode(), b'"'), False),
    "an image": (CHAT, _text(b',"user":"', b"abcdABCD", b'"'), False),
    "members of metadata": (CHAT, _of(b',"metadata":{', b'"k%d":1', b"}"), False),
    "tool members": (CHAT, _of(b',"tools":[{"type":"x",', b'"k%d":1', b"}]"), False),
    "schema keywords": (CHAT, _of(_FUNCTION, b'"k%d":1', b"}}}]"), False),
    "schema properties": (CHAT, _of(_FUNCTION + b'"properties":{', b'"k%d":{}', b"}}}}]"), False),
    "schema required": (
        CHAT,
        _of(_FUNCTION + b'"allOf":[', b'{"required":["k%d"]}', b"]}}}]"),
        False,
    ),
    "references": (
        CHAT,
        _of(
            _FUNCTION + b'"$defs":{"a":{"type":"object"}},"anyOf":[',
            b'{"$ref":"#/$defs/a"}',
            b"]}}}]",
        ),
        False,
    ),
    "references that double": (CHAT, _doubling, False),
    "a long reference": (CHAT, _references(b'{"$ref":"#%b"}', are_long=True), False),
    "a long description": (
        CHAT,
        _references(b'{"type":"string","description":"%b"}', are_long=True),
        False,
    ),
    "a long pattern, often": (
        CHAT,
        _references(b'{"type":"string","pattern":"%b"}', are_long=False),
        False,
    ),
    "references of a response": (
        CHAT,
        _of(
            b',"response_format":{"type":"json_schema","json_schema":{"name":"n","schema":{'
            b'"type":"object","$defs":{"a":{"type":"object"}},"properties":{',
            b'"p%d":{"$ref":"#/$defs/a"}',
            b"}}}}",
        ),
        False,
    ),
    "parameters of a data URL": (
        CHAT,
        _text(_DATA_URL + b"image/png", b";a", b',AAAA"}}]}'),
        True,
    ),
    "escapes of a data URL": (
        CHAT,
        _text(_DATA_URL + b"text/plain,d", b"%41", b'"}}]}'),
        True,
    ),
    "values in arguments": (CHAT, _arguments, True),
    "members of a message": (CHAT, _of(b'{"role":"user","content":"x",', b'"k%d":1', b"}"), True),
    "many messages": (CHAT, _of(b"", b'{"role":"user","content":"x"}', b""), True),
    "many parts": (
        CHAT,
        _of(b'{"role":"user","content":[', b'{"type":"text","text":"x"}', b"]}"),
        True,
    ),
    "open calls": (CHAT, _calls, True),
    "lists, messages": (MESSAGES, _of(b',"metadata":{"x":[', b"[]", b"]}"), False),
    "tiny tools, messages": (
        MESSAGES,
        _of(b',"tools":[', b'{"name":"f%d","input_schema":{}}', b"]"),
        False,
    ),
    "schema keywords, messages": (MESSAGES, _of(_SCHEMA, b'"k%d":1', b"}}]"), False),
    "stop sequences": (MESSAGES, _of(b',"stop_sequences":[', b'"a"', b"]"), False),
    "many messages, messages": (
        MESSAGES,
        _of(
            b"",
            b'{"role":"user","content":"x"},{"role":"assistant","content":"y"}',
            b',{"role":"user","content":"x"}',
        ),
        True,
    ),
    "many blocks": (
        MESSAGES,
        _of(b'{"role":"user","content":[', b'{"type":"text","text":"x"}', b"]}"),
        True,
    ),
    "members of a block": (
        MESSAGES,
        _of(b'{"role":"user","content":[{"type":"text","text":"x",', b'"k%d":1', b"}]}"),
        True,
    ),
    "many results": (
        MESSAGES,
        _of(b'{"role":"user","content":[', b'{"type":"tool_result","tool_use_id":"c%d"}', b"]}"),
        True,
    ),
    "lists, native": (GEMINI, _of(b',"labels":{"x":[', b"[]", b"]}"), False),
    "tiny functions, native": (
        GEMINI,
        _of(b',"tools":[{"functionDeclarations":[', b'{"name":"f%d"}', b"]}]"),
        False,
    ),
    "tiny tools, native": (GEMINI, _of(b',"tools":[', b'{"k%d":{}}', b"]"), False),
    "many parts, native": (GEMINI, _of(b'{"parts":[', b'{"text":"x"}', b"]}"), True),
    "empty parts": (GEMINI, _of(b'{"parts":[', b"{}", b"]}"), True),
    "thoughts": (
        GEMINI,
        _of(b'{"role":"model","parts":[', b'{"text":"x","thought":true}', b"]}"),
        True,
    ),
    "many turns": (GEMINI, _of(b"", b'{"parts":[{"text":"x"}]}', b""), True),
    "open calls, native": (GEMINI, _gemini_calls, True),
    "lists, responses": (RESPONSES, _of(b',"metadata":[', b"[]", b"]"), False),
    "tiny tools, responses": (
        RESPONSES,
        _of(b',"tools":[', b'{"type":"function","name":"f"}', b"]"),
        False,
    ),
    "many items": (RESPONSES, _of(b"", b'{"role":"user","content":"x"}', b""), True),
    "open calls, responses": (
        RESPONSES,
        _of(b"", b'{"type":"custom_tool_call","namespace":"n","name":"f","input":"x"}', b""),
        True,
    ),
    "thoughts, responses": (
        RESPONSES,
        _of(b"", b'{"type":"reasoning","encrypted_content":"translated:chat:x"}', b""),
        True,
    ),
}
# Of a request for a film: what is in the place of its model, and what fills it.
FILM = b'{"model":"%b","content":[{"type":"text","text":"x"}'
FILMS: Mapping[str, Fill] = {
    "a film's image": _text(
        FILM + b',{"type":"image_url","image_url":{"url":"data:image/png;base64,', b"AAAA", b'"}}]}'
    ),
    "a film's text": _text(FILM + b',{"type":"text","text":"', "Grüße, ".encode(), b'"}]}'),
    "a film's lists": _of(FILM + b'],"style":[', b"[]", b"]}"),
    "a film's members": _of(FILM + b"],", b'"k%d":1', b"}"),
    "a film's items": _of(FILM + b",", b'{"type":"text","text":"x"}', b"]}"),
    "members of a film's item": _of(FILM + b',{"type":"text","text":"x",', b'"k%d":1', b"}]}"),
}
# Whole answers, of the protocol of a channel.
HOSTILE_ANSWERS: Mapping[str, tuple[str, Fill]] = {
    "answer of lists": ("chat", _of(ANSWERS["chat"][:-1] + b',"x":[', b"[]", b"]}")),
    "answer of tiny calls": (
        "chat",
        _of(
            b'{"id":"a","choices":[{"message":{"tool_calls":[',
            b'{"function":{"name":"f"}}',
            b"]}}]}",
        ),
    ),
    "answer of tiny blocks": (
        "messages",
        _of(
            b'{"id":"a","type":"message","content":[',
            b'{"type":"text","text":"x"}',
            b"]}",
        ),
    ),
    "answer of tiny parts": (
        "native",
        _of(
            b'{"responseId":"a","candidates":[{"content":{"parts":[',
            b'{"text":"x"}',
            b"]}}]}",
        ),
    ),
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
            b"HTTP/1.1 200 OK\r\n" + _CHUNKED + in_chunks(ANSWERS["chat"] + b" " * (size // 6))
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
