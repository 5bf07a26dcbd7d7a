"""Secrets in text: what is masked, what is left as it is, and that it takes no time."""

from __future__ import annotations

import pytest

from metrics.logs import names_a_secret, redact
from tests.support.rows import each

KEY = "sk-platform-" + "0123456789abcdef" * 4


@each(
    "text, shown",
    [
        (f"refused {KEY}.", "refused sk-platform-0123***."),
        (f"refused {KEY.upper()}", "refused SK-PLATFORM-0123***"),
        (f"Authorization: Bearer {KEY}", "Authorization: Bearer sk-platform-0123***"),
        (f"x-api-key: {KEY}", "x-api-key: sk-platform-0123***"),
        (f"GET /v1/models?key={KEY}&a=b", "GET /v1/models?key=sk-platform-0123***&a=b"),
        ("Authorization: Bearer abc.def-1~/+=", "Authorization: Bearer ***"),
        ("authorization: bearer\tabc", "authorization: bearer\t***"),
        ("Authorization: Basic dXNlcjpwYXNz", "Authorization: Basic ***"),
        ("sent Bearer tok, then left", "sent Bearer ***, then left"),
        ("{'x-api-key': 'abc', 'a': 1}", "{'x-api-key': '***', 'a': 1}"),
        ("[('x-goog-api-key', 'abc')]", "[('x-goog-api-key', '***')]"),
        ("(b'x-alt-api-key', b'abc')", "(b'x-alt-api-key', b'***')"),
        (r'"{\"api_key\": \"abc\"}"', r'"{\"api_key\": \"***\"}"'),
        ("OPENAI_API_KEY=abc", "OPENAI_API_KEY=***"),
        ("access_token=abc&b=c", "access_token=***&b=c"),
        ("?alt=sse&key=abc", "?alt=sse&key=***"),
        ("https://host/v1?key=abc#top", "https://host/v1?key=***"),
        ("Incorrect API key provided: sk-proj-abc_DEF1*23.", "Incorrect API key provided: sk-***"),
        ("AIzaSyA-0123456789_xyz is not valid", "AIza*** is not valid"),
        ("postgresql://gw:p%40ss@db:5432/gw", "postgresql://gw:***@db:5432/gw"),
        ("redis://:pass@host/0", "redis://:***@host/0"),
        ("host=db password=abc dbname=gw", "host=db password=*** dbname=gw"),
        ("Cookie: a=b; c=d", "Cookie: ***"),
    ],
)
def test_secret_in_text_is_masked(text: str, shown: str) -> None:
    assert redact(text) == shown
    assert redact(shown) == shown  # twice changes nothing


@pytest.mark.parametrize(
    "text",
    [
        "",
        "key_0123456789abcdef0123 of acct_0123456789abcdef0123 was refused",
        "the client's task-12345678 sk-1 risk-assessment disk-usage-report",
        "sk-platform-0123",
        "missing x-api-key, please send one",
        "password authentication failed for user gw",
        "max_tokens=100 input_tokens: 5",
        "https://upstream.example:8443/v1/chat/completions",
        "0190b0a0c0d0e0f00102030405060708",
        "ready listen=http://127.0.0.1:8080",
    ],
)
def test_ordinary_text_stays(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize(
    "name",
    ["authorization", "Authorization", "x-api-key", "api_key", "cookie", "password", "secret"],
)
def test_field_named_as_a_secret_is_one(name: str) -> None:
    assert names_a_secret(name)


@pytest.mark.parametrize("name", ["key", "key_id", "input_tokens", "prefix", "secret_file", ""])
def test_field_named_otherwise_is_none(name: str) -> None:
    assert not names_a_secret(name)


@pytest.mark.parametrize(
    "piece",
    ["a-", "sk-", "Bearer ", "api_key", "api_key:", "://a:", "?key=", "sk-platform-", "\\", "AIza"],
)
def test_megabyte_of_repetitions_is_masked_in_one_pass(piece: str) -> None:
    text = piece * (1_000_000 // len(piece))
    # A pattern that looks at the rest of the text from each place would not come back.
    masked = redact(text)
    assert redact(masked) == masked
