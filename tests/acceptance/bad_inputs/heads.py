"""Everything before the body: the request line, its method, target and version, and the headers."""

from tests.acceptance.bad_inputs.case import (
    CHAT,
    NOT_FOUND,
    UNKNOWN_MODEL,
    WRONG_METHOD,
    Case,
    Reply,
    chat_json,
    invalid,
    request,
)

BODY = chat_json(model="no-such-model")
MODELS = "/v1/models"
LINE = invalid("request line")
VERSION = invalid("version")

_NOT_HTTP = {
    "a word": (b"GET\r\n\r\n", LINE),
    "the preface of HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0", VERSION),
    "a TLS handshake": (b"\x16\3\1\2\0\1\0\1\xfc\3\3" + b"\0" * 80 + b"\r\n\r\n", LINE),
    "every byte": (bytes(range(256)) + b"\r\n\r\n", invalid("malformed")),
    "nothing but empty lines": (b"\r\n" * 10, LINE),
    "two spaces": (request(method="GET ", target=MODELS), LINE),
    "HTTP/1.10": (request(method="GET", target=MODELS, version="HTTP/1.10"), LINE),
    "a NUL in the target": (request(method="GET", target=f"{MODELS}\0"), LINE),
    "only line feeds": (b"GET /v1/models HTTP/1.1\nHost: gateway\n\n", invalid("without CR")),
}

_BAD_HEADERS = {
    "without a colon": ("Header", "no colon"),
    "a space behind the name": ("Name : x", "header name"),
    "a NUL in the value": ("Name: a\0b", "header value"),
    "folded": ("Name: a\r\n b", "folding"),
    "5000 of them": ("\r\n".join(f"X{n}: a" for n in range(5000)), "256 header lines"),
    "of 100 KB": ("X: " + "a" * 100_000, "larger than 64 KB"),
}

_HOSTS: dict[str, str | None] = {
    "missing": None,
    "twice": "Host: a\r\nHost: b",
    "with a user": "Host: a@b",
}

_METHODS = ("GET", "PUT", "OPTIONS")
# What Tornado itself does not know ends the connection.
_ODD_METHODS = ("CONNECT", "BREW", "post", "M" * 1000)

_TARGETS = (
    f"{CHAT}/", "/v1//chat/completions", "/v1/chat/x/../completions", "/v1/%63hat/completions",
    f"{CHAT}%00", f"{CHAT}%0d%0aX:%20y", CHAT.upper(), f"{CHAT}\xff", "/chat/completions",
    "v1/chat/completions", "*", "//gateway/v1/models", "gateway:443", "https://u:p@gateway/v1/models",
    "/%ff", "/%2e%2e/%2e%2e/etc/passwd", "/metrics", "/readyz",
    "/v1/dashboard/billing/credit_grants", "/" + "a" * 60_000,
)  # fmt: skip

_ODD_LINES = {
    "a content type of text": "Content-Type: text/plain",
    "a content type of parts": "Content-Type: multipart/form-data; boundary=x",
    "no content type": "Content-Type:",
    "an expectation that is nonsense": "Expect: the-unexpected",
    "an upgrade to HTTP/2": "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
    "HTTP2-Settings: AAMAAABk",
    "conditions": "If-Match: *\r\nIf-None-Match: *\r\nIf-Modified-Since: yesterday",
    "a bad traceparent": "traceparent: 00-zz-zz-zz",
    "two sessions": "session_id: a\r\nsession_id: b\r\nconversation_id: c",
    "forwarding": "X-Forwarded-For: ' OR 1=1\r\nX-Forwarded-Proto: gopher\r\nForwarded: for=x",
    "another method": "X-HTTP-Method-Override: DELETE\r\nX-Original-URL: /metrics",
}

CASES = (
    *(
        Case(f"not HTTP: {name}", wire, (response,), stays=False)
        for name, (wire, response) in _NOT_HTTP.items()
    ),
    *(
        Case(f"header: {name}", request(line, body=BODY), (invalid(says),), stays=False)
        for name, (line, says) in _BAD_HEADERS.items()
    ),
    *(
        Case(f"host: {name}", request(body=BODY, host=line), (invalid("ost"),), stays=False)
        for name, line in _HOSTS.items()
    ),
    *(
        Case(f"method {method}", request(body=BODY, method=method), (WRONG_METHOD,))
        for method in _METHODS
    ),
    *(
        Case(
            f"method {method[:8]}", request(body=BODY, method=method), (WRONG_METHOD,), stays=False
        )
        for method in _ODD_METHODS
    ),
    Case("method HEAD", request(method="HEAD"), (Reply(405, None),), is_head=True),
    *(
        Case(
            f"method {method} on the models", request(target=MODELS, method=method), (WRONG_METHOD,)
        )
        for method in ("POST", "DELETE")
    ),
    *(
        Case(f"target: {target[:30]!r}", request(body=BODY, target=target), (NOT_FOUND,))
        for target in _TARGETS
    ),
    Case("target: 20 000 parameters",
        request(body=BODY, target=f"{CHAT}?" + "&".join("a" * 20_000)), (invalid("query"),),
        stays=False),
    # All of these are read and then refused for their model: they did not confuse anybody.
    *(
        Case(f"read all the same: {name}", request(line, body=BODY), (UNKNOWN_MODEL,))
        for name, line in _ODD_LINES.items()
    ),
    *(
        Case(f"read all the same: {name}", request(body=BODY, target=target), (UNKNOWN_MODEL,))
        for name, target in {
            "an absolute target": f"http://gateway{CHAT}",
            "an absolute target of another host": f"HTTPS://elsewhere.example:8443{CHAT}?x",
            "parameters that are nonsense": f"{CHAT}?a=%zz&b=%ff&%00&&=&c",
            "a question mark": f"{CHAT}?",
        }.items()
    ),
    Case("an empty line before", b"\r\n" + request(body=BODY), (UNKNOWN_MODEL,)),
    Case("HTTP/1.0", request(body=BODY, version="HTTP/1.0", host=None), (UNKNOWN_MODEL,),
        stays=False),
    Case("HTTP/1.0 kept open", request("Connection: keep-alive", body=BODY, version="HTTP/1.0"),
        (UNKNOWN_MODEL,)),
    Case("HTTP/1.9", request(body=BODY, version="HTTP/1.9"), (UNKNOWN_MODEL,), stays=False),
)  # fmt: skip
