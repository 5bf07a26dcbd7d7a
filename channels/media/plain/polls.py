"""Polls of the plain wire, and the cancellation of tasks."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from channels.media import model, outcomes, replies, results, values
from channels.media.plain.submits import TASKS

# A song has two tracks, a video one file per language; more are not stored.
TRACKS_MAX = 20
OUTPUT_FILES_MAX = 100

# The state of a usable avatar is "ready".
_AVATAR_STATES = {**outcomes.STATES, "ready": "succeeded"}


def poll(kind: model.TaskKind, upstream_id: str) -> model.Exchange[replies.PollReply]:
    """Request a task's status."""
    request = model.MediaRequest(method="GET", path=f"{TASKS[kind]}/{model.segment(upstream_id)}")
    return model.Exchange(request=request, read=partial(_read, kind, upstream_id))


def cancel(kind: model.TaskKind, upstream_id: str) -> model.Exchange[bool]:
    """Cancel a task, or delete an avatar.

    Another gateway supports it for avatars only; its tasks continue and are paid for, because its
    own upstream may bill a task that has begun.
    """
    return cancel_at(TASKS[kind], upstream_id)


def cancel_at(path: str, upstream_id: str) -> model.Exchange[bool]:
    """Cancel a task at its own path below that of all tasks."""
    request = model.MediaRequest(method="DELETE", path=f"{path}/{model.segment(upstream_id)}")
    return model.Exchange(request=request, read=was_done)


def was_done(response: model.MediaResponse) -> bool:
    """Whether the upstream accepted the cancellation."""
    return 200 <= response.status < 300


def _read(
    kind: model.TaskKind, upstream_id: str, response: model.MediaResponse
) -> replies.PollReply:
    if (trouble := outcomes.poll_trouble(response)) is not None:
        return trouble
    value = values.json_of(response)
    if not isinstance(value, dict):
        return replies.Trouble(reason="no JSON object", status=response.status)
    return outcomes.polled(
        value.get("status"),
        result=_result(kind, upstream_id, value, now=response.received_at),
        seconds_ms=values.milliseconds(value.get("duration")),
        progress=value.get("progress"),
        error=value.get("error"),
        words=_AVATAR_STATES if kind == "avatar" else outcomes.STATES,
    )


def _result(
    kind: model.TaskKind, upstream_id: str, value: Mapping[str, object], *, now: float
) -> results.TaskResult | None:
    if kind == "avatar":
        return results.AvatarResult(upstream_id=upstream_id)
    if kind == "music":
        return music_result(tracks_of(value.get("tracks")), now=now)
    url = values.link(value.get("video_url" if kind == "video" else "audio_url"))
    if url is None:
        return None
    expires_at = values.instant(value.get("expires_at"), now=now) or values.link_end(url, now=now)
    if kind == "speech":
        return results.SpeechResult(url=url, expires_at=expires_at)
    return results.VideoResult(
        url=url, expires_at=expires_at, output_files=output_files(value.get("output_files"))
    )


def music_result(tracks: tuple[results.Track, ...], *, now: float) -> results.MusicResult | None:
    """Return songs, if one has an audio link; they expire with the first link."""
    links = [track.audio_url for track in tracks if track.audio_url is not None]
    if not links:
        return None
    ends = [end for end in (values.link_end(url, now=now) for url in links) if end is not None]
    return results.MusicResult(tracks=tracks, expires_at=min(ends, default=None))


def tracks_of(value: object) -> tuple[results.Track, ...]:
    """Return the songs of a response; missing members and those of another type are None."""
    return tuple(
        results.Track(
            clip_id=values.identifier(one.get("clip_id")),
            title=values.text(one.get("title")),
            duration_sec=values.number(one.get("duration_sec")),
            audio_url=values.link(one.get("audio_url")),
            image_url=values.link(one.get("image_url")),
            lyrics=values.text(one.get("lyrics"), values.LYRICS_CHARACTERS_MAX),
        )
        for one in values.entries(value)[:TRACKS_MAX]
    )


def output_files(value: object) -> list[object] | None:
    """Return links, or objects of texts, numbers and links; None if there is none."""
    if not isinstance(value, list):
        return None
    kept: list[object] = []
    for one in value[:OUTPUT_FILES_MAX]:
        if isinstance(one, dict):
            members = {
                name: values.text(inner, 8192) if isinstance(inner, str) else values.number(inner)
                for name, inner in one.items()
                if name.isprintable() and len(name) <= 64
            }
            kept.append({name: inner for name, inner in members.items() if inner is not None})
        elif (url := values.link(one)) is not None:
            kept.append(url)
    return kept or None
