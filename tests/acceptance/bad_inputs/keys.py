"""Who asks: keys that are missing, malformed, unknown, in a wrong place or in several.

Also the order of the checks around them (contract §7): a bad key is told before anything else.
"""

from __future__ import annotations

from tests.acceptance.bad_inputs.case import (
    CHAT,
    MALFORMED_KEY,
    NO_KEY,
    UNKNOWN_KEY,
    UNKNOWN_MODEL,
    Answer,
    Case,
    chat_json,
    request,
)

BODY = chat_json(model="no-such-model")
UNKNOWN = "sk-platform-" + "0" * 64
BEARER = "Authorization: Bearer"
NO_MONEY = Answer(402, "quota_exceeded", "Top up")

_HEADERS: dict[str, tuple[str | None, Answer]] = {
    "missing": (None, NO_KEY),
    "empty": ("Authorization:", NO_KEY),
    "Bearer and nothing": (BEARER, NO_KEY),
    "empty everywhere": (f"{BEARER}\r\nx-api-key:\r\nx-goog-api-key: ", NO_KEY),
    "Basic": ("Authorization: Basic dXNlcjpwYXNz", NO_KEY),
    "Basic with a key": ("Authorization: Basic {KEY}", NO_KEY),
    "Token": ("Authorization: Token {KEY}", NO_KEY),
    "without a scheme": ("Authorization: {KEY}", NO_KEY),
    "without a space": ("Authorization: Bearer{KEY}", NO_KEY),
    "with a colon": ("Authorization: Bearer: {KEY}", NO_KEY),
    "with a tab": ("Authorization: Bearer\t{KEY}", NO_KEY),
    "in a cookie": ("Cookie: key={KEY}", NO_KEY),
    "for a proxy": ("Proxy-Authorization: Bearer {KEY}", NO_KEY),
    "in a header nobody reads": ("api-key: {KEY}", NO_KEY),
    "in quotes": (f'{BEARER} "{{KEY}}"', MALFORMED_KEY),
    "with a comma": (f"{BEARER} {{KEY}},", MALFORMED_KEY),
    "twice on a line": (f"{BEARER} {{KEY}} {{KEY}}", MALFORMED_KEY),
    "a character too many": (f"{BEARER} {{KEY}}0", MALFORMED_KEY),
    "a character missing": (f"{BEARER} {UNKNOWN[:-1]}", MALFORMED_KEY),
    "upper-case hex": (f"{BEARER} sk-platform-{'A' * 64}", MALFORMED_KEY),
    "an upper-case prefix": (f"{BEARER} {UNKNOWN.upper()}", MALFORMED_KEY),
    "another service's": (f"{BEARER} sk-proj-{'0' * 48}", MALFORMED_KEY),
    "another letter": (f"{BEARER} sk-platform-{'g' * 64}", MALFORMED_KEY),
    "Latin-1": (f"{BEARER} sk-platform-\xe9{'0' * 63}", MALFORMED_KEY),
    "UTF-8": (f"{BEARER} sk-platform-\xef\xbc\x90{'0' * 61}", MALFORMED_KEY),
    "50 KB": (f"{BEARER} {'k' * 50_000}", MALFORMED_KEY),
    "a placeholder": (f"{BEARER} $API_KEY", MALFORMED_KEY),
    "two headers": (f"{BEARER} {{KEY}}\r\n{BEARER} {{KEY}}", MALFORMED_KEY),
    "two headers, the second good": (f"{BEARER} {UNKNOWN}\r\n{BEARER} {{KEY}}", MALFORMED_KEY),
    "two x-api-key": ("x-api-key: {KEY}\r\nx-api-key: {KEY}", MALFORMED_KEY),
    "unknown": (f"{BEARER} {UNKNOWN}", UNKNOWN_KEY),
    "unknown before a good one": (f"x-api-key: {UNKNOWN}\r\n{BEARER} {{KEY}}", UNKNOWN_KEY),
    "malformed before a good one": (f"x-api-key: x\r\n{BEARER} {{KEY}}", MALFORMED_KEY),
    "unknown by its other name": (f"x-goog-api-key: {UNKNOWN}\r\n{BEARER} {{KEY}}", UNKNOWN_KEY),
    "unknown in the second place": (
        f"x-alt-api-key: {UNKNOWN}\r\nx-goog-api-key: {{KEY}}",
        UNKNOWN_KEY,
    ),
    # Good ones, refused for their model alone.
    "good in the first place": (f"x-api-key: {{KEY}}\r\n{BEARER} {UNKNOWN}", UNKNOWN_MODEL),
    "good behind an empty place": (f"x-api-key:\r\n{BEARER} {{KEY}}", UNKNOWN_MODEL),
    "good with two spaces": ("Authorization: Bearer  {KEY}", UNKNOWN_MODEL),
    "good with a small bearer": ("authorization: bearer {KEY}", UNKNOWN_MODEL),
    "good by its other name": ("x-goog-api-key: {KEY}", UNKNOWN_MODEL),
}

_QUERIES: dict[str, tuple[str, str | None, Answer]] = {
    "unknown, before a good one": (f"key={UNKNOWN}", f"{BEARER} {{KEY}}", UNKNOWN_KEY),
    "unknown, before another parameter": (f"key={UNKNOWN}&key={{KEY}}", None, UNKNOWN_KEY),
    "not UTF-8": ("key=%ff%fe", None, MALFORMED_KEY),
    "a surrogate": ("key=%ed%a0%80", None, MALFORMED_KEY),
    "a NUL": ("key=%00", None, MALFORMED_KEY),
    "a NUL behind": ("key={KEY}%00", None, MALFORMED_KEY),
    "an escape that is none": ("key=%zz", None, MALFORMED_KEY),
    "50 KB": ("key=" + "k" * 50_000, None, MALFORMED_KEY),
    "empty": ("key=", None, NO_KEY),
    "only spaces": ("key=+%20+", None, NO_KEY),
    "in capitals": ("KEY={KEY}", None, NO_KEY),
    "behind a semicolon": ("a=b;key={KEY}", None, NO_KEY),
    "in an array": ("key[]={KEY}", None, NO_KEY),
    "behind a fragment": ("a#key={KEY}", None, NO_KEY),
    "good": ("key={KEY}", None, UNKNOWN_MODEL),
    "good in escapes": ("%6bey=%73k-platform-{KEY_DIGITS}", None, UNKNOWN_MODEL),
    "good between spaces": ("key=+{KEY}%20", None, UNKNOWN_MODEL),
    "good behind an empty one": ("key=&key={KEY}", None, UNKNOWN_MODEL),
    "good before a bad header": ("key={KEY}", f"{BEARER} {UNKNOWN}", UNKNOWN_MODEL),
    "empty before a good header": ("key=", f"{BEARER} {{KEY}}", UNKNOWN_MODEL),
}


def _get(target: str, key: str | None) -> bytes:
    return request(method="GET", target=target, key=key, length=False)


CASES = (
    *(
        Case(f"key: {name}", request(body=BODY, key=line), (answer,))
        for name, (line, answer) in _HEADERS.items()
    ),
    *(
        Case(
            f"key in the query: {name}",
            request(body=BODY, key=line, target=f"{CHAT}?{query}"),
            (answer,),
        )
        for name, (query, line, answer) in _QUERIES.items()
    ),
    *(
        Case(f"no key: {target}", _get(target, None), (NO_KEY,))
        for target in (
            "/v1/models",
            "/v1/key/balance",
            "/v1/dashboard/billing/subscription",
            "/dashboard/billing/usage",
        )
    ),
    Case(
        "key in the query of the models",
        _get("/v1/models?key={KEY}", None),
        (Answer(401, "invalid_api_key", "query"),),
    ),
    Case(
        "alternative header on the models", _get("/v1/models", "x-goog-api-key: {KEY}"), (NO_KEY,)
    ),
    Case(
        "embeddings without a key",
        request(body=b"{", key=None, target="/v1/embeddings"),
        (NO_KEY,),
    ),
    Case(
        "embeddings",
        request(body=b"{", target="/v1/embeddings"),
        (Answer(404, "model_not_found"),),
    ),
    # The order of the checks
    Case("bad key and broken JSON", request(body=b"{", key=f"{BEARER} x"), (MALFORMED_KEY,)),
    Case("no money and broken JSON", request(body=b"{", key=f"{BEARER} {{POOR}}"), (NO_MONEY,)),
    Case("no money and no model", request(body=BODY, key=f"{BEARER} {{POOR}}"), (NO_MONEY,)),
    Case(
        "broken JSON before a model that is not allowed",
        request(body=b"{", key="x-api-key: {ALLOWED}"),
        (Answer(400, "invalid_request"),),
    ),
    Case(
        "unknown model before the allowlist",
        request(body=BODY, key="x-api-key: {ALLOWED}"),
        (UNKNOWN_MODEL,),
    ),
    Case(
        "wrong method before the key",
        request(method="PUT", key=None),
        (Answer(405, "method_not_allowed"),),
    ),
    Case(
        "unknown path before the key", request(target="/v1", key=None), (Answer(404, "not_found"),)
    ),
)
