"""What gives an upstream away is hidden, by its shape and exactly; nothing else changes."""

import time

from hypothesis import given, settings
from hypothesis import strategies as st

from channels.redaction import READ_CHARACTERS_MAX, Redactor
from tests.support.rows import cases, each
from tests.support.specs import make_channel

KEY = "sk-upstream-3f9d8a7b6c5e"
PLAIN_KEY = "pässwörd/+=42"


CONFIGURED = {
    "openai-a": ("https://api.upstream.example", KEY),
    "openai-a-2": ("https://other.test:8443", PLAIN_KEY),
    "a": ("http://vllm:8000", "x"),
    "local": ("http://127.0.0.1:8081", "hunter22"),
    "six": ("http://[fe80::1]:80", "k"),
}
REDACTOR = Redactor(
    [make_channel(name, base_url=url, api_key=key) for name, (url, key) in CONFIGURED.items()]
)


@each(
    "message, expected",
    [
        ("Try https://api.upstream.example/v1/x?key=1#f now", "Try [url] now"),
        ("(see http://anything.else/docs)", "(see [url])"),
        (r'"url":"https:\/\/api.upstream.example\/v1"', '"url":"[url]"'),
        ("to=https%3A%2F%2Fapi.upstream.example%2Fv1", "to=[url]"),
        ("wss://a.b/c refused", "[url] refused"),
        ("postgresql://u:p@db/x refused", "[url] refused"),
        ("connect to api.upstream.example:443 failed", "connect to [host] failed"),
        ("API.Upstream.EXAMPLE.", "[host]"),
        ("eu.api.upstream.example and billing.upstream.example", "[host] and [host]"),
        ("无法连接api.upstream.example，请重试", "无法连接[host]，请重试"),
        ("请访问https://api.upstream.example/a，谢谢", "请访问[url]，谢谢"),
        ("other.test:8443 and 127.0.0.1:8081", "[host] and [host]"),
        ("vllm is down, vllm:8000 too", "[host] is down, [host] too"),
        ("vllmish words and a-vllm stay", "vllmish words and a-vllm stay"),
        ("dial tcp 10.20.30.40:443: refused", "dial tcp [host]: refused"),
        ("peer 2001:db8::ff00:42:8329 or fe80::1", "peer [host] or [host]"),
        ("localhost:8000 refused", "[host] refused"),
        (f"key {KEY} is bad", "key [redacted] is bad"),
        (f"x{KEY}y", "x[redacted]y"),
        (f"pass {PLAIN_KEY}", "pass [redacted]"),
        ("pass p%C3%A4ssw%C3%B6rd%2F%2B%3D42", "pass [redacted]"),
        ("hunter22", "[redacted]"),
        ("Incorrect API key provided: sk-proj-****abcd.", "Incorrect API key provided: [redacted]"),
        ("密钥sk-abcdef无效", "密钥[redacted]无效"),
        ("sk-platform-" + "0123456789abcdef" * 4, "[redacted]"),
        ("Authorization: Bearer abc.def-123", "Authorization: Bearer [redacted]"),
        ("bearer AAAAAAAAAAAAAAAAAAAAAAAA", "bearer [redacted]"),
        ("Basic dXNlcjpwYXNzd29yZDE=", "Basic [redacted]"),
        ("AIzaSyD-1234567890abcdef bad", "[redacted] bad"),
        ("GET /v1beta/models?key=abcdef&alt=sse", "GET /v1beta/models?key=[redacted]&alt=sse"),
        ("x-api-key: abcdef123", "x-api-key: [redacted]"),
        ('"api_key": "abc12345"', '"api_key": "[redacted]"'),
        ("AKIAIOSFODNN7EXAMPLE", "[redacted]"),
        ("eyJhbGciOiJI.eyJzdWIiOiIx.c2ln", "[redacted]"),
        ("hf_abcdefghij0123 gsk_0123456789", "[redacted] [redacted]"),
        ("channel openai-a: full", "channel [channel]: full"),
        ("openai-a-2, 'openai-a'", "[channel], '[channel]'"),
    ],
)
def test_what_gives_an_upstream_away_is_hidden(message: str, expected: str) -> None:
    assert REDACTOR.text(message) == expected


@cases(
    "message",
    "This model's maximum context length is 8192 tokens. However, you requested 9000.",
    "max_tokens: 4096 is too large. This model supports at most 2048 completion tokens.",
    "Invalid value for 'messages[2].role': expected one of 'system', 'user'.",
    "Rate limit reached for gpt-5.1-mini on tokens per min (TPM): Limit 30000, Used 29500.",
    "Missing Bearer token in the Authorization header.",
    "Request 550e8400-e29b-41d4-a716-446655440000 failed at 2026-11-21T12:30:45Z (12:30:45).",
    "std::runtime_error in serde::de::Error, version 1.2.3.4.5",
    "a/b a.b /usr/lib/python3 C:\\temp",
    "token limit: 128000; key 'temperature' must be <= 2; secret sauce",
    "模型 gpt-5 不存在",
    "openai-ab and my-openai-a are other names",
    "",
)
def test_ordinary_message_stays_as_it_is(message: str) -> None:
    assert REDACTOR.text(message) == message


def test_message_is_bounded() -> None:
    assert REDACTOR.text("x" * 1000) == "x" * 1000
    assert REDACTOR.text("é" * 1001) == "é" * 999 + "…"


def test_secret_at_the_end_of_what_is_read_is_not_shown_by_half() -> None:
    long_url = "https://a.b/" + "u" * 14_000 + " "
    for length in range(READ_CHARACTERS_MAX - 60, READ_CHARACTERS_MAX):
        filler = "f" * (length - len(long_url) - 1) + " "
        shown = REDACTOR.text(long_url + filler + KEY + " api.upstream.example tail")
        assert "sk-" not in shown
        assert "upstream" not in shown


def test_characters_that_no_sink_takes_are_replaced() -> None:
    assert REDACTOR.text("a\x00\x1b[1mb\ud800c\td\n") == "a [1mb c\td"


def test_redactor_without_channels_still_hides_by_shape() -> None:
    assert Redactor([]).text("Bearer abcdef12345 at https://x.y") == "Bearer [redacted] at [url]"


SECRETS = [KEY, PLAIN_KEY, "hunter22", "upstream.example", "other.test", "127.0.0.1"]


@settings(deadline=None)
@given(
    st.text(max_size=20),
    st.lists(
        st.sampled_from([*SECRETS, "api.upstream.example", "openai-a", "openai-a-2", "vllm"])
        | st.text(max_size=6)
        | st.sampled_from(["https://", "Bearer ", "key=", "sk-", ".", ":", "/", " ", "[", "%2F"]),
        max_size=8,
    ),
)
def test_no_configured_secret_survives_any_surroundings(start: str, parts: list[str]) -> None:
    shown = REDACTOR.text(start + "".join(parts)).lower()
    for secret in SECRETS:
        assert secret.lower() not in shown
    assert len(shown) <= 1000
    shown.encode()


@each(
    "unit",
    [
        *["a.", "1.1.1.", "key=", "sk-", "Bearer ", "http", "::1", "a:", "x", "eyJaaaaaaaaa", "f:"],
        *["upstream.example", "api.upstream", "http://", "-", "sk-a.", "key", "x-api-", "1", ":1"],
        *['key="', "A", "key ", "Bearer a", "https%3a", "AIza", "[", "[::", "eyJaaaaaaaa.", "\t"],
        *["openai-", "openai-a", "key:\t", "Basic+", "sk_", "?key=", "[1", "password'"],
    ],
)
def test_message_made_to_be_slow_is_not(unit: str) -> None:
    # Just under what is read, and without a space that would let it be dropped.
    message = unit * (READ_CHARACTERS_MAX // len(unit))
    for adversary in (message, message[:-1] + "!", "!" + message[:-1]):
        started = time.process_time()
        REDACTOR.text(adversary)
        assert time.process_time() - started < 1.0
