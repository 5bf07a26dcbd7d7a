"""A running gateway copies what a task has made, and serves it by links of its own."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from actors.media_store.links import PURPOSE, LinkSigner
from actors.store.database import Database
from gw.keys.secret import Secret
from loadtests.rig.client import Client, fetch
from loadtests.rig.deployment import Deployment, deployment
from loadtests.rig.waiting import until
from loadtests.simulator.files import Files, file_of
from tests.integration.actors.process import process
from tests.integration.media.copying import film_bytes
from tests.integration.media.finished_jobs import ended, made
from tests.integration.money import open_account
from tests.support.aio import run

pytestmark = pytest.mark.long

SIZE = 2_000_000
SEED = 7  # of the simulator, when it is not told another
PATH = "/v1/media/vid_1-0.mp4"
NEVER = 4_000_000_000  # Unix seconds


@contextmanager
def storing_deployment(database_url: str, folder: Path, **store: Any) -> Iterator[Deployment]:
    """A gateway that copies, and one film that has just been made."""
    with deployment(
        database_url, folder, is_funded=False, media_store={"kind": "local", **store}
    ) as built:
        link = Files(SEED).link(built.simulator.url, file_of("mp4", 4.0, SIZE), "film", NEVER)

        async def make() -> None:
            async with Database(database_url) as database:
                await open_account(database, 10_000_000_000)
            async with process(database_url) as mine:
                await ended(mine, "vid_1", made(link))

        run(make())
        yield built


def get(
    deployment: Deployment, target: str, method: str = "GET", **headers: str
) -> tuple[int, Any, bytes]:
    response = Client(deployment.gateway.url, None).send(method, target, headers=headers)
    return response.status, response.headers, response.body


def target(deployment: Deployment, path: str = PATH, expires: int = NEVER) -> str:
    """A link as this gateway signs it."""
    signer = LinkSigner(Secret(deployment.settings["secret"]).subkey(PURPOSE))
    return f"{path}?{signer.query(path, expires)}"


def kept(deployment: Deployment) -> bool:
    return bool(deployment.query("SELECT FROM media_copies WHERE state = 'kept'"))


def test_a_copy_that_was_cut_is_not_passed_off_as_whole(database_url: str, data_dir: Path) -> None:
    with storing_deployment(database_url, data_dir) as built:
        until(lambda: kept(built), what="the copy is there")
        (file,) = data_dir.rglob("vid_1-0.media")
        os.truncate(file, SIZE // 2)
        good = target(built)
        assert fetch(built.gateway.url + good).is_broken
        assert "shorter" in built.event("media_file_cut")["why"]
        assert get(built, good, Range="bytes=100-199")[0] == 206
        status, _, body = get(built, good, Range=f"bytes={SIZE - 10}-")
        assert (status, json.loads(body)["error"]["code"]) == (503, "no_channel_available")


def test_a_copy_is_served_whole_and_in_parts_to_whoever_has_the_link(
    database_url: str, data_dir: Path
) -> None:
    with storing_deployment(database_url, data_dir) as built:
        until(lambda: kept(built), what="the copy is there")
        good = target(built)
        status, headers, body = get(built, good)
        assert (status, body == film_bytes(SIZE)) == (200, True)
        assert headers["content-type"] == "video/mp4"
        assert headers["x-content-type-options"] == "nosniff"
        status, headers, part = get(built, good, Range="bytes=100-199")
        assert (status, part) == (206, body[100:200])
        assert headers["content-range"] == f"bytes 100-199/{SIZE}"
        assert get(built, good, Range="bytes=-5")[2] == body[-5:]
        tag = headers["etag"]
        assert get(built, good, **{"Range": "bytes=9-", "If-Range": tag})[2] == body[9:]
        assert get(built, good, **{"Range": "bytes=9-", "If-Range": '"x"'})[0] == 200
        assert get(built, good, Range=f"bytes={SIZE}-")[0] == 416
        status, headers, body = get(built, good, "HEAD")
        assert (status, headers["content-length"], body) == (200, str(SIZE), b"")


def test_without_a_good_link_nobody_learns_whether_there_is_a_file(
    database_url: str, data_dir: Path
) -> None:
    with storing_deployment(database_url, data_dir) as built:
        until(lambda: kept(built), what="the copy is there")
        good = target(built)
        gone = target(built, "/v1/media/vid_2-0.mp4")
        expired = target(built, expires=1)
        for bad in (PATH, good[:-1], good.replace("vid_1", "vid_3"), expired, f"{PATH}?expires=x"):
            status, _, body = get(built, bad)
            assert (status, b"permission_denied" in body) == (403, True)
        assert get(built, gone)[0] == 404
        (file,) = (data_dir / "var" / "media").rglob("*.media")
        file.unlink()
        assert get(built, good)[0] == 503


def test_a_gateway_without_a_store_copies_nothing(database_url: str, data_dir: Path) -> None:
    with storing_deployment(database_url, data_dir, kind="none") as built:
        assert get(built, target(built))[0] == 403
        assert built.query("SELECT FROM media_copies") == []
