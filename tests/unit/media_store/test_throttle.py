"""How many bytes a second the copies take."""

import asyncio

import pytest

from actors.media_store.copies import Copy
from actors.media_store.fetch import FileLocation
from actors.media_store.throttle import Throttle
from channels.http.transport import Proxy, Transport
from gw.config import relations
from gw.config.live import LiveConfig
from gw.media_services import Locator
from tests.support.clock import FakeClock
from tests.unit.config.reading import fault_of, read


async def test_bytes_beyond_the_rate_wait_and_a_pause_is_not_made_up_for() -> None:
    clock = FakeClock()
    throttle = Throttle(100, clock)
    await throttle.take(100)  # a second ahead is free
    waits = asyncio.create_task(throttle.take(250))
    await asyncio.sleep(0)
    assert clock.sleepers == 1
    clock.advance(2.4)
    await asyncio.sleep(0)
    assert not waits.done()
    clock.advance(0.2)
    await waits
    clock.advance(1000)
    await throttle.take(100)
    later = asyncio.create_task(throttle.take(100))
    await asyncio.sleep(0)
    assert not later.done()
    clock.advance(1.1)
    await later


async def test_no_rate_lets_all_through() -> None:
    clock = FakeClock()
    await Throttle(0, clock).take(10**12)
    assert clock.sleepers == 0


TEXT = """
channels:
  - {id: plain, base_url: "https://a.example", api_key: key-a, protocols: [videos]}
  - {id: sora, base_url: "https://b.example", api_key: key-b, protocols: [videos],
     wire: {videos: openai}}
  - {id: inside, base_url: "https://c.example", api_key: key-c, protocols: [videos],
     proxy: "http://proxy.example:3128"}
models: []
"""


def wired_copy_of(channel: str, url: str | None) -> Copy:
    return Copy(
        id="vid_1-0", job_id="vid_1", account_id="acct_1", claim_id="a", channel_id=channel,
        upstream_protocol="videos", upstream_id="up/1", url=url, content_type="video/mp4",
        attempts=0, done=0, size=None,
        validator=None, upload_id=None, parts=(), age_seconds=0.0,
    )  # fmt: skip


async def test_a_link_is_followed_without_a_key_and_what_has_none_is_requested_with_it() -> None:
    locate = Locator(LiveConfig(read(TEXT))).locate
    link = "https://cdn.example/film.mp4"
    assert await locate(wired_copy_of("plain", link)) == FileLocation(link, "https://a.example")
    content = "https://b.example/v1/videos/up%2F1/content"
    key = (("Authorization", "Bearer key-b"),)
    for url in (None, "https://our.own/v1/videos/generations/vid_1/content?signature=x"):
        expected = FileLocation(content, "https://b.example", key)
        assert await locate(wired_copy_of("sora", url)) == expected
    found = await locate(wired_copy_of("inside", link))
    through = Transport(Proxy("proxy.example", 3128))
    assert found == FileLocation(link, "https://c.example", transport=through)
    assert await locate(wired_copy_of("plain", None)) is None
    assert await locate(wired_copy_of("gone", link)) is None


def test_a_bucket_needs_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "media_store: {kind: s3, endpoint: 'https://s3.example', bucket: b, access_key: k,"
        " secret_key: s}"
    )
    assert read(text).media_store.bucket.bucket == "b"
    assert "secret_key" not in repr(read(text))
    monkeypatch.setattr(relations, "find_spec", lambda name: None)
    fault = fault_of(text)
    assert (fault.path, "model-gateway[s3]" in fault.hint) == ("media_store.kind", True)
