"""Where the key is looked for, and what decides (spec: Authentication 2 and 3; contract §7)."""

from __future__ import annotations

from tornado.httputil import HTTPHeaders

from gw.api.checks import AuthMode, find_key, has_query_key
from tests.support.rows import each

QUERY = {"key": [b"from-query"]}

# mode, headers, query, key
CASES: list[tuple[AuthMode, dict[str, str], dict[str, list[bytes]], str | None]] = [
    ("standard", {}, {}, None),
    ("standard", {"x-api-key": "a"}, {}, "a"),
    ("standard", {"x-alt-api-key": "a"}, {}, "a"),
    ("standard", {"x-goog-api-key": "a"}, {}, "a"),
    ("standard", {}, QUERY, "from-query"),
    ("standard", {"Authorization": "Bearer a"}, {}, "a"),
    # The order: x-api-key, x-alt-api-key and its alias, the query, Bearer.
    ("standard", {"x-api-key": "a", "x-alt-api-key": "b"}, QUERY, "a"),
    ("standard", {"x-alt-api-key": "b", "x-goog-api-key": "c"}, QUERY, "b"),
    ("standard", {"x-goog-api-key": "c", "Authorization": "Bearer d"}, QUERY, "c"),
    ("standard", {"Authorization": "Bearer d"}, QUERY, "from-query"),
    # An empty value is no hit.
    ("standard", {"x-api-key": "", "x-alt-api-key": " ", "Authorization": "Bearer d"}, {}, "d"),
    ("standard", {"Authorization": "Bearer d"}, {"key": [b""]}, "d"),
    ("standard", {"Authorization": "Bearer d"}, {"key": [b"", b"second"]}, "second"),
    ("standard", {"Authorization": "Bearer"}, {}, None),
    ("standard", {"Authorization": "Bearer   "}, {}, None),
    # The first hit decides, however bad.
    ("standard", {"x-api-key": "junk", "Authorization": "Bearer good"}, {}, "junk"),
    # The scheme is a word in any case; another scheme is no hit.
    ("standard", {"Authorization": "bearer a"}, {}, "a"),
    ("standard", {"Authorization": "BEARER   a  "}, {}, "a"),
    ("standard", {"Authorization": "Basic dXNlcjpw"}, {}, None),
    ("standard", {"Authorization": "sk-platform-bare"}, {}, None),
    ("standard", {"Authorization": "Bearerx a"}, {}, None),
    ("standard", {"X-API-KEY": "a"}, {}, "a"),
    ("standard", {}, {"key": [b"\xff\xfe"]}, "\ufffd\ufffd"),
    # Model discovery: two headers, no query.
    ("models", {}, QUERY, None),
    ("models", {"x-api-key": "a", "Authorization": "Bearer d"}, QUERY, "a"),
    ("models", {"Authorization": "Bearer d"}, QUERY, "d"),
    ("models", {"x-alt-api-key": "b", "x-goog-api-key": "c"}, QUERY, None),
    ("models", {"x-goog-api-key": "c", "Authorization": "Bearer d"}, {}, "d"),
]


@each("mode, headers, query, expected", CASES)
def test_the_first_hit_decides(
    mode: AuthMode, headers: dict[str, str], query: dict[str, list[bytes]], expected: str | None
) -> None:
    assert find_key(HTTPHeaders(headers), query, mode) == expected


def test_a_header_sent_twice_is_no_key() -> None:
    headers = HTTPHeaders()
    headers.add("x-api-key", "a")
    headers.add("x-api-key", "b")
    assert find_key(headers, {}, "standard") == "a,b"


def test_an_empty_query_key_is_none() -> None:
    assert has_query_key(QUERY)
    assert not has_query_key({"key": [b"", b" "]})
    assert not has_query_key({})
