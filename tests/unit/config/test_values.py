"""What is taken beside the obvious, and what it becomes."""

from __future__ import annotations

from decimal import Decimal

import pytest

from gw.config.config import ListenAddress
from tests.unit.config.reading import channel, model, read


@pytest.mark.parametrize(
    ("written", "host", "port", "text"),
    [
        ("127.0.0.1:8080", "127.0.0.1", 8080, "127.0.0.1:8080"),
        ("0.0.0.0:0", "0.0.0.0", 0, "0.0.0.0:0"),
        ("localhost:65535", "localhost", 65535, "localhost:65535"),
        ("gateway-1.internal:80", "gateway-1.internal", 80, "gateway-1.internal:80"),
        ("'[::1]:8080'", "::1", 8080, "[::1]:8080"),
        ("'[0:0:0:0:0:0:0:1]:1'", "::1", 1, "[::1]:1"),
        ("'[::]:0'", "::", 0, "[::]:0"),
    ],
)
def test_address_is_read(written: str, host: str, port: int, text: str) -> None:
    address = read(f"listen: {written}").listen
    assert address == ListenAddress(host, port)
    assert str(address) == text


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("http://127.0.0.1:9000", "http://127.0.0.1:9000"),
        ("https://a.example/", "https://a.example"),
        ("HTTPS://A.example", "https://A.example"),
        ("'http://[::1]:9000'", "http://[::1]:9000"),
        ("http://upstream_1", "http://upstream_1"),
        ("https://a.example/api/v2/", "https://a.example/api/v2"),
        ("https://a.example:8443/v1/accounts/x%20y", "https://a.example:8443/v1/accounts/x%20y"),
    ],
)
def test_base_url_is_read(written: str, expected: str) -> None:
    text = channel().replace("https://a.example", written)
    assert read(text).registry.channels["a"].base_url == expected


@pytest.mark.parametrize(
    "url", ["postgresql://u:p@h:5432,h2/d?x=1", "postgres://h/d", "postgresql:///d?host=/run"]
)
def test_database_url_is_taken_as_it_is(url: str) -> None:
    assert read(f"database_url: {url}").database_url == url


@pytest.mark.parametrize(
    "url",
    [
        "redis://h:6379/0",
        "rediss://:p@h?ssl_ca_certs=/etc/ca.pem",
        "unix:///run/redis.sock?db=2&password=x",
        "redis://[::1]:6379?socket_timeout=0.2",
        "redis://user:p%23%20w@h/15",
    ],
)
def test_redis_url_is_taken_as_it_is(url: str) -> None:
    assert read(f"redis_url: {url}").redis_url == url


def test_nothing_means_empty_where_empty_is_a_value() -> None:
    config = read(
        "secret:\ndatabase_url:\nredis_url:\ntimeouts:\nchannels:\nmodels:\ntranslations:\n"
    )
    assert config.secret == config.database_url == config.redis_url == ""
    assert config.timeouts.chat == 180.0
    assert config.translations == frozenset()
    assert read(channel().replace("key\n", "''\n")).registry.channels["a"].api_key == ""


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("1.25", "1.25"),
        ("1.10", "1.10"),
        ("0.1", "0.1"),
        ("10", "10"),
        ('"0.000000000001"', "0.000000000001"),
        ("0.300000000001", "0.300000000001"),
        ("123456.123456789012", "123456.123456789012"),
        ("'0'", "0"),
    ],
)
def test_price_is_kept_exactly_as_written(written: str, expected: str) -> None:
    config = read(
        model(f"multiplier: {written}" if expected == "0.1" else "", price=_both(written))
    )
    price = config.registry.models["m"].price
    assert price.input == price.output == Decimal(expected)
    assert price.input is not None
    assert f"{price.input:f}" == expected


def _both(written: str) -> str:
    return f"{{input: {written}, output: {written}}}"


def test_sizes_become_bytes() -> None:
    config = read("max_body_mb: 0.5\nidempotency_max_kb: 0")
    assert (config.max_body_bytes, config.idempotency_max_bytes) == (524_288, 0)
    assert read("max_body_mb: 0.000000001").max_body_bytes == 1


def test_dates_need_no_quotes() -> None:
    config = read("messages_versions: [2023-06-01, 2026-10-21]")
    assert config.messages_versions == ("2023-06-01", "2026-10-21")


def test_whole_numbers_may_have_underscores_and_signs() -> None:
    models = read(model("context_size: 400_000")).registry.models
    assert models["m"].context_size == 400_000
    assert read(channel("priority: -3")).registry.channels["a"].priority == -3
