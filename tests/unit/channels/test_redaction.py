"""What gives an upstream away is hidden, by its shape and exactly; nothing else changes."""

import asyncio
import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from channels import exact_redaction
from channels.authorizers.specs import AzureSpec
from channels.exact_redaction import WINDOW_BYTES, ExactRedaction, LinesRedaction
from channels.http.transport import Proxy, Transport
from channels.redaction import READ_CHARACTERS_MAX, Redactor, redaction_of, secrets_of
from tests.support.aio import run
from tests.support.rows import cases, each
from tests.support.specs import make_channel
from tests.support.steps import steps_of

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


# --- What is configured of the channels is not passed on, and nothing else changes ---

EXACT_KEY = "sk-up/1234+a=="
CHANNELS = [
    make_channel("a", base_url="https://api.up.example:8443/v1", api_key=EXACT_KEY),
    make_channel("b", base_url="http://vllm:8000", api_key="EMPTY"),
    make_channel("c", base_url="http://127.0.0.1:8081", api_key="hunter22"),
    make_channel("d", base_url="http://10.0.0.9", api_key="hunter22-long"),
]
ERRORS = ExactRedaction(secrets_of(CHANNELS, is_response=False))
ANSWERS = ExactRedaction(secrets_of(CHANNELS, is_response=True))


def test_nothing_else_changes() -> None:
    body = 'see https://docs.example/x — "sk-other-99999" at 10.0.0.1, é EMPTY'.encode() + b"\xff"
    assert ERRORS.redacted(body) is body
    assert ANSWERS.redacted(body) is body


@cases(
    "stated, redacted",
    (f"no key {EXACT_KEY}!", "no key [redacted]!"),
    (f"x{EXACT_KEY}y", "x[redacted]y"),
    ("sk-up%2F1234%2Ba%3D%3D", "[redacted]"),
    ("sk-up\\/1234+a==", "[redacted]"),
    ("sk-up\\u002f1234\\u002Ba\\u003d\\u003d.", "[redacted]."),
    ("".join(f"\\u{ord(one):04x}" for one in EXACT_KEY), "[redacted]"),
    ("hunter22-long hunter22-short", "[redacted] [redacted]-short"),
    ("https:\\/\\/api.up.example:8443\\/v1", "https:\\/\\/[host]:8443\\/v1"),
    ("eu.api.up.example, api.up.example.", "eu.[host], [host]."),
    ("my-api.up.example, api.up.example-2", "my-api.up.example, api.up.example-2"),
    ("one\\napi.up.example\\n\\u003capi\\u002eup.example>", "one\\n[host]\\n\\u003c[host]>"),
    ("10.0.0.9 and 10.0.0.99", "[host] and 10.0.0.99"),
    ("vllm:8000 127.0.0.1:8081", "[host]:8000 [host]:8081"),
)
def test_configured_texts_are_masked_however_they_are_spelled(stated: str, redacted: str) -> None:
    for mask in (ERRORS, ANSWERS):
        assert mask.redacted(stated.encode()).decode() == redacted


def test_ordinary_words_of_an_answer_stay() -> None:
    stated = b"run vllm on 127.0.0.1, see http://vllm/ and 127.0.0.1:80810"
    assert ANSWERS.redacted(stated) is stated
    assert ERRORS.redacted(stated) == b"run [host] on [host], see http://[host]/ and [host]:80810"


def test_links_to_pictures_stay_and_keys_in_them_do_not() -> None:
    body = (
        b'{"data": [{"url":"https:\\/\\/api.up.example\\/1.png?k=hunter22"},'
        b' {"url" : "https://api.up.example/2.png", "note": "api.up.example"}]}'
    )
    expected = (
        b'{"data": [{"url":"https:\\/\\/api.up.example\\/1.png?k=[redacted]"},'
        b' {"url" : "https://api.up.example/2.png", "note": "[host]"}]}'
    )
    assert run(ANSWERS.redact_whole(body, keeps_links=True)) == expected


def test_many_links_and_many_hosts_take_steps_by_their_number() -> None:
    def redacted(count: int) -> None:
        entry = b'{"url":"https://api.up.example/1.png","note":"api.up.example:8443"}'
        body = b"[" + b",".join([entry] * count) + b"]"
        found = run(ANSWERS.redact_whole(body, keeps_links=True))
        assert found.count(b"https://api.up.example") == found.count(b"[host]") == count

    redacted(10)
    assert steps_of(lambda: redacted(400)) <= 2.2 * steps_of(lambda: redacted(200))


def test_mask_of_nothing_masks_nothing() -> None:
    assert ExactRedaction([]).redacted(b"anything \\u0041") == b"anything \\u0041"


def test_many_keys_that_begin_alike_are_each_found() -> None:
    keys = [f"sk-proj-{number}" for number in range(100, 120)]
    channels = [make_channel(key, api_key=key, base_url="http://up.example") for key in keys]
    mask = ExactRedaction(secrets_of(channels, is_response=True))
    for key in keys:
        assert mask.redacted(f"<{key}>".encode()) == b"<[redacted]>"
    other = b"sk-proj-220 sk-proj-"
    assert mask.redacted(other) == other


@given(
    before=st.integers(-30, 30).map(lambda offset: WINDOW_BYTES + offset),
    spells=st.lists(st.booleans(), min_size=len(EXACT_KEY), max_size=len(EXACT_KEY)),
    twice=st.booleans(),
)
@settings(deadline=None)
def test_what_lies_across_two_windows_is_found(
    before: int, spells: list[bool], twice: bool
) -> None:
    key = "".join(
        f"\\u{ord(one):04x}" if is_spelled else one
        for one, is_spelled in zip(EXACT_KEY, spells, strict=True)
    )
    body = f"{'.' * before}{key}{key if twice else ''}.{'.' * before}api.up.example".encode()
    expected = f"{'.' * before}[redacted]{'[redacted]' * twice}.{'.' * before}[host]".encode()
    assert ANSWERS.redacted(body) == expected
    assert run(ANSWERS.redact_whole(body)) == expected


@given(st.text(alphabet='ak-/\\u0f"n.', max_size=40), st.text(max_size=5))
def test_what_json_means_never_has_the_key(start: str, end: str) -> None:
    """However the upstream's encoder spells it."""
    for spelled in (
        json.dumps(start + EXACT_KEY + end),
        json.dumps(start + EXACT_KEY + end).replace("/", "\\/"),
    ):
        value: Any = json.loads(ANSWERS.redacted(spelled.encode()))
        assert EXACT_KEY not in value


def test_long_body_lets_others_have_their_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact_redaction, "TURN_SECONDS", -1.0)
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def main() -> None:
        task = asyncio.ensure_future(others())
        await ANSWERS.redact_whole(b"." * WINDOW_BYTES * 10)
        task.cancel()

    run(main())
    assert turns >= 10


def test_placeholder_is_no_secret_of_a_stream() -> None:
    block = b"EMPTY b"
    assert redaction_of(CHANNELS[1]).redacted(block) is block


PEM = (
    "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0B\nAQEFAASCBKcwggSj\nend==\n-----END-----"
)


def test_every_secret_of_a_channel_is_on_one_list() -> None:
    channel = make_channel(
        "one",
        api_key=EXACT_KEY,
        field_secrets=frozenset({"secret-1", "secret-1-and-more"}),
        authorizer=AzureSpec("t", "c", "secret-of-app"),
        transport=Transport(Proxy("proxy", 1, "me:password-of-proxy")),
    )
    shown = " ".join(
        (EXACT_KEY, "secret-1-and-more", "secret-1", "secret-of-app", "password-of-proxy", PEM)
    )
    channel.obtained.add("key file", PEM)
    found = [
        redaction_of(channel).redacted(shown.encode()).decode(),
        Redactor([channel]).responses.redacted(shown.encode()).decode(),
        Redactor([channel]).secrets(shown),
        Redactor([channel]).text(shown),
        json.loads(redaction_of(channel).redacted(json.dumps(shown).encode())),
        json.loads(Redactor([channel]).errors.redacted(json.dumps(json.dumps(shown)).encode())),
    ]
    for one in found:
        assert one.count("[redacted]") >= 7
        assert [part for part in ("secret", "password", "MII", "AQE") if part in one] == []


def test_what_is_obtained_later_is_redacted_from_then_on_with_the_one_before() -> None:
    channel = make_channel("one", authorizer=AzureSpec("t", "c", "secret-of-app"))
    redactor = Redactor([make_channel("two"), channel])
    shown = b"token-one token-two token-three"
    assert redaction_of(channel).redacted(shown) is shown
    expected = [
        b"[redacted] token-two token-three",
        b"[redacted] [redacted] token-three",
        b"token-one [redacted] [redacted]",
    ]
    for token, redacted in zip(shown.decode().split(), expected, strict=True):
        channel.obtained.add("token", token)
        channel.obtained.add("token", token)  # the same once more moves nothing
        channel.obtained.add("assertion", "another-kind")
        assert redaction_of(channel).redacted(shown) == redacted
        assert redactor.responses.redacted(shown) == redacted
        assert redactor.text(shown.decode()) == redacted.decode()


@cases("end", "", "\n", " and more\n")
def test_secret_is_found_wherever_pieces_cut_it(end: str) -> None:
    body = f": first\n: a {EXACT_KEY} at api.up.example{end}".encode()
    for cut in range(len(body)):
        for again in range(cut, len(body), 7):
            lines = LinesRedaction(ERRORS)
            pieces = [lines.take(one) for one in (body[:cut], body[cut:again], body[again:])]
            shown = b"".join((*pieces, lines.end()))
            assert shown == f": first\n: a [redacted] at [host]{end}".encode()


def test_line_that_does_not_end_is_held_back_by_the_length_of_a_secret() -> None:
    lines = LinesRedaction(ERRORS)
    assert lines.take(b": now\n") == b": now\n"
    taken = sum(len(lines.take(b"." * 1000)) for _ in range(50))
    assert 50_000 - taken == ERRORS.length_max
