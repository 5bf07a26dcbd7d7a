"""A body of many values holds nobody up: no media endpoint reads it, nor what it is told by."""

from __future__ import annotations

import json

import pytest

from channels.offload.weight import READ_VALUES_MAX
from gw.api import submit
from tests.unit.api.fakes import World
from tests.unit.http.wire import request, served

PATHS = (
    "/v1/audio/speech",
    "/v1/audio/voices",
    "/v1/transcripts/extract",
    "/v1/music/generations",
    "/v1/videos/avatars",
)


@pytest.mark.parametrize("path", PATHS)
async def test_heavy_body_is_refused_and_its_fingerprint_made_elsewhere(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    here: list[str] = []

    def fingerprint(*, method: str, path: str, body: bytes) -> bytes:
        here.append(path)
        return b""

    monkeypatch.setattr(submit, "fingerprint", fingerprint)
    world = World()
    body = json.dumps({"model": "m", "junk": [0] * (READ_VALUES_MAX + 1)}).encode()
    head = request("POST", path, f"Content-Length: {len(body)}", "Idempotency-Key: k")
    try:
        async with served(world.application()) as address:
            answer = await address.ask(head, body)
    finally:
        world.services.offload.close()
    assert (answer.status, answer.code) == (400, "invalid_request")
    assert here == []
    (refusal,) = world.refusals
    assert refusal.model == "m"
