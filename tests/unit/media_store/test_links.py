"""Copies of results: links, writing, throttling, and what is wired."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.media_store.bucket import BucketWriting
from actors.media_store.copies import Copy, CopyProgress, Kept, SucceededTask, sources_of
from actors.media_store.links import LINK_SECONDS, LinkSigner, period_end
from actors.media_store.own_links import with_own_links
from actors.media_store.storage import Lost
from channels.media.results import AvatarResult, MusicResult, SpeechResult, Track, VideoResult

SIGNER = LinkSigner(b"a key")
PATH = "/v1/media/vid_1-0.mp4"
NOW = 1_800_000_000.0


def parts(query: str) -> tuple[str, str]:
    expires, _, signature = query.removeprefix("expires=").partition("&signature=")
    return expires, signature


def test_a_link_is_good_until_it_ends_for_its_path_and_under_its_key() -> None:
    expires, signature = parts(SIGNER.query(PATH, 1_800_000_100))
    assert SIGNER.is_good(PATH, expires, signature, now=1_800_000_099.9)
    assert not SIGNER.is_good(PATH, expires, signature, now=1_800_000_100.0)
    assert not SIGNER.is_good(PATH + "x", expires, signature, now=NOW)
    assert not SIGNER.is_good(PATH, "1800000101", signature, now=NOW)
    assert not LinkSigner(b"another").is_good(PATH, expires, signature, now=NOW)
    assert LinkSigner(b"another", b"a key").is_good(PATH, expires, signature, now=NOW)


@given(expires=st.text(max_size=20), signature=st.text(max_size=80), path=st.text(max_size=40))
def test_nothing_that_anybody_makes_up_is_good(expires: str, signature: str, path: str) -> None:
    assert not SIGNER.is_good(path, expires, signature, now=NOW)


@given(since=st.floats(1e9, 2e9), passed=st.floats(0, 1e8))
def test_a_link_lasts_at_most_seven_days_and_is_the_same_for_all_who_ask_meanwhile(
    since: float, passed: float
) -> None:
    now = since + passed
    end = period_end(since, now)
    assert now - 1 < end <= now + LINK_SECONDS
    assert period_end(since, end - 1.0) == end
    assert period_end(since, end + 1.0) > end + LINK_SECONDS - 2


def kept(position: int) -> Kept:
    return Kept(
        id=f"vid_1-{position}",
        job_id="vid_1",
        account_id="acct_1",
        position=position,
        content_type="video/mp4",
        size=1,
        kept_at=NOW,
    )


def link(copy: Kept) -> tuple[str, float]:
    return f"ours/{copy.file_name}", NOW + copy.position + 7


def test_a_film_and_a_recording_lead_to_their_copies() -> None:
    for result in (VideoResult(url="theirs", expires_at=1.0), SpeechResult(url="theirs")):
        outcome = with_own_links(result, {0: kept(0)}, link)
        assert isinstance(outcome, VideoResult | SpeechResult)
        assert (outcome.url, outcome.expires_at) == ("ours/vid_1-0.mp4", NOW + 7)
        assert with_own_links(result, {}, link) is result
    avatar = AvatarResult(upstream_id="a")
    assert with_own_links(avatar, {0: kept(0)}, link) is avatar


def made(result: Any) -> SucceededTask:
    where = {"channel_id": "c", "upstream_protocol": "w", "upstream_id": "u"}
    return SucceededTask(job_id="j", kind="video", result=result, **where)


def test_the_files_of_each_language_have_links_of_their_own() -> None:
    files = [{"language": "en", "url": "a"}, "odd", {"language": "de", "url": "b"}, {"url": 5}]
    result = VideoResult(url="theirs", output_files=files)
    assert [(one.position, one.url) for one in sources_of(made(result))] == [
        (0, "theirs"),
        (1, "a"),
        (3, "b"),
    ]
    outcome = with_own_links(result, {3: kept(3)}, link)
    assert isinstance(outcome, VideoResult)
    ours = {"language": "de", "url": "ours/vid_1-3.mp4"}
    assert (outcome.url, outcome.output_files) == ("theirs", [*files[:2], ours, files[3]])


def test_songs_lead_to_their_copies_and_last_as_long_as_the_first_of_them() -> None:
    tracks = (
        Track(title="a", audio_url="one", image_url="one.png"),
        Track(title="b", audio_url="two"),
        Track(title="c"),
    )
    result = MusicResult(tracks=tracks, expires_at=NOW + 3)
    some = with_own_links(result, {0: kept(0)}, link)
    assert isinstance(some, MusicResult)
    assert [track.audio_url for track in some.tracks] == ["ours/vid_1-0.mp4", "two", None]
    assert some.expires_at == NOW + 3  # the second is still the upstream's
    every = with_own_links(result, {0: kept(0), 1: kept(1), 2: kept(2)}, link)
    assert isinstance(every, MusicResult)
    assert every.tracks[0].image_url == "ours/vid_1-1.mp4"
    assert (every.tracks[1].audio_url, every.expires_at) == ("ours/vid_1-2.mp4", NOW + 7)


def test_every_file_of_a_result_has_a_place() -> None:
    def positions(result: VideoResult | MusicResult | AvatarResult) -> list[int]:
        return [source.position for source in sources_of(made(result))]

    songs = MusicResult(tracks=(Track(audio_url="a"), Track(audio_url="b", image_url="c")))
    assert positions(songs) == [0, 2, 3]
    assert positions(VideoResult(url=None)) == [0]
    assert positions(AvatarResult(upstream_id="a")) == []


def copy_of(parts: tuple[str, ...] = (), upload_id: str | None = None) -> Copy:
    return Copy(
        id="vid_1-0", job_id="vid_1", account_id="acct_1", claim_id="a", channel_id="one",
        upstream_protocol="videos", upstream_id="u", url=None, content_type="video/mp4",
        attempts=0, done=4 * len(parts),
        size=None, validator=None, upload_id=upload_id, parts=parts, age_seconds=0.0,
    )  # fmt: skip


class Storage:
    """Notes what it is asked; `lost` uploads are not known."""

    def __init__(self, *, lost: bool = False) -> None:
        self.requested: list[tuple[str, Any]] = []
        self._lost = lost

    async def ask(self, operation: str, copy_id: str, **params: Any) -> dict[str, str]:
        assert copy_id == "vid_1-0"
        self.requested.append((operation, params.get("PartNumber")))
        if self._lost and operation in ("upload_part", "abort_multipart_upload"):
            raise Lost(operation)
        return {"UploadId": "up", "ETag": f"tag{params.get('PartNumber')}"}


async def test_parts_are_whole_and_the_rest_waits_for_the_end() -> None:
    storage = Storage()
    writing = BucketWriting(copy_of(), storage.ask, part_bytes=4)
    for piece in (b"abc", b"defgh", b"i"):
        await writing.write(piece)
    assert await writing.save() == CopyProgress(8, None, "up", ("tag1", "tag2"))
    assert await writing.save() is None
    assert writing.done == 9
    await writing.finish("video/mp4")
    assert [name for name, _ in storage.requested] == [
        "create_multipart_upload",
        "upload_part",
        "upload_part",
        "upload_part",
        "complete_multipart_upload",
    ]


async def test_a_forgotten_upload_is_lost_and_can_be_begun_anew() -> None:
    storage = Storage(lost=True)
    writing = BucketWriting(copy_of(("tag1",), "old"), storage.ask, part_bytes=4)
    assert writing.done == 4
    with pytest.raises(Lost):
        await writing.write(b"efgh")
    await writing.restart()
    assert writing.done == 0
    assert storage.requested[-1] == ("abort_multipart_upload", None)
