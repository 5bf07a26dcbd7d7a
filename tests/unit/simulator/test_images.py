"""The images wire."""

from __future__ import annotations

import base64
from typing import Any

from loadtests.simulator.server import Simulator
from tests.support.aio import run
from tests.unit.simulator.client import Reply, ask, call


def images(**options: Any) -> Reply:
    async def one() -> Reply:
        async with Simulator() as simulator:
            return await ask(simulator, "images", **options)

    return run(one())


def test_images_come_as_links_with_their_usage() -> None:
    body = images(n=3, size="2048x1024").json
    assert body["model"] == "model-a"
    assert len({item["url"] for item in body["data"]}) == 3
    assert {item["size"] for item in body["data"]} == {"2048x1024"}
    assert body["usage"] == {
        "generated_images": 3,
        "output_tokens": 3 * 8192,
        "total_tokens": 3 * 8192,
    }


async def test_a_link_leads_to_a_picture() -> None:
    async with Simulator() as simulator:
        (item,) = (await ask(simulator, "images")).json["data"]
        target = item["url"].removeprefix("http://simulator")
        picture = await call(simulator, "GET", target)
        assert (picture.status, picture.body[:4]) == (200, b"\x89PNG")


def test_base64_images_are_pictures() -> None:
    (item,) = images(response_format="b64_json").json["data"]
    assert base64.b64decode(item["b64_json"]).startswith(b"\x89PNG")


def test_fewer_images_than_asked_for_are_counted_as_made() -> None:
    body = images(n=3, sim={"events": 1}).json
    assert (len(body["data"]), body["usage"]["generated_images"]) == (1, 1)


def test_too_many_images_are_refused() -> None:
    assert images(n=11).status == 400


def test_missing_usage_and_errors_work_here_too() -> None:
    assert "usage" not in images(sim={"no_usage": True}).json
    assert images(sim={"status": 503}).json["error"]["type"] == "server_error"


def test_pictures_are_as_large_as_told() -> None:
    (item,) = images(response_format="b64_json", sim={"image_bytes": 50_000}).json["data"]
    assert 50_000 <= len(base64.b64decode(item["b64_json"])) < 51_000


def test_missing_members_and_wrong_types_are_refused_in_the_images_shape() -> None:
    assert images(prompt=None).status == 400
    assert images(response_format="gif").json["error"]["type"] == "invalid_request_error"
