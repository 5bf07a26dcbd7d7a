"""The `shanjian` dialect: avatars that speak, clips by template, cloned voices.

Every response has the same envelope. In order: bodies, envelope, lists, submits and polls, dialect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar

from channels.dialects.error_body import message_in
from channels.json.lenient import read_loosely
from channels.media import canonical, model, outcomes
from channels.media.outcomes import polled
from channels.media.plain import UNREADABLE, canvas_of
from channels.media.plain_submit import encoded, post

# The bodies of submits, and their paths.

AVATAR_VIDEO = "/v1/virtualman/video"
CLIPS: Mapping[canonical.ClipScene, str] = MappingProxyType(
    {
        "realman": "/v1/clip/video/realman_broadcast",
        "mixcut": "/v1/clip/video/broadcast_mixcut",
        "news": "/v1/clip/video/news_mixcut",
    }
)
IMAGE_AVATAR = "/v1/virtualman/image/train"
VIDEO_AVATAR = "/v1/virtualman/fast/train"
VOICE = "/v1/voice/train"
LANGUAGE = "zh-CN"

Asked = tuple[str, dict[str, Any]]


def asked_body(submission: canonical.Submission) -> Asked | None:
    """Return path and body of a submit; None if this upstream does not support it."""
    match submission:
        case canonical.AvatarVideo():
            return AVATAR_VIDEO, _avatar_video(submission)
        case canonical.ClipVideo():
            return CLIPS[submission.scene], _clip(submission)
        case canonical.AvatarRequest(source_kind="video"):
            return VIDEO_AVATAR, {"videoUrl": submission.source_url}
        case canonical.AvatarRequest():
            return IMAGE_AVATAR, {"imageUrl": submission.source_url}
        case canonical.VoiceRequest():
            return VOICE, _voice(submission)
        case _:
            return None


def _without_nulls(**fields: Any) -> dict[str, Any]:
    """Return the fields without those that are None."""
    return {name: value for name, value in fields.items() if value is not None}


def _avatar_video(request: canonical.AvatarVideo) -> dict[str, Any]:
    return _without_nulls(
        virtualmanId=request.avatar,
        audioUrl=request.audio_url,
        text=request.text,
        speakerId=request.voice,
    )


def _voice(request: canonical.VoiceRequest) -> dict[str, Any]:
    return _without_nulls(
        audioUrl=request.audio_url,
        model=request.model,
        language=LANGUAGE,
        demoText=request.text,
    )


def _clip(request: canonical.ClipVideo) -> dict[str, Any]:
    cover = request.cover_url
    process = _without_nulls(
        resourcePreprocessMethod=request.preprocess,
        materialComposition=request.material_composition,
        videoDuration=request.duration,
        firstFrameCover=None if cover is None else {"coverSwitch": True, "resultImageUrl": cover},
    )
    materials = [
        _without_nulls(type=one.type, fileUrl=one.file_url, soundSwitch=one.sound_switch)
        for one in request.materials
    ]
    music = None if request.bgm is None else {"backgroundMusic": _music(request.bgm)}
    return _without_nulls(
        styleId=request.style_id,
        videoUrl=request.source_video_url,
        audioUrl=request.audio_url,
        title=request.title,
        language=request.language,
        materials=materials or None,
        introduceCard=request.introduce_card,
        packRules=music,
        processRules=process or None,
    )


def _music(bgm: canonical.BackgroundMusic) -> dict[str, Any]:
    return _without_nulls(audioSwitch=bgm.mode != "none", audioUrl=bgm.url, volume=bgm.volume)


# The envelope of every response: `{code, message, data}`; its status is 200 for errors too.

GOOD = "succeed"
# The HTTP status of a code in lower case; any other is 400.
STATUSES: Mapping[str, int] = MappingProxyType(
    {
        "request.limit": 429,
        "concurrency.limit": 429,
        "service.error": 502,
        "failed.timeout": 502,
    }
)


def opened(
    response: model.MediaResponse,
) -> dict[str, Any] | canonical.Refused | canonical.Failed | canonical.Unknown:
    """Return the data of a submit's response, or its failure."""
    if not outcomes.is_ok(response):
        return outcomes.refusal(response)
    value = outcomes.json_of(response)
    code = outcomes.word(outcomes.member(value, "code")).lower()
    data = outcomes.member(value, "data")
    if code == GOOD and isinstance(data, dict):
        return data
    if code in ("", GOOD):
        return outcomes.unusable("no data")
    return reported(code, value)


def reported(code: str, value: Any) -> canonical.Refused | canonical.Failed:
    """Return the error of an envelope."""
    status, message = STATUSES.get(code, 400), message_in(value)
    if status < 500:
        return canonical.Refused(status=status, message=message)
    return canonical.Failed(status=status, message=message)


def opened_poll(
    response: model.MediaResponse,
) -> (
    dict[str, Any]
    | canonical.RateLimited
    | canonical.NotFound
    | canonical.Trouble
    | canonical.Unusable
):
    """Return the data of a poll's response, or its failure."""
    if (trouble := outcomes.poll_trouble(response)) is not None:
        return trouble
    value = outcomes.json_of(response)
    code = outcomes.word(outcomes.member(value, "code")).lower()
    data = outcomes.member(value, "data")
    if code == GOOD and isinstance(data, dict):
        return data
    if STATUSES.get(code) == 429:
        return canonical.RateLimited()
    return canonical.Trouble(
        reason=f"code {code}" if code else "no envelope", status=response.status
    )


# Templates, which are in pages, and the avatars and voices of every account.
#
# Only a template's details state whether it has a title and a persona, so they are requested one by
# one to complete a list, which the gateway caches.

TEMPLATES = "/v1/clip/template"
DETAIL = "/v1/clip/template/detail"
AVATARS = "/v1/assets/virtualman/common"
VOICES = "/v1/assets/voice/common"

PAGE_SIZE = 100
PAGES_MAX = 20
TEMPLATES_MAX = PAGES_MAX * PAGE_SIZE
# The most details requested for one list; later templates have every flag.
DETAILS_MAX = 300

_LAYER = "Layer"
_TITLE, _PERSONA = "headerLayer", "ipLayer"
_NO_TEMPLATE = canonical.Refused(status=404, message="There is no such template.")

T = TypeVar("T")
Entry = Mapping[str, Any]


def _get(
    path: str,
    read: Callable[[model.MediaResponse], T | model.Exchange[T]],
    query: tuple[tuple[str, str], ...] = (),
) -> model.Exchange[T]:
    request = model.MediaRequest(method="GET", path=path, query=query)
    return model.Exchange(request=request, read=read, response_bytes_max=model.CATALOG_BYTES_MAX)


def _data(
    response: model.MediaResponse,
) -> canonical.Refused | canonical.Failed | canonical.CatalogValue[Any]:
    """Return the data of an envelope, or its failure."""
    if not outcomes.is_ok(response):
        return outcomes.catalog_refusal(response)
    value = outcomes.json_of(response)
    code = outcomes.word(outcomes.member(value, "code")).lower()
    if code == GOOD:
        return canonical.CatalogValue(outcomes.member(value, "data"))
    return reported(code, value) if code else UNREADABLE


# --- Templates ---


@dataclass(frozen=True, slots=True)
class _Listing:
    """The templates read so far."""

    scene: str
    found: tuple[canonical.Template, ...] = ()
    seen: frozenset[str] = frozenset()  # the pages read
    checked: int = 0  # the number of `found` with known details


Templates = canonical.CatalogReply[tuple[canonical.Template, ...]]


def templates(scene: str) -> model.Exchange[Templates]:
    """Request the templates of a scene, page by page, then their details."""
    return _page(_Listing(scene), None)


def _page(listing: _Listing, sid: str | None) -> model.Exchange[Templates]:
    def read(response: model.MediaResponse) -> Templates | model.Exchange[Templates]:
        data = _data(response)
        if not isinstance(data, canonical.CatalogValue):
            return data
        results = outcomes.member(data.value, "results")
        if not isinstance(results, list):
            return UNREADABLE
        found = tuple(one for one in map(_template, outcomes.entries(results)) if one is not None)
        following = outcomes.identifier(outcomes.member(data.value, "sid"))
        seen = listing.seen | ({sid} if sid else set())
        grown = replace(
            listing, found=(listing.found + found)[:TEMPLATES_MAX], seen=frozenset(seen)
        )
        is_last = following is None or following in seen or not found
        if is_last or len(seen) + 1 >= PAGES_MAX:
            return _details(grown)
        return _page(grown, following)

    query = (("scene", listing.scene), ("pageSize", str(PAGE_SIZE)))
    return _get(TEMPLATES, read, query if sid is None else (*query, ("sid", sid)))


def _details(listing: _Listing) -> Templates | model.Exchange[Templates]:
    """Request the missing details; after a failure a template keeps every flag."""
    position = listing.checked
    if position >= min(len(listing.found), DETAILS_MAX):
        return canonical.CatalogValue(listing.found)
    template = listing.found[position]

    def read(response: model.MediaResponse) -> Templates | model.Exchange[Templates]:
        data = _data(response)
        flagged = template
        if (
            isinstance(data, canonical.CatalogValue)
            and (layers := _edit_info(data.value)) is not None
        ):
            flagged = _flagged(template, layers)
        found = (*listing.found[:position], flagged, *listing.found[position + 1 :])
        return _details(replace(listing, found=found, checked=position + 1))

    return _get(f"{DETAIL}/{model.segment(template.id)}", read)


def _template(value: Entry) -> canonical.Template | None:
    template_id = outcomes.identifier(value.get("id"))
    if template_id is None:
        return None
    return canonical.Template(
        id=template_id,
        title=outcomes.text(value.get("name")),
        cover=outcomes.link(value.get("coverUrl")),
    )


def _flagged(template: canonical.Template, layers: Entry) -> canonical.Template:
    return canonical.Template(
        id=template.id,
        title=template.title,
        cover=template.cover,
        has_title=bool(layers.get(_TITLE)),
        has_persona=bool(layers.get(_PERSONA)),
    )


def _edit_info(data: Any) -> Entry | None:
    """Return the layers of a template; some responses have them as JSON in a string."""
    structure = outcomes.member(data, "videoStructInfo")
    if isinstance(structure, str):
        structure = read_loosely(structure.encode("utf-8", "replace"), mends=False)
    found = outcomes.member(structure, "editInfo")
    return found if isinstance(found, Mapping) else None


def template(template_id: str) -> model.Exchange[canonical.CatalogReply[canonical.TemplateDetail]]:
    """Request one template."""

    def read(response: model.MediaResponse) -> canonical.CatalogReply[canonical.TemplateDetail]:
        data = _data(response)
        if isinstance(data, canonical.Refused) and data.status == 400:
            return _NO_TEMPLATE  # only the id can be at fault
        if not isinstance(data, canonical.CatalogValue):
            return data
        if not isinstance(data.value, Mapping):
            return _NO_TEMPLATE
        return canonical.CatalogValue(_detail(template_id, data.value))

    return _get(f"{DETAIL}/{model.segment(template_id)}", read)


def _detail(template_id: str, data: Entry) -> canonical.TemplateDetail:
    layers = _edit_info(data)
    canvas = outcomes.member(layers, "canvas")
    return canonical.TemplateDetail(
        id=template_id,
        title=outcomes.text(data.get("name")),
        cover=outcomes.link(data.get("coverUrl")),
        has_title=layers is None or bool(layers.get(_TITLE)),
        has_persona=layers is None or bool(layers.get(_PERSONA)),
        scene=outcomes.text(data.get("scene")),
        canvas=canvas_of(canvas) if isinstance(canvas, Mapping) else None,
        layers=() if layers is None else tuple(_layers(layers)),
    )


def _layers(edit_info: Entry) -> list[canonical.Layer]:
    """Return all layers; title and persona are editable."""
    found = []
    for name, value in edit_info.items():
        if not name.endswith(_LAYER):
            continue
        kind = outcomes.text(name.removesuffix(_LAYER))
        for one in outcomes.entries(value if isinstance(value, list) else [value]):
            found.append(
                canonical.Layer(
                    id=outcomes.identifier(one.get("id")),
                    type=kind,
                    name=outcomes.text(one.get("name")),
                    editable=name in (_TITLE, _PERSONA),
                )
            )
    return found


# --- Avatars and voices ---


def preset_avatars() -> model.Exchange[canonical.CatalogReply[tuple[canonical.PresetAvatar, ...]]]:
    """Request the avatars of every account."""
    return _get(AVATARS, lambda response: _all(response, "virtualmanId", _avatar))


def preset_voices() -> model.Exchange[canonical.CatalogReply[tuple[canonical.PresetVoice, ...]]]:
    """Request the voices of every account."""
    return _get(VOICES, lambda response: _all(response, "speakerId", _preset_voice))


def _all(
    response: model.MediaResponse, id_name: str, read: Callable[[str, Entry], T]
) -> canonical.CatalogReply[tuple[T, ...]]:
    """Return the entries of a list, or of an object's `results`."""
    data = _data(response)
    if not isinstance(data, canonical.CatalogValue):
        return data
    results = data.value if isinstance(data.value, list) else outcomes.member(data.value, "results")
    if not isinstance(results, list):
        return UNREADABLE
    with_ids = (
        (outcomes.identifier(one.get(id_name)) or outcomes.identifier(one.get("id")), one)
        for one in outcomes.entries(results)
    )
    return canonical.CatalogValue(
        tuple(read(one_id, one) for one_id, one in with_ids if one_id is not None)
    )


def _avatar(avatar_id: str, value: Entry) -> canonical.PresetAvatar:
    return canonical.PresetAvatar(id=avatar_id, name=outcomes.text(value.get("name")) or avatar_id)


def _preset_voice(voice_id: str, value: Entry) -> canonical.PresetVoice:
    return canonical.PresetVoice(
        id=voice_id,
        name=outcomes.text(value.get("name")) or voice_id,
        language=outcomes.text(value.get("language")),
        preview_url=outcomes.link(value.get("demoUrl")) or outcomes.link(value.get("audioUrl")),
    )


# Submits and polls: everything is a task, also a voice, which the submit awaits.

TASK = "/v1/task/info"
LINK_SECONDS = 24 * 3600.0
# The pause between two polls of a voice.
VOICE_PAUSE_SECONDS = 1.0


def submit(
    path: str, body: dict[str, Any], *, waits: bool, idempotency_key: str
) -> model.Exchange[canonical.SubmitReply]:
    """Submit a request; `waits`: poll a voice until it is complete."""
    read = partial(_submitted, waits)
    return post(path, encoded(body), read, idempotency_key=idempotency_key)


def _submitted(
    waits: bool, response: model.MediaResponse
) -> canonical.SubmitReply | model.Exchange[canonical.SubmitReply]:
    data = opened(response)
    if not isinstance(data, dict):
        return data
    upstream_id = outcomes.identifier(data.get("taskId"))
    if upstream_id is None:
        return outcomes.unusable("no taskId")
    return _waiting(upstream_id) if waits else canonical.Accepted(upstream_id)


def poll(kind: model.TaskKind, upstream_id: str) -> model.Exchange[canonical.PollReply]:
    """Request a task's status."""
    return model.Exchange(request=_question(upstream_id), read=partial(_read, kind))


def _question(upstream_id: str) -> model.MediaRequest:
    return model.MediaRequest(method="GET", path=TASK, query=(("taskId", upstream_id),))


def _read(kind: model.TaskKind, response: model.MediaResponse) -> canonical.PollReply:
    data = opened_poll(response)
    if not isinstance(data, dict):
        return data
    result = _result(kind, data.get("result"), now=response.received_at)
    return _polled(data, result)


def _polled(data: dict[str, Any], result: canonical.TaskResult | None) -> canonical.Polled:
    return polled(
        data.get("status"),
        result=result,
        seconds_ms=outcomes.milliseconds(outcomes.member(data, "result", "duration")),
        progress=data.get("progress"),
        error={"code": data.get("errorCode"), "message": data.get("errorMessage")},
    )


def _result(kind: model.TaskKind, result: Any, *, now: float) -> canonical.TaskResult | None:
    if kind == "avatar":
        upstream_id = outcomes.identifier(outcomes.member(result, "virtualmanId"))
        return None if upstream_id is None else canonical.AvatarResult(upstream_id=upstream_id)
    url = outcomes.link(outcomes.member(result, "videoUrl"))
    if url is None:
        return None
    return canonical.VideoResult(
        url=url, expires_at=outcomes.link_end(url, now=now, at_most=now + LINK_SECONDS)
    )


def _waiting(upstream_id: str) -> model.Exchange[canonical.SubmitReply]:
    """Poll a voice; poll again after any response that does not end it."""

    def read(
        response: model.MediaResponse,
    ) -> canonical.SubmitReply | model.Exchange[canonical.SubmitReply]:
        data = opened_poll(response)
        if isinstance(data, canonical.Unusable):
            return outcomes.unusable(data.reason)
        if not isinstance(data, dict):
            return waiting
        speaker = outcomes.identifier(outcomes.member(data, "result", "speakerId"))
        # Its status words are those of any other task.
        polled = _polled(
            data, None if speaker is None else canonical.AvatarResult(upstream_id=speaker)
        )
        if polled.state == "succeeded" and speaker is not None:
            return canonical.Done(canonical.VoiceResult(upstream_id=speaker))
        if polled.error is not None:
            return canonical.Failed(status=502, message=polled.error.message, is_final=True)
        return waiting

    waiting: model.Exchange[canonical.SubmitReply] = model.Exchange(
        request=_question(upstream_id),
        read=read,
        after_seconds=VOICE_PAUSE_SECONDS,
        repeats=True,
    )
    return waiting


# The `shanjian` dialect as an object.


class Shanjian(model.BaseDialect):
    """Serves `avatars`, `clips` and `voices`."""

    name = "shanjian"

    def makes(self, submission: canonical.Submission) -> bool:
        return asked_body(submission) is not None

    def submit(
        self, submission: canonical.Submission, *, idempotency_key: str
    ) -> model.Exchange[canonical.SubmitReply]:
        asked = asked_body(submission)
        if asked is None:
            self.not_served(submission)
        path, body = asked
        waits = isinstance(submission, canonical.VoiceRequest)
        return submit(path, body, waits=waits, idempotency_key=idempotency_key)

    def poll(self, kind: model.TaskKind, upstream_id: str) -> model.Exchange[canonical.PollReply]:
        return poll(kind, upstream_id)

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
