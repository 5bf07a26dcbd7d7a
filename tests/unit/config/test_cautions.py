"""What is served all the same, and told: who configures it hardly means it"""

import pytest

from tests.support.rows import cases
from tests.unit.config.reading import channel, model, read

GOOD = """
channels:
  - id: one
    base_url: https://a.example
    api_key: key-of-one
    protocols: [chat]
models:
  - id: m
    channels: [one]
    price: {input: 1, output: 2}
"""


def report_of(text: str) -> list[tuple[int | None, str, str]]:
    """Line, path and message of each caution."""
    return [(one.line, one.path, one.message) for one in read(text).cautions]


@cases("address", "0.0.0.0:9090", '"[::]:9090"', "0.0.0.0:0")
def test_inner_listener_on_every_interface(address: str) -> None:
    for name in ("admin_listen", "console_listen"):
        ((line, path, message),) = report_of(f"{name}: {address}{GOOD}")
        assert (line, path) == (1, name)
        assert "every interface" in message


@cases(
    "end",
    "/v1/chat/completions",
    "/chat/completions",
    "/v1/messages",
    "/api/v3/responses",
    "/v1/images/generations",
    "/v1/audio/speech",
    "/v1/videos/generations",
    "/v1/rerank/",
    "/V1/Chat/Completions",
    "/v1/messages/count_tokens",
    "/v1beta/models",
    "/v1beta/models/gemini-2.5-pro:streamGenerateContent",
    "/v1beta/models/gemini-2.5-pro:countTokens",
)
def test_address_that_ends_in_an_endpoint(end: str) -> None:
    text = GOOD.replace("https://a.example", f"https://a.example{end}")
    assert [path for _, path, _ in report_of(text)] == ["channels[0].base_url"]
    whole = text.replace("    api_key", "    paths: {chat: /v1/chat/completions}\n    api_key")
    assert report_of(whole) == []


@cases("end", "", "/api", "/openai", "/chat", "/messages-api", "/v1/gateways/completions-of-ours")
def test_address_with_another_prefix_is_fine(end: str) -> None:
    assert report_of(GOOD.replace("https://a.example", f"https://a.example{end}")) == []


@cases(
    "key, is_warned",
    ('"key-of-one"', True),
    ("'key-of-one'", True),
    ('key-of-one"', True),
    ("$KEY-of-one", True),
    ("${KEY-of-one}", True),
    ('key-"of"-one', False),
    ("key-$of-one", False),
)
def test_key_with_quotes_of_an_env_file_is_warned_and_not_shown(key: str, is_warned: bool) -> None:
    text = GOOD.replace("key-of-one", "${THE_KEY}")
    found = read(text, THE_KEY=key).cautions
    assert [one.path for one in found] == ["channels[0].api_key"] * is_warned
    assert not any("key-of" in one.message.lower() for one in found)


@cases("address", "127.0.0.1:9090", '"[::1]:9090"', "localhost:9090")
def test_inner_listener_on_one_interface_is_fine(address: str) -> None:
    assert report_of(f"admin_listen: {address}{GOOD}") == []
    assert report_of(f"console_listen: {address.replace('9090', '9080')}{GOOD}") == []


def test_public_listener_on_every_interface_is_meant() -> None:
    assert report_of(f"listen: 0.0.0.0:8080{GOOD}") == []


def test_channel_that_no_model_uses() -> None:
    ((line, path, message),) = report_of(GOOD.replace("[one]", "[]"))
    assert (line, path, message) == (3, "channels[0].id", "no model uses this channel")


@cases("name, is_warned", ("a", True), ("ab", True), ("abc", False))
def test_channel_id_that_is_too_short_to_be_masked(name: str, is_warned: bool) -> None:
    found = report_of(GOOD.replace("one\n", f"{name}\n", 1).replace("[one]", f"[{name}]"))
    assert [path for _, path, _ in found] == ["channels[0].id"] * is_warned


@cases("key, is_warned", ("abcde", True), ("abcdef", False), ('""', False))
def test_key_that_is_too_short_to_be_masked_is_warned_and_not_shown(
    key: str, is_warned: bool
) -> None:
    found = report_of(GOOD.replace("key-of-one", key))
    assert [path for _, path, _ in found] == ["channels[0].api_key"] * is_warned
    assert not any("abcde" in message for _, _, message in found)


def test_cautions_come_with_their_lines_and_change_nothing_else() -> None:
    config = read(model())
    assert [(one.line, one.path) for one in config.cautions] == [
        (2, "channels[0].id"),
        (4, "channels[0].api_key"),
    ]
    assert str(config.cautions[0]).startswith("/etc/gateway/gw.yaml:2:5 channels[0].id: too short")
    assert set(config.registry.models) == {"m"}


def test_file_with_a_fault_tells_the_fault() -> None:
    with pytest.raises(Exception, match="drain_seconds"):
        read("drain_seconds: soon\n" + channel())
