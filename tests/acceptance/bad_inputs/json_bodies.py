"""Bodies that are not one well-formed JSON object, or are one with something up its sleeve."""

from __future__ import annotations

import gzip

from tests.acceptance.bad_inputs.case import (
    INVALID,
    UNKNOWN_MODEL,
    Answer,
    Case,
    chat_json,
    invalid,
    request,
)

GOOD = chat_json()
MESSAGES = b'"messages":[{"role":"user","content":"Hello"}]'
DEEP = 100_000


def with_members(text: bytes, *, model: bytes = b'"sim-model"') -> bytes:
    return b'{"model":%b,%b,%b}' % (model, MESSAGES, text)


def saying(text: bytes) -> bytes:
    return b'{"model":"sim-model","messages":[{"role":"user","content":"%b"}]}' % text


def nested(depth: int) -> bytes:
    return b"[" * depth + b"]" * depth


_NOT_AN_OBJECT = {
    "empty": b"",
    "only white space": b" \r\n\t ",
    "an empty array": b"[]",
    "the request in an array": b"[" + GOOD + b"]",
    "a string": b'"hello"',
    "a number": b"12",
    "null": b"null",
    "true": b"true",
    "an empty object": b"{}",
    "a form": b"model=sim-model&messages=hello",
    "XML": b"<model>sim-model</model>",
    "zeros": b"\0" * 100,
}

_BROKEN = {
    "cut in a name": GOOD[:5],
    "cut behind a colon": GOOD[:9],
    "cut in a string": GOOD[:-12],
    "cut before the end": GOOD[:-1],
    "an object more": GOOD + GOOD,
    "a second document on its line": GOOD + b"\n" + GOOD,
    "bytes behind the end": GOOD + b" x",
    "a brace too many": GOOD + b"}",
    "a comma too many": GOOD[:-1] + b",}",
    "a comma missing": GOOD.replace(b",", b" ", 1),
    "a colon missing": GOOD.replace(b":", b" ", 1),
    "single quotes": GOOD.replace(b'"', b"'"),
    "names without quotes": GOOD.replace(b'"model"', b"model"),
    "a comment before": b"/* hi */" + GOOD,
    "a comment within": GOOD.replace(b",", b", // hi\n", 1),
    "a comment behind": GOOD + b"# hi",
    "NaN": with_members(b'"temperature":NaN'),
    "Infinity": with_members(b'"temperature":Infinity'),
    "minus Infinity deep within": with_members(b'"x":[{"y":-Infinity}]'),
    "undefined": with_members(b'"x":undefined'),
    "Python's True": with_members(b'"stream":True'),
    "a leading zero": with_members(b'"max_tokens":01'),
    "a plus sign": with_members(b'"max_tokens":+1'),
    "hexadecimal": with_members(b'"max_tokens":0x10'),
    "a point without a digit before": with_members(b'"temperature":.5'),
    "a point without a digit behind": with_members(b'"temperature":1.'),
    "an unknown escape": saying(rb"\x41"),
    "an escape of two digits": saying(rb"\u12"),
    "a raw control character": saying(b"a\x01b"),
    "a raw line feed": saying(b"a\nb"),
    "a raw NUL": saying(b"a\0b"),
    "a form feed before": b"\x0c" + GOOD,
    "a no-break space before": b"\xc2\xa0" + GOOD,
}

_ENCODED = {
    "a lone high surrogate": saying(rb"\ud800"),
    "a lone low surrogate": saying(rb"\udc00 and more"),
    "surrogates the wrong way round": saying(rb"\udc00\ud800"),
    "a lone surrogate in the model": with_members(b'"x":1', model=rb'"\ud800"'),
    "a lone surrogate in a name": with_members(rb'"\udfff":1'),
    "a lone surrogate in what nobody reads": with_members(rb'"x":["\ud83d"]'),
    "a raw surrogate": saying(b"\xed\xa0\x80"),
    "an overlong slash": saying(b"\xc0\xaf"),
    "beyond Unicode": saying(b"\xf4\x90\x80\x80"),
    "half a character": saying(b"\xe2\x82"),
    "a stray byte": saying(b"\xff"),
    "a stray byte in a name": with_members(b'"\xff":1'),
    "Latin-1": saying("fünf".encode("latin1")),
    "a byte order mark": b"\xef\xbb\xbf" + GOOD,
    "UTF-16": GOOD.decode().encode("utf-16"),
    "UTF-16 without a mark": GOOD.decode().encode("utf-16-le"),
    "UTF-32": GOOD.decode().encode("utf-32"),
    "UTF-7": saying("\ud7ff".encode("utf-7")) + b"+2AA-",
}

_TWICE = {
    "model": with_members(b'"model":"sim-model"'),
    "messages": with_members(MESSAGES),
    "stream": with_members(b'"stream":false,"stream":true'),
    "max_tokens": with_members(b'"max_tokens":1,"max_tokens":100'),
    "what nobody reads": with_members(b'"x":1,"x":1'),
    "model in escapes": with_members(rb'"\u006dodel":"other-model"'),
    "stream in escapes": with_members(rb'"stream":false,"st\u0072eam":true'),
    "usage": with_members(
        b'"stream":true,"stream_options":{"include_usage":true,"include_usage":false}'
    ),
    "usage in escapes": with_members(
        rb'"stream":true,"stream_options":{"include_usage":false,"include_usag\u0065":true}'
    ),
    "another option": with_members(b'"stream":true,"stream_options":{"x":1,"x":2}'),
}

_LOOKALIKES = {
    "Model": b'{"Model":"sim-model",%b}' % MESSAGES,
    "Model beside model": with_members(b'"Model":"other-model"'),
    "STREAM": with_members(b'"STREAM":true'),
    "long s": with_members('"ſtream":true'.encode()),
}

_DEEP = {
    "an array nobody reads": with_members(b'"x":' + nested(DEEP)),
    "messages": b'{"model":"sim-model","messages":%b}' % nested(DEEP),
    "content": b'{"model":"sim-model","messages":[{"role":"user","content":%b}]}' % nested(DEEP),
    "only opened": b'{"x":' * DEEP,
    "objects": b'{"model":"sim-model","messages":' + b'{"a":' * DEEP + b"1" + b"}" * DEEP + b"}",
}

# Depths at which a reader that is a few frames further down gives up where another did not.
_BOUNDARY = {
    f"{name}, {depth} deep": body % nested(depth)
    for depth in (*range(940, 1000, 4), 1_000)
    for name, body in {
        "model": b'{"model":%%b,%b}' % MESSAGES,
        "type of a tool": b'{"model":"sim-model","tools":[{"type":%%b}],%b}' % MESSAGES,
    }.items()
}

# Well-formed and large; the model decides, so that nothing goes upstream.
_LARGE = {
    "an integer of 5000 digits": (with_members(b'"x":' + b"9" * 5000, model=b'"x"'), UNKNOWN_MODEL),
    "a number beyond any float": (with_members(b'"x":-1e400', model=b'"x"'), UNKNOWN_MODEL),
    "a hundred deep": (with_members(b'"x":' + nested(100), model=b'"x"'), UNKNOWN_MODEL),
    "900 unknown members": (
        with_members(b",".join(b'"x%d":%d' % (n, n) for n in range(900)), model=b'"x"'),
        UNKNOWN_MODEL,
    ),
    "10 000 unknown members": (
        with_members(b",".join(b'"x%d":%d' % (n, n) for n in range(10_000))),
        invalid("members"),
    ),
    "half a megabyte of model": (
        with_members(b'"x":1', model=b'"%b"' % (b"m" * 500_000)),
        invalid("model"),
    ),
    "half a megabyte of name": (
        with_members(b'"%b":1' % (b"n" * 500_000), model=b'"x"'),
        UNKNOWN_MODEL,
    ),
    "half a megabyte of zeros": (
        with_members(b'"x":0.' + b"0" * 500_000, model=b'"x"'),
        UNKNOWN_MODEL,
    ),
}


def _cases(group: str, bodies: dict[str, bytes], *answer: Answer) -> list[Case]:
    answers = answer or (INVALID,)
    return [Case(f"{group}: {name}", request(body=body), answers) for name, body in bodies.items()]


CASES = (
    *_cases("no object", _NOT_AN_OBJECT),
    *_cases("broken JSON", _BROKEN, invalid("not valid JSON")),
    *_cases("encoding", _ENCODED),
    *_cases("twice", _TWICE, invalid("more than once")),
    *_cases("lookalike", _LOOKALIKES, invalid("did you mean")),
    *_cases("too deep", _DEEP, invalid("deep")),
    *_cases("nearly too deep", _BOUNDARY),
    *(
        Case(f"large: {name}", request(body=body), (answer,))
        for name, (body, answer) in _LARGE.items()
    ),
    Case(
        "compressed body, said so",
        request("Content-Encoding: gzip", body=gzip.compress(GOOD)),
        (invalid("Content-Encoding"),),
    ),
    Case("compressed body, kept quiet", request(body=gzip.compress(GOOD)), (INVALID,)),
    Case(
        "compression nobody knows",
        request("Content-Encoding: x", body=GOOD),
        (invalid("Content-Encoding"),),
    ),
)
