"""Bodies that are not one well-formed JSON object, or are one with something up its sleeve; and in
which order a request is looked at (reference 1.2): a bad key is told before anything else.

Every member and every cut of a body is proved in `tests/unit/channels/test_chat_request.py`.
"""

import gzip

from tests.acceptance.bad_inputs.case import (
    INVALID,
    MALFORMED_KEY,
    NO_KEY,
    UNKNOWN_MODEL,
    Case,
    Reply,
    chat_json,
    invalid,
    request,
)

GOOD = chat_json()
BODY = chat_json(model="no-such-model")
MESSAGES = b'"messages":[{"role":"user","content":"Hello"}]'
DEEP = b"[" * 400_000  # no version of Python reads it
NO_MONEY = Reply(402, "quota_exceeded", "Top up")


def with_members(text: bytes, *, model: bytes = b'"sim-model"') -> bytes:
    return b'{"model":%b,%b,%b}' % (model, MESSAGES, text)


# Well-formed and large ones are refused for their model, so that nothing goes upstream.
_BODIES: dict[str, tuple[bytes, Reply]] = {
    "no object: empty": (b"", INVALID),
    "no object: the request in an array": (b"[" + GOOD + b"]", INVALID),
    "no object: null": (b"null", INVALID),
    "no object: zeros": (b"\0" * 100, INVALID),
    "broken: cut before the end": (GOOD[:-1], invalid("not valid JSON")),
    "broken: a second document on its line": (GOOD + b"\n" + GOOD, invalid("not valid JSON")),
    "broken: NaN": (with_members(b'"temperature":NaN'), invalid("not valid JSON")),
    "encoding: a lone surrogate": (with_members(rb'"x":["\ud83d"]'), INVALID),
    "encoding: a stray byte": (with_members(b'"x":"\xff"'), INVALID),
    "encoding: a byte order mark": (b"\xef\xbb\xbf" + GOOD, INVALID),
    "encoding: UTF-16": (GOOD.decode().encode("utf-16"), INVALID),
    "member: a wrong type": (with_members(b'"stream":"true"'), invalid("stream")),
    "member: beyond its bounds": (with_members(b'"max_tokens":-1'), invalid("max_tokens")),
    "twice: model in escapes": (
        with_members(rb'"\u006dodel":"other-model"'),
        invalid("more than once"),
    ),
    "twice: an option": (
        with_members(b'"stream":true,"stream_options":{"x":1,"x":2}'),
        invalid("more than once"),
    ),
    "lookalike: Model beside model": (
        with_members(b'"Model":"other-model"'),
        invalid("did you mean"),
    ),
    "key: as the model": (
        chat_json(model="sk-platform-" + "0a" * 32),
        Reply(400, "model_not_found", "***"),
    ),
    "deep: an array nobody reads": (
        with_members(b'"x":' + DEEP + b"]" * len(DEEP)),
        invalid("deep"),
    ),
    "deep: only opened": (b'{"x":' + DEEP, invalid("deep")),
    "large: 900 unknown members": (
        with_members(b",".join(b'"x%d":%d' % (n, n) for n in range(900)), model=b'"x"'),
        UNKNOWN_MODEL,
    ),
    "large: 10 000 unknown members": (
        with_members(b",".join(b'"x%d":%d' % (n, n) for n in range(10_000))),
        invalid("members"),
    ),
    "large: half a megabyte of name": (
        with_members(b'"%b":1' % (b"n" * 500_000), model=b'"x"'),
        UNKNOWN_MODEL,
    ),
    "large: half a megabyte of model": (
        with_members(b'"x":1', model=b'"%b"' % (b"m" * 500_000)),
        invalid("model"),
    ),
}
_ORDER = (
    Case("order: bad key, broken JSON", request(body=b"{", key="x-api-key: x"), (MALFORMED_KEY,)),
    Case("order: no money, no model", request(body=BODY, key="x-api-key: {POOR}"), (NO_MONEY,)),
    Case(
        "order: broken JSON, allowlist", request(body=b"{", key="x-api-key: {ALLOWED}"), (INVALID,)
    ),
    Case(
        "order: model, allowlist", request(body=BODY, key="x-api-key: {ALLOWED}"), (UNKNOWN_MODEL,)
    ),
    Case("order: embeddings without a key", request(key=None, target="/v1/embeddings"), (NO_KEY,)),
    Case(
        "order: embeddings",
        request(body=b"{", target="/v1/embeddings"),
        (Reply(404, "model_not_found"),),
    ),
)

CASES = (
    *(
        Case(name, request(body=body), (response,), is_recorded=True)
        for name, (body, response) in _BODIES.items()
    ),
    Case(
        "compressed body, said so",
        request("Content-Encoding: gzip", body=gzip.compress(GOOD)),
        (invalid("Content-Encoding"),),
        is_recorded=True,
    ),
    *_ORDER,
)
