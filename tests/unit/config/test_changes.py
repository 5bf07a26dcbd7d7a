"""What a reload changes, what it leaves for the next start, and which prices it refuses."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from gw.config.config import (
    APPLIED,
    CHANGES_MAX,
    Certificate,
    Config,
    KbStore,
    ListenAddress,
    Tasks,
    Timeouts,
    changes,
    check_prices,
    needing_restart,
)
from gw.config.readers import ConfigFaults
from gw.config.schema import TOP
from tests.support.rows import cases, each
from tests.unit.config.reading import SOURCE, model, read

RUNNING = read("")
# Another value for each key that waits.
OTHERS: dict[str, tuple[str, Any]] = {
    "listen": ("listen", ListenAddress("127.0.0.1", 1)),
    "admin_listen": ("admin_listen", ListenAddress("127.0.0.1", 1)),
    "admin_hosts": ("admin_hosts", ("x",)),
    "cors_origins": ("cors_origins", ("https://app.example",)),
    "console_listen": ("console_listen", ListenAddress("127.0.0.1", 1)),
    "console_url": ("console_url", "https://console.example"),
    "data_dir": ("data_dir", SOURCE),
    "database_url": ("database_url", "postgresql://x"),
    "redis_url": ("redis_url", "redis://x"),
    "secret": ("secret", "x" * 16),
    "previous_secret": ("previous_secret", "y" * 16),
    "credits_per_usd": ("credits_per_usd", 7),
    "max_body_bytes": ("max_body_mb", 7),
    "messages_versions": ("messages_versions", ("x",)),
    "idempotency_max_bytes": ("idempotency_max_kb", 7),
    "precharge": ("precharge", "whole_body"),
    "shed_delay_ms": ("shed_delay_ms", 7),
    "worker_silence_seconds": ("worker_silence_seconds", 7.0),
    "max_bodies_bytes": ("max_bodies_mb", 7),
    "public_url": ("public_url", "https://api.example"),
    "media_store": ("media_store", replace(RUNNING.media_store, kind="local")),
}


def test_every_key_is_applied_or_told() -> None:
    """Whoever adds a key decides which."""
    parts = {"kb_store", "tasks", "timeouts"}
    assert {field.name for field in fields(Config)} == APPLIED | OTHERS.keys() | parts


@each("name", OTHERS)
def test_key_that_waits_is_named_as_the_file_names_it(name: str) -> None:
    key, value = OTHERS[name]
    assert key in TOP
    assert needing_restart(RUNNING, replace(RUNNING, **{name: value})) == [key]


@each(
    "part, name",
    [
        *(("timeouts", field.name) for field in fields(Timeouts)),
        *(("kb_store", field.name) for field in fields(KbStore)),
        *(("tasks", field.name) for field in fields(Tasks)),
    ],
)
def test_each_time_is_named_by_itself(part: str, name: str) -> None:
    changed: Any = replace(getattr(RUNNING, part), **{name: 77})
    assert needing_restart(RUNNING, replace(RUNNING, **{part: changed})) == [f"{part}.{name}"]


def test_what_a_reload_applies_is_not_named() -> None:
    wanted = read(
        "drain_seconds: 1\nlog_level: debug\ntranslations: []\nretention_months: 3\n"
        "ledger_retention_months: 24\n" + model()
    )
    assert needing_restart(RUNNING, wanted) == []


def test_certificate_is_read_again_and_tls_is_not_switched() -> None:
    one = replace(RUNNING, tls=Certificate(SOURCE, SOURCE))
    other = replace(RUNNING, tls=Certificate(SOURCE.parent, SOURCE))
    assert needing_restart(one, other) == []
    assert needing_restart(RUNNING, one) == needing_restart(one, RUNNING) == ["tls"]


def test_difference_names_what_changed_and_shows_prices_alone() -> None:
    before = read(model("multiplier: 2"))
    text = model(price="{input: 1, output: 3}").replace(
        "    api_key: key\n", "    api_key: hidden\n    headers: {x-pass: hidden-too}\n"
    )
    after = read("secret: hidden-hidden-hidden\n" + text)
    assert changes(before, after) == [
        "channel a: api_key, headers",
        "model m: price.output 2 to 3, multiplier",
        "secret",
    ]
    assert changes(before, before) == []
    assert changes(before, read("")) == ["channel a: removed", "model m: removed"]
    assert changes(read(""), before) == ["channel a: added", "model m: added"]


def test_difference_is_bounded() -> None:
    many = "models:\n" + "".join(f"  - {{id: m{n}, callable: false}}\n" for n in range(150))
    found = changes(RUNNING, read(many))
    assert (len(found), found[-1]) == (CHANGES_MAX + 1, "and 50 more")


@cases(
    "before, after, is_refused",
    ("{input: 1, output: 2}", "{input: 10, output: 0.2}", False),
    ("{input: 1, output: 2}", "{input: 10.01, output: 2}", True),
    ("{input: 1, output: 2}", "{input: 0.0999, output: 2}", True),
    ("{input: 1, output: 2}", "{input: 0, output: 2}", True),
    ("{input: 0, output: 2}", "{input: 0.01, output: 2}", True),
    ("{input: 1, output: 2}", "{input: 1, output: 2, cached_input: 90}", False),
)
def test_price_that_moves_by_more_than_ten_times_is_refused(
    before: str, after: str, is_refused: bool
) -> None:
    running, wanted = (read(model(price=price)) for price in (before, after))
    if not is_refused:
        check_prices(running, wanted)
        return
    with pytest.raises(ConfigFaults) as refused:
        check_prices(running, wanted)
    (fault,) = refused.value.faults
    assert fault.path == "models[0].price.input"
    assert fault.hint == "a restart puts it in force"
    check_prices(read(""), wanted)  # a new model has any price


def test_multiplier_counts_as_every_price() -> None:
    running, wanted = (read(model(f"multiplier: {n}")) for n in (1, 11))
    with pytest.raises(ConfigFaults) as refused:
        check_prices(running, wanted)
    assert [fault.path for fault in refused.value.faults] == [
        "models[0].price.input",
        "models[0].price.output",
    ]
