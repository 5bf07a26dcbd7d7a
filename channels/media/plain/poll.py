"""Polls on the plain wire, and how a task is given up."""

from __future__ import annotations

from functools import partial
from typing import Any

from channels.media.base import segment
from channels.media.model import Exchange, MediaRequest, MediaResponse, TaskKind
from channels.media.outcomes import STATES, is_ok, poll_trouble, polled
from channels.media.plain.paths import TASKS
from channels.media.replies import (
    AvatarResult,
    MusicResult,
    PollReply,
    SpeechResult,
    TaskResult,
    Track,
    Trouble,
    VideoResult,
)
from channels.media.values import (
    LYRICS_CHARACTERS_MAX,
    entries,
    identifier,
    instant,
    json_of,
    link,
    link_end,
    milliseconds,
    number,
    text,
)

# A song has two tracks, a film a file per language; more than this is not stored.
TRACKS_MAX = 20
OUTPUT_FILES_MAX = 100

# An avatar that can be used is "ready".
_AVATAR_STATES = {**STATES, "ready": "succeeded"}


def poll(kind: TaskKind, upstream_id: str) -> Exchange[PollReply]:
    """Ask how a task is."""
    request = MediaRequest(method="GET", path=f"{TASKS[kind]}/{segment(upstream_id)}")
    return Exchange(request=request, read=partial(_read, kind, upstream_id))


def cancel(kind: TaskKind, upstream_id: str) -> Exchange[bool]:
    """Give a task up, or delete an avatar.

    Another of these gateways refuses this but for avatars, and its task goes on and is paid for:
    clients of a gateway have no way to cancel, as its own upstream may bill what it has begun.
    """
    return cancel_at(TASKS[kind], upstream_id)


def cancel_at(path: str, upstream_id: str) -> Exchange[bool]:
    """Give up a task that has its own address below those of all tasks."""
    request = MediaRequest(method="DELETE", path=f"{path}/{segment(upstream_id)}")
    return Exchange(request=request, read=was_done)


def was_done(response: MediaResponse) -> bool:
    """Whether the upstream accepted the cancellation."""
    return 200 <= response.status < 300


def _read(kind: TaskKind, upstream_id: str, response: MediaResponse) -> PollReply:
    if not is_ok(response):
        return poll_trouble(response)
    value = json_of(response)
    if not isinstance(value, dict):
        return Trouble(reason="no JSON object", status=response.status)
    return polled(
        value.get("status"),
        result=_result(kind, upstream_id, value, now=response.received_at),
        seconds_ms=milliseconds(value.get("duration")),
        progress=value.get("progress"),
        error=value.get("error"),
        words=_AVATAR_STATES if kind == "avatar" else STATES,
    )


def _result(kind: TaskKind, upstream_id: str, value: Any, *, now: float) -> TaskResult | None:
    if kind == "avatar":
        return AvatarResult(upstream_id=upstream_id)
    if kind == "music":
        return music_result(tracks_of(value.get("tracks")), now=now)
    url = link(value.get("video_url" if kind == "video" else "audio_url"))
    if url is None:
        return None
    expires_at = instant(value.get("expires_at")) or link_end(url, now=now)
    if kind == "speech":
        return SpeechResult(url=url, expires_at=expires_at)
    return VideoResult(
        url=url, expires_at=expires_at, output_files=output_files(value.get("output_files"))
    )


def music_result(tracks: tuple[Track, ...], *, now: float) -> MusicResult | None:
    """Songs, if one of them can be heard; they last as long as the first link to end."""
    links = [track.audio_url for track in tracks if track.audio_url is not None]
    if not links:
        return None
    ends = [end for end in (link_end(url, now=now) for url in links) if end is not None]
    return MusicResult(tracks=tracks, expires_at=min(ends, default=None))


def tracks_of(value: Any) -> tuple[Track, ...]:
    """The songs as they come, members that are missing or of another type None."""
    return tuple(
        Track(
            clip_id=identifier(one.get("clip_id")),
            title=text(one.get("title")),
            duration_sec=number(one.get("duration_sec")),
            audio_url=link(one.get("audio_url")),
            image_url=link(one.get("image_url")),
            lyrics=text(one.get("lyrics"), LYRICS_CHARACTERS_MAX),
        )
        for one in entries(value)[:TRACKS_MAX]
    )


def output_files(value: Any) -> list[Any] | None:
    """Links, or objects of texts, numbers and links; None where there is none."""
    if not isinstance(value, list):
        return None
    kept: list[Any] = []
    for one in value[:OUTPUT_FILES_MAX]:
        if isinstance(one, dict):
            members = {
                name: text(inner, 8192) if isinstance(inner, str) else number(inner)
                for name, inner in one.items()
                if name.isprintable() and len(name) <= 64
            }
            kept.append({name: inner for name, inner in members.items() if inner is not None})
        elif (url := link(one)) is not None:
            kept.append(url)
    return kept or None
