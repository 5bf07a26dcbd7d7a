"""Links to our own copies, and results that carry them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from actors.media_store.links import LINK_SECONDS, LinkSigner, period_end
from actors.media_store.store import Kept, SucceededTask, sources_of
from actors.media_store.worker import with_own_links
from channels.media.canonical import AvatarResult, MusicResult, SpeechResult, Track, VideoResult

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
        position=position,
        content_type="video/mp4",
        size=1,
        kept_at=NOW,
    )


def link(copy: Kept) -> tuple[str, float]:
    return f"ours/{copy.file_name}", NOW + copy.position + 7


def test_a_film_and_a_recording_lead_to_their_copies() -> None:
    for result in (VideoResult(url="theirs", expires_at=1.0), SpeechResult(url="theirs")):
        told = with_own_links(result, {0: kept(0)}, link)
        assert isinstance(told, VideoResult | SpeechResult)
        assert (told.url, told.expires_at) == ("ours/vid_1-0.mp4", NOW + 7)
        assert with_own_links(result, {}, link) is result
    avatar = AvatarResult(upstream_id="a")
    assert with_own_links(avatar, {0: kept(0)}, link) is avatar


def test_the_files_of_each_language_have_links_of_their_own() -> None:
    files = [{"language": "en", "url": "a"}, "odd", {"language": "de", "url": "b"}, {"url": 5}]
    result = VideoResult(url="theirs", output_files=files)
    made = SucceededTask(
        job_id="j", kind="video", channel_id="c", upstream_id="u", wire="w", result=result
    )
    assert [(one.position, one.url) for one in sources_of(made)] == [
        (0, "theirs"),
        (1, "a"),
        (3, "b"),
    ]
    told = with_own_links(result, {3: kept(3)}, link)
    assert isinstance(told, VideoResult)
    ours = {"language": "de", "url": "ours/vid_1-3.mp4"}
    assert (told.url, told.output_files) == ("theirs", [*files[:2], ours, files[3]])


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
        made = SucceededTask(
            job_id="j", kind="video", channel_id="c", upstream_id="u", wire="w", result=result
        )
        return [source.position for source in sources_of(made)]

    songs = MusicResult(tracks=(Track(audio_url="a"), Track(audio_url="b", image_url="c")))
    assert positions(songs) == [0, 2, 3]
    assert positions(VideoResult(url=None)) == [0]
    assert positions(AvatarResult(upstream_id="a")) == []
