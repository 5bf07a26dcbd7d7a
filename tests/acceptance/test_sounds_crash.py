"""`kill -9` while something is submitted: refunded, one row, asked of the upstream once."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance import sounds
from tests.acceptance.sounds import (
    AVATAR,
    AVATARS,
    CHARACTER,
    MUSIC,
    PORTRAIT,
    RECORDING,
    SONG,
    SPEECH,
    TRANSCRIPTS,
    VOICES,
    spent_nano_usd,
)
from tests.support.client import Client, Reply
from tests.support.house import House, house
from tests.support.waiting import until

pytestmark = pytest.mark.long

SUBMITS: dict[str, tuple[str, dict[str, Any]]] = {
    "speech": (SPEECH, {"model": "tts", "input": "Hello", "voice": "preset-warm"}),
    "speech-task": (
        SPEECH,
        {"model": "tts", "input": "Hello", "voice": "preset-warm", "async": True},
    ),
    "voice": (VOICES, {"model": "clone", "name": "Me", "audio_url": RECORDING}),
    "script": (TRANSCRIPTS, {"url": "https://video.example/1"}),
    "music": (MUSIC, {"model": "song", "prompt": "a boat"}),
    "avatar": (AVATARS, {"name": "Anna", "source_url": PORTRAIT}),
}
LISTS = {
    "speech-task": (SPEECH, "data"),
    "music": (MUSIC, "data"),
    "avatar": (AVATARS, "avatars"),
}

COSTS = {"speech-task": len("Hello") * CHARACTER, "music": SONG, "avatar": AVATAR}


@contextmanager
def studio(database_url: str, folder: Path) -> Iterator[House]:
    """A house of its own; its ledger is verified at the end."""
    with house(database_url, folder, is_funded=False, **sounds.SETTINGS) as h:
        yield h


def test_kill_within_submits_is_refunded_and_none_is_sent_again(
    database_url: str, tmp_path: Path
) -> None:
    with studio(database_url, tmp_path) as h:
        tenant = h.tenant()
        h.upstream.fault("one", hang="headers")
        calls = [
            tenant.client.begin("POST", path, body, headers={"Idempotency-Key": kind})
            for kind, (path, body) in SUBMITS.items()
        ]
        h.upstream.wait(active=len(calls))
        h.gateway.kill()
        for call in calls:
            with pytest.raises((http.client.HTTPException, OSError)):
                call.reply()
        h.gateway.close()
        h.start()
        client = Client(h.gateway.url, tenant.key)
        until(lambda: len(h.rows(tenant)) == len(calls), what="a row for each")
        assert {(row["status"], row["cost_nano_usd"]) for row in h.rows(tenant)} == {
            ("interrupted", 0)
        }
        assert {row["unit_count"] for row in h.rows(tenant)} == {0}
        assert spent_nano_usd(h, tenant) == 0
        assert h.upstream.requested("one", "two") == [len(calls), 0]
        for listed, name in LISTS.values():
            assert client.get(listed).json == {name: []}


def test_kill_while_tasks_are_made_ends_in_one_settlement_each(
    database_url: str, tmp_path: Path
) -> None:
    with studio(database_url, tmp_path) as h:
        tenant = h.tenant()
        h.upstream.fault("one", task_seconds=1)

        def submitted(client: Client) -> list[Reply]:
            return [
                client.send("POST", path, body, headers={"Idempotency-Key": kind})
                for kind, (path, body) in SUBMITS.items()
                if kind in LISTS
            ]

        begun = submitted(tenant.client)
        assert [reply.status for reply in begun] == [200] * len(LISTS)
        h.gateway.kill()
        h.gateway.close()
        h.start()
        client = Client(h.gateway.url, tenant.key)
        again = submitted(client)
        assert [reply.body for reply in again] == [reply.body for reply in begun]
        assert {reply.headers["idempotency-replayed"] for reply in again} == {"true"}

        def states() -> set[str]:
            shown = [client.get(listed).json[name] for listed, name in LISTS.values()]
            return {one["status"] for (one,) in shown}

        until(lambda: states() == {"succeeded", "ready"}, what="the success of all")
        paid = {kind: cost for kind, cost in COSTS.items() if kind in LISTS}
        assert spent_nano_usd(h, tenant) == sum(paid.values())
        rows = h.rows(tenant)
        assert sorted(row["cost_nano_usd"] for row in rows) == sorted(paid.values())
        assert {row["status"] for row in rows} == {"success"}
