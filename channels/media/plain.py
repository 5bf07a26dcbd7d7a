"""The plain wire: an upstream with this gateway's own client API, usually another gateway.

`plain_submit.py` has the bodies and submits; this file the polls, the lists, and the dialect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

from channels.media import canonical, model, outcomes, plain_submit
from channels.media.plain_submit import TASKS

# Lists of the plain wire: templates, and the avatars and voices of every account.

T = TypeVar("T")
Entry = Mapping[str, Any]

UNREADABLE = canonical.Failed(status=502, message="The upstream's list cannot be read.")


def ask(
    path: str,
    read: Callable[[Any], T | None],
    *,
    query: tuple[tuple[str, str], ...] = (),
) -> model.Exchange[canonical.CatalogReply[T]]:
    """Request a list; `read` parses the JSON value, None if it cannot."""

    def read_response(response: model.MediaResponse) -> canonical.CatalogReply[T]:
        if not outcomes.is_ok(response):
            return outcomes.catalog_refusal(response)
        value = read(outcomes.json_of(response))
        return UNREADABLE if value is None else canonical.CatalogValue(value)

    request = model.MediaRequest(method="GET", path=path, query=query)
    return model.Exchange(
        request=request, read=read_response, response_bytes_max=model.CATALOG_BYTES_MAX
    )


def templates(scene: str) -> model.Exchange[canonical.CatalogReply[tuple[canonical.Template, ...]]]:
    """Request the templates of a scene."""
    return ask(
        plain_submit.TEMPLATES,
        lambda value: _all(outcomes.member(value, "templates"), _template),
        query=(("scene", scene),),
    )


def template(template_id: str) -> model.Exchange[canonical.CatalogReply[canonical.TemplateDetail]]:
    """Request one template."""
    return ask(f"{plain_submit.TEMPLATES}/{model.segment(template_id)}", _detail)


def preset_avatars() -> model.Exchange[canonical.CatalogReply[tuple[canonical.PresetAvatar, ...]]]:
    """Request the avatars of every account."""
    return ask(
        plain_submit.PRESET_AVATARS, lambda value: _all(outcomes.member(value, "avatars"), _avatar)
    )


def preset_voices() -> model.Exchange[canonical.CatalogReply[tuple[canonical.PresetVoice, ...]]]:
    """Request the preset voices, without those cloned for an account."""
    return ask(plain_submit.VOICES, lambda value: _all(outcomes.member(value, "voices"), _voice))


def _all(value: Any, read: Callable[[Entry, str], T | None]) -> tuple[T, ...] | None:
    """Return the entries with an id that `read` accepts; None if the value is no list."""
    if not isinstance(value, list):
        return None
    with_ids = ((one, outcomes.identifier(one.get("id"))) for one in outcomes.entries(value))
    found = (read(one, one_id) for one, one_id in with_ids if one_id is not None)
    return tuple(one for one in found if one is not None)


def _template(value: Entry, template_id: str) -> canonical.Template:
    return canonical.Template(
        id=template_id,
        title=outcomes.text(value.get("title")),
        cover=outcomes.link(value.get("cover")),
        has_title=value.get("has_title") is not False,
        has_persona=value.get("has_persona") is not False,
    )


def _detail(value: Any) -> canonical.TemplateDetail | None:
    template_id = outcomes.identifier(outcomes.member(value, "id"))
    if template_id is None:
        return None
    template = _template(value, template_id)
    canvas = value.get("canvas")
    return canonical.TemplateDetail(
        id=template.id,
        title=template.title,
        cover=template.cover,
        has_title=template.has_title,
        has_persona=template.has_persona,
        scene=outcomes.text(value.get("scene")),
        canvas=canvas_of(canvas) if isinstance(canvas, dict) else None,
        layers=tuple(
            canonical.Layer(
                id=outcomes.identifier(one.get("id")),
                type=outcomes.text(one.get("type")),
                name=outcomes.text(one.get("name")),
                editable=one.get("editable") is True,
            )
            for one in outcomes.entries(value.get("layers"))
        ),
    )


def canvas_of(value: Entry) -> canonical.Canvas:
    """Return width, height and ratio, as far as stated."""
    width, height = outcomes.number(value.get("width")), outcomes.number(value.get("height"))
    return canonical.Canvas(
        width=None if width is None else int(width),
        height=None if height is None else int(height),
        ratio=outcomes.text(value.get("ratio")),
    )


def _avatar(value: Entry, avatar_id: str) -> canonical.PresetAvatar:
    return canonical.PresetAvatar(id=avatar_id, name=outcomes.text(value.get("name")) or avatar_id)


def _voice(value: Entry, voice_id: str) -> canonical.PresetVoice | None:
    if value.get("kind") == "cloned":
        return None
    return canonical.PresetVoice(
        id=voice_id,
        name=outcomes.text(value.get("name")) or voice_id,
        language=outcomes.text(value.get("language")),
        preview_url=outcomes.link(value.get("preview_url")),
    )


# Polls of the plain wire, and the cancellation of tasks.

# A song has two tracks, a video one file per language; more are not stored.
TRACKS_MAX = 20
OUTPUT_FILES_MAX = 100

# The state of a usable avatar is "ready".
_AVATAR_STATES = {**outcomes.STATES, "ready": "succeeded"}


def poll(kind: model.TaskKind, upstream_id: str) -> model.Exchange[canonical.PollReply]:
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
) -> canonical.PollReply:
    if (trouble := outcomes.poll_trouble(response)) is not None:
        return trouble
    value = outcomes.json_of(response)
    if not isinstance(value, dict):
        return canonical.Trouble(reason="no JSON object", status=response.status)
    return outcomes.polled(
        value.get("status"),
        result=_result(kind, upstream_id, value, now=response.received_at),
        seconds_ms=outcomes.milliseconds(value.get("duration")),
        progress=value.get("progress"),
        error=value.get("error"),
        words=_AVATAR_STATES if kind == "avatar" else outcomes.STATES,
    )


def _result(
    kind: model.TaskKind, upstream_id: str, value: Any, *, now: float
) -> canonical.TaskResult | None:
    if kind == "avatar":
        return canonical.AvatarResult(upstream_id=upstream_id)
    if kind == "music":
        return music_result(tracks_of(value.get("tracks")), now=now)
    url = outcomes.link(value.get("video_url" if kind == "video" else "audio_url"))
    if url is None:
        return None
    expires_at = outcomes.instant(value.get("expires_at"), now=now) or outcomes.link_end(
        url, now=now
    )
    if kind == "speech":
        return canonical.SpeechResult(url=url, expires_at=expires_at)
    return canonical.VideoResult(
        url=url, expires_at=expires_at, output_files=output_files(value.get("output_files"))
    )


def music_result(
    tracks: tuple[canonical.Track, ...], *, now: float
) -> canonical.MusicResult | None:
    """Return songs, if one has an audio link; they expire with the first link."""
    links = [track.audio_url for track in tracks if track.audio_url is not None]
    if not links:
        return None
    ends = [end for end in (outcomes.link_end(url, now=now) for url in links) if end is not None]
    return canonical.MusicResult(tracks=tracks, expires_at=min(ends, default=None))


def tracks_of(value: Any) -> tuple[canonical.Track, ...]:
    """Return the songs of a response; missing members and those of another type are None."""
    return tuple(
        canonical.Track(
            clip_id=outcomes.identifier(one.get("clip_id")),
            title=outcomes.text(one.get("title")),
            duration_sec=outcomes.number(one.get("duration_sec")),
            audio_url=outcomes.link(one.get("audio_url")),
            image_url=outcomes.link(one.get("image_url")),
            lyrics=outcomes.text(one.get("lyrics"), outcomes.LYRICS_CHARACTERS_MAX),
        )
        for one in outcomes.entries(value)[:TRACKS_MAX]
    )


def output_files(value: Any) -> list[Any] | None:
    """Return links, or objects of texts, numbers and links; None if there is none."""
    if not isinstance(value, list):
        return None
    kept: list[Any] = []
    for one in value[:OUTPUT_FILES_MAX]:
        if isinstance(one, dict):
            members = {
                name: outcomes.text(inner, 8192)
                if isinstance(inner, str)
                else outcomes.number(inner)
                for name, inner in one.items()
                if name.isprintable() and len(name) <= 64
            }
            kept.append({name: inner for name, inner in members.items() if inner is not None})
        elif (url := outcomes.link(one)) is not None:
            kept.append(url)
    return kept or None


# The plain wire as a dialect.


class Plain(model.BaseDialect):
    """Serves every protocol."""

    name = "plain"

    def submit(
        self, submission: canonical.Submission, *, idempotency_key: str
    ) -> model.Exchange[canonical.SubmitReply]:
        match submission:
            case canonical.MusicRequest():
                return plain_submit.music(submission, idempotency_key=idempotency_key)
            case canonical.SpeechRequest():
                return plain_submit.speech(submission, idempotency_key=idempotency_key)
            case canonical.VoiceRequest():
                return plain_submit.voice(submission, idempotency_key=idempotency_key)
            case canonical.AvatarRequest():
                return plain_submit.avatar(submission, idempotency_key=idempotency_key)
            case canonical.TranscriptRequest():
                return plain_submit.transcript(submission, idempotency_key=idempotency_key)
            case _:
                return plain_submit.video(submission, idempotency_key=idempotency_key)

    def poll(self, kind: model.TaskKind, upstream_id: str) -> model.Exchange[canonical.PollReply]:
        return poll(kind, upstream_id)

    def cancel(self, kind: model.TaskKind, upstream_id: str) -> model.Exchange[bool] | None:
        return cancel(kind, upstream_id)

    def templates(
        self, scene: str
    ) -> model.Exchange[canonical.CatalogReply[tuple[canonical.Template, ...]]] | None:
        return templates(scene)

    def template(
        self, template_id: str
    ) -> model.Exchange[canonical.CatalogReply[canonical.TemplateDetail]] | None:
        return template(template_id)

    def preset_avatars(
        self,
    ) -> model.Exchange[canonical.CatalogReply[tuple[canonical.PresetAvatar, ...]]] | None:
        return preset_avatars()

    def preset_voices(
        self,
    ) -> model.Exchange[canonical.CatalogReply[tuple[canonical.PresetVoice, ...]]] | None:
        return preset_voices()
