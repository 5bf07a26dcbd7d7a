"""What is configured of the channels is not passed on, and nothing else changes."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from channels import exact_redaction
from channels.authorizers.specs import AzureSpec
from channels.exact_redaction import WINDOW_BYTES, ExactRedaction, LinesRedaction
from channels.http.transport import Proxy, Transport
from channels.redaction import Redactor, redaction_of, secrets_of
from tests.support.aio import run
from tests.support.rows import cases
from tests.support.specs import make_channel
from tests.support.steps import steps_of

EXACT_KEY = "sk-up/1234+a=="
CHANNELS = [
    make_channel("a", base_url="https://api.up.example:8443/v1", api_key=EXACT_KEY),
    make_channel("b", base_url="http://vllm:8000", api_key="EMPTY"),
    make_channel("c", base_url="http://127.0.0.1:8081", api_key="hunter22"),
    make_channel("d", base_url="http://10.0.0.9", api_key="hunter22-long"),
]
ERRORS = ExactRedaction(secrets_of(CHANNELS, is_response=False))
RESPONSES = ExactRedaction(secrets_of(CHANNELS, is_response=True))


def test_nothing_else_changes() -> None:
    body = 'see https://docs.example/x — "sk-other-99999" at 10.0.0.1, é EMPTY'.encode() + b"\xff"
    assert ERRORS.redacted(body) is body
    assert RESPONSES.redacted(body) is body


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
    for mask in (ERRORS, RESPONSES):
        assert mask.redacted(stated.encode()).decode() == redacted


def test_ordinary_words_of_an_answer_stay() -> None:
    stated = b"run vllm on 127.0.0.1, see http://vllm/ and 127.0.0.1:80810"
    assert RESPONSES.redacted(stated) is stated
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
    assert run(RESPONSES.redact_whole(body, keeps_links=True)) == expected


def test_many_links_and_many_hosts_take_steps_by_their_number() -> None:
    def redacted(count: int) -> None:
        entry = b'{"url":"https://api.up.example/1.png","note":"api.up.example:8443"}'
        body = b"[" + b",".join([entry] * count) + b"]"
        found = run(RESPONSES.redact_whole(body, keeps_links=True))
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
    assert RESPONSES.redacted(body) == expected
    assert run(RESPONSES.redact_whole(body)) == expected


@given(st.text(alphabet='ak-/\\u0f"n.', max_size=40), st.text(max_size=5))
def test_what_json_means_never_has_the_key(start: str, end: str) -> None:
    """However the upstream's encoder spells it."""
    for spelled in (
        json.dumps(start + EXACT_KEY + end),
        json.dumps(start + EXACT_KEY + end).replace("/", "\\/"),
    ):
        value: Any = json.loads(RESPONSES.redacted(spelled.encode()))
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
        await RESPONSES.redact_whole(b"." * WINDOW_BYTES * 10)
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
