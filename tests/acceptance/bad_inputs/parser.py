"""What the HTTP parser decides of cases before the rules that the tables name get to see them.

None of these moves the end of a request: the parser refuses in words of its own, waits for the
rest, or reads as the RFCs allow.
"""

from collections.abc import Mapping

from tests.acceptance.bad_inputs.case import CHAT, GOOD, INVALID, UNKNOWN_MODEL, Reply, invalid

_CODING = invalid("only the transfer encoding")
_BOTH = invalid("exclude each other")
_LINE = invalid("request line")

REFUSED: Mapping[str, Reply] = {
    # Its parser looks at the encoding before anyone else does.
    "transfer encoding chunked twice": _CODING,
    "transfer encoding on a folded line": invalid("header value"),
    # The length is there already when the second header comes, whatever that says.
    "smuggling: transfer encoding on a folded line": _BOTH,
    "smuggling: transfer encoding with a NUL": _BOTH,
    "header: without a colon": invalid("header name"),
    # Only targets of the four forms are parsed at all (RFC 9112, 3.2).
    **{
        f"target: {target!r}": _LINE
        for target in (f"{CHAT}\xff", "v1/chat/completions", "gateway:443")
    },
    "HTTP/1.9": INVALID,
}

READ: Mapping[str, Reply] = {
    # Extensions and trailers are read and dropped (RFC 9112, 7.1).
    "chunks: an extension": invalid("not valid JSON"),
    "chunks: a trailer": UNKNOWN_MODEL,
    "not HTTP: two spaces": GOOD,
}

WAITED_FOR = {
    "chunks: a size of 2^64 - 1",  # 64 bits are a size; that it is too large is seen when it comes
    "not HTTP: nothing but empty lines",  # before a request they are skipped
}
