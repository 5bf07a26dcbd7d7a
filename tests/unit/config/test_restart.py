"""Which keys a reload leaves for the next start."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from gw.config.config import Certificate, Config, KbStore, ListenAddress, Tasks, Timeouts
from gw.config.restart import APPLIED, needing_restart
from gw.config.schema import TOP
from tests.unit.config.reading import SOURCE, model, read

RUNNING = read("")
# Another value for each key that waits.
OTHERS: dict[str, tuple[str, Any]] = {
    "listen": ("listen", ListenAddress("127.0.0.1", 1)),
    "admin_listen": ("admin_listen", ListenAddress("127.0.0.1", 1)),
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


@pytest.mark.parametrize("name", OTHERS)
def test_key_that_waits_is_named_as_the_file_names_it(name: str) -> None:
    key, value = OTHERS[name]
    assert key in TOP
    assert needing_restart(RUNNING, replace(RUNNING, **{name: value})) == [key]


@pytest.mark.parametrize(
    ("part", "name"),
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
        "drain_seconds: 1\nlog_level: debug\ntranslations: []\nretention_months: 3\n" + model()
    )
    assert needing_restart(RUNNING, wanted) == []


def test_certificate_is_read_again_and_tls_is_not_switched() -> None:
    one = replace(RUNNING, tls=Certificate(SOURCE, SOURCE))
    other = replace(RUNNING, tls=Certificate(SOURCE.parent, SOURCE))
    assert needing_restart(one, other) == []
    assert needing_restart(RUNNING, one) == needing_restart(one, RUNNING) == ["tls"]
