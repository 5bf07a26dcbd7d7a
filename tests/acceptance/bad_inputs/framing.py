"""Where a body ends: lengths and chunks that are wrong, or meant to be read in two ways."""

from typing import Any

from tests.acceptance.bad_inputs.case import (
    GOOD,
    MAX_BODY_MB,
    NO_KEY,
    NOT_FOUND,
    TOO_LARGE,
    UNKNOWN_MODEL,
    WRONG_METHOD,
    Case,
    Reply,
    chat_json,
    chunked,
    invalid,
    request,
)

# A body that is refused for its model alone: whoever gets that far has read it whole.
BODY = chat_json(model="no-such-model")
CHUNKED = "Transfer-Encoding: chunked"
MB = 1024 * 1024
TOO_MANY = b"x" * (MAX_BODY_MB * MB + 100_000)
NEXT = request(method="GET", target="/api/v1/models/public", key=None, length=False)

_LENGTH = invalid("Content-Length must be one whole number")
_LENGTHS = {
    "negative": "Content-Length: -1",
    "beyond any number": "Content-Length: " + "9" * 5000,
    "with another alphabet's digit": "Content-Length: \xb2",
    "twice the same": f"Content-Length: {len(BODY)}\r\nContent-Length: {len(BODY)}",
}

_CODING = invalid("Only the transfer encoding")
_ENCODINGS: dict[str, tuple[str, Reply]] = {
    "identity": ("Transfer-Encoding: identity", _CODING),
    "gzip before": ("Transfer-Encoding: gzip, chunked", _CODING),
    "chunked twice": (f"{CHUNKED}\r\n{CHUNKED}", _CODING),
    "with a space in its name": ("Transfer-Encoding : chunked", invalid("header name")),
    "on a folded line": ("Transfer-Encoding:\r\n chunked", invalid("folding")),
    "with a NUL": (f"{CHUNKED}\0", invalid("header value")),
    "behind a bare LF": (f"X: a\n{CHUNKED}", invalid("without CR")),
}

_CHUNKS = {
    "a size that is no number": b"zz\r\nabc\r\n0\r\n\r\n",
    "a size of 2^64 - 1": b"f" * 16 + b"\r\nabc",
    "an extension": b"5;a=b\r\nabcde\r\n0\r\n\r\n",
    "more than the size says": b"3\r\nabcdef\r\n0\r\n\r\n",
    "a trailer": chunked(BODY, end=b"0\r\nX: y\r\n\r\n"),
}


def _chunks(body: bytes, *lines: str, **more: Any) -> bytes:
    return request(*lines, CHUNKED, body=body, length=False, **more)


# Each of them hides a second request, which must not be answered.
_SMUGGLING = (
    Case(
        "smuggling: length before chunked",
        request(CHUNKED, body=b"0\r\n\r\n" + NEXT),
        (invalid("exclude each other"),),
        stays=False,
    ),
    Case(
        "smuggling: chunked before length",
        _chunks(b"%x\r\n%b\r\n0\r\n\r\n" % (len(NEXT), NEXT), "Content-Length: 4"),
        (invalid("exclude each other"),),
        stays=False,
    ),
    *(
        Case(
            f"smuggling: transfer encoding {name}",
            request(line, body=b"0\r\n\r\n" + NEXT),
            (response if response is not _CODING else invalid("exclude each other"),),
            stays=False,
        )
        for name, (line, response) in _ENCODINGS.items()
    ),
    Case(
        "smuggling: a request in the body of a GET",
        request(method="GET", target="/v1/models", body=NEXT),
        (GOOD,),
    ),
    Case("smuggling: a request in a body that is refused", request(body=NEXT, key=None), (NO_KEY,)),
    Case(
        "smuggling: a request behind an unknown method with a body",
        request(method="BREW", body=BODY) + NEXT,
        (WRONG_METHOD,),
        stays=False,
    ),
)

_PIPELINED = (
    Case(
        "pipelined: good and bad in turn",
        request(body=b"{") + NEXT + request(body=BODY) + request(target="/v1/nothing") + NEXT,
        (invalid("breaks off"), GOOD, UNKNOWN_MODEL, NOT_FOUND, GOOD),
    ),
    Case(
        "pipelined: nothing behind a request that cannot be trusted",
        NEXT + request("Content-Length: 1", body=BODY) + NEXT,
        (GOOD, _LENGTH),
        stays=False,
    ),
    Case(
        "pipelined: nothing behind a body that is malformed",
        NEXT + _chunks(b"zz\r\n") + NEXT,
        (GOOD, invalid("chunk")),
        stays=False,
    ),
    Case(
        "pipelined: nothing behind a client's own close",
        request("Connection: close", body=BODY) + NEXT,
        (UNKNOWN_MODEL,),
        stays=False,
    ),
)

CASES = (
    Case("length missing", request(body=b"", length=False), (invalid("empty"),)),
    # Without a length there is no body: what follows is another request, and no good one.
    Case(
        "length missing before a body",
        request(body=BODY + b"\r\n\r\n", length=False),
        (invalid("empty"), invalid("request line")),
        stays=False,
    ),
    Case(
        "length too short",
        request("Content-Length: 5", body=BODY + b"\r\n\r\n", length=False),
        (invalid("breaks off"), invalid("request line")),
        stays=False,
    ),
    *(
        Case(f"length {name}", request(line, body=BODY, length=False), (_LENGTH,), stays=False)
        for name, line in _LENGTHS.items()
    ),
    *(
        Case(
            f"transfer encoding {name}",
            request(line, body=chunked(BODY), length=False),
            (response,),
            stays=False,
        )
        for name, (line, response) in _ENCODINGS.items()
    ),
    Case(
        "chunked before HTTP/1.1",
        _chunks(chunked(BODY), version="HTTP/1.0"),
        (invalid("HTTP/1.1"),),
        stays=False,
    ),
    *(
        Case(f"chunks: {name}", _chunks(body), (invalid("chunk"),), stays=False)
        for name, body in _CHUNKS.items()
    ),
    # An answer that is out already is the only one.
    Case("bad chunks without a key", _chunks(b"zz\r\n", key=None), (NO_KEY,), stays=False),
    Case(
        "bad chunks with an unknown method",
        _chunks(b"zz\r\n", method="BREW"),
        (WRONG_METHOD,),
        stays=False,
    ),
    Case("too large by its length", request(body=TOO_MANY), (TOO_LARGE,), stays=False),
    Case(
        "too large by its length, and not there",
        request("Content-Length: 999999999999999999", "Expect: 100-continue", length=False),
        (TOO_LARGE,),
        stays=False,
    ),
    Case("too large in one chunk", _chunks(chunked(TOO_MANY)), (TOO_LARGE,), stays=False),
    Case("too large without a key", request(body=TOO_MANY, key=None), (NO_KEY,), stays=False),
    *_SMUGGLING,
    *_PIPELINED,
)
