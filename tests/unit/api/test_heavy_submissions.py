"""A large body holds nobody up: no media endpoint reads it in the process that serves."""

from __future__ import annotations

import json
from typing import Any

import pytest

from channels.json import READ_VALUES_MAX
from gw.api import submit
from gw.media import reading
from tests.unit.api.fakes import World
from tests.unit.http.wire import Answer, request, served

PATHS = (
    "/v1/audio/speech",
    "/v1/audio/voices",
    "/v1/transcripts/extract",
    "/v1/music/generations",
    "/v1/videos/avatars",
    "/v1/videos/generations",
)
FIELDS: dict[str, Any] = {"model": "m", "name": 7, "url": 7, "content": 7}


async def told(path: str, world: World, body: bytes, *headers: str) -> Answer:
    head = request("POST", path, f"Content-Length: {len(body)}", *headers)
    try:
        async with served(world.application()) as address:
            return await address.ask(head, body)
    finally:
        world.services.offload.close()


@pytest.mark.parametrize("path", PATHS)
async def test_large_body_is_read_elsewhere_and_refused_as_a_small_one(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = await told(path, World(), json.dumps(FIELDS).encode())
    here: list[object] = []

    def seen(*arguments: Any, **named: Any) -> Any:
        here.append(arguments)
        raise AssertionError("it is read here")

    monkeypatch.setattr(submit, "fingerprint", seen)
    monkeypatch.setattr(reading, "read_members", seen)
    body = json.dumps(FIELDS | {"junk": [0] * (READ_VALUES_MAX + 1)}).encode()
    large = await told(path, World(), body, "Idempotency-Key: k")
    assert here == []
    assert (large.status, large.code) == (small.status, small.code)
    assert large.json() == small.json()
    assert large.status < 500
