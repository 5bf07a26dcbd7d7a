"""Copies into a bucket, against a server that speaks S3."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from actors.media_store.bucket import BucketStorage
from loadtests.simulator.server import Simulator
from tests.integration.media.copying import fetch, film_bytes, film_link, storing
from tests.support.s3 import StorageServer, running_storage

pytestmark = pytest.mark.long

MIB = 1024 * 1024
PART = 5 * MIB  # the least that the protocol takes
SIZE = 2 * PART + MIB


@pytest.fixture(scope="module")
def storage() -> Iterator[StorageServer]:
    with running_storage() as running:
        yield running


async def test_a_film_goes_up_in_parts_and_on_from_the_last_that_is_there(
    database_url: str, storage: StorageServer
) -> None:
    bucket = BucketStorage(storage.spec, part_bytes=PART)
    async with (
        Simulator() as simulator,
        storing(database_url, bucket, kind="s3", channel_url=simulator.base_url) as store,
    ):
        link = film_link(simulator, SIZE, cut_after_bytes=PART + MIB, times=1)
        (copy_id,) = await store.find(link)
        await store.round()
        assert await store.state(copy_id) == ("waiting", "cut", 1, PART)
        await store.hurry()
        await store.round()
        assert simulator.requests()[-1].header(b"range") == b"bytes=%d-" % PART
        kept = await store.kept(copy_id)
        served = await store.media.served(kept.file_name)
        assert served is not None
        url = served[1]
        assert isinstance(url, str)
        with storage.without_keys():
            assert await fetch(url) == (200, "video/mp4", film_bytes(SIZE))
            assert await fetch(url, Range="bytes=4-7") == (206, "video/mp4", b"ftyp")
        await store.database.execute("UPDATE media_copies SET kept_at = now() - interval '9 days'")
        await store.copies.expire(7)
        await store.round()
        assert (await store.state(copy_id))[0] == "dropped"
        with storage.without_keys():
            assert (await fetch(url))[0] in (403, 404)


async def test_a_small_film_goes_up_at_once(database_url: str, storage: StorageServer) -> None:
    async with (
        Simulator() as simulator,
        storing(
            database_url, BucketStorage(storage.spec), kind="s3", channel_url=simulator.base_url
        ) as store,
    ):
        (copy_id,) = await store.find(film_link(simulator, MIB))
        await store.round()
        served = await store.media.served((await store.kept(copy_id)).file_name)
        assert served is not None
        assert isinstance(served[1], str)
        with storage.without_keys():
            assert await fetch(served[1]) == (200, "video/mp4", film_bytes(MIB))


async def test_keys_that_are_wrong_are_tried_again_later(
    database_url: str, storage: StorageServer
) -> None:
    bucket = BucketStorage(replace(storage.spec, secret_key="wrong" * 8))
    async with (
        Simulator() as simulator,
        storing(database_url, bucket, kind="s3", channel_url=simulator.base_url) as store,
    ):
        (copy_id,) = await store.find(film_link(simulator, MIB))
        await store.round()
        state, error, _, _ = await store.state(copy_id)
        assert (state, error) == ("waiting", "put_object: SignatureDoesNotMatch")
