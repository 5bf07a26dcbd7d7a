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
from channels.media.canonical import (
    Accepted,
    AvatarRequest,
    AvatarResult,
    AvatarVideo,
    BackgroundMusic,
    CatalogReply,
    CatalogValue,
    ClipScene,
    ClipVideo,
    Done,
    Failed,
    Layer,
    NotFound,
    Polled,
    PollReply,
    PresetAvatar,
    PresetVoice,
    RateLimited,
    Refused,
    Submission,
    SubmitReply,
    TaskResult,
    Template,
    TemplateDetail,
    Trouble,
    Unknown,
    Unusable,
    VideoResult,
    VoiceRequest,
    VoiceResult,
)
from channels.media.model import (
    CATALOG_BYTES_MAX,
    BaseDialect,
    Exchange,
    MediaRequest,
    MediaResponse,
    TaskKind,
    segment,
)
from channels.media.outcomes import (
    catalog_refusal,
    entries,
    identifier,
    is_ok,
    json_of,
    link,
    link_end,
    member,
    milliseconds,
    poll_trouble,
    polled,
    refusal,
    text,
    unusable,
    word,
)
from channels.media.plain import UNREADABLE, canvas_of
from channels.media.plain_submit import encoded, post

# The bodies of submits, and their paths.

AVATAR_VIDEO = "/v1/virtualman/video"
CLIPS: Mapping[ClipScene, str] = MappingProxyType(
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


def asked_body(submission: Submission) -> Asked | None:
    """Return path and body of a submit; None if this upstream does not support it."""
    match submission:
        case AvatarVideo():
            return AVATAR_VIDEO, _avatar_video(submission)
        case ClipVideo():
            return CLIPS[submission.scene], _clip(submission)
        case AvatarRequest(source_kind="video"):
            return VIDEO_AVATAR, {"videoUrl": submission.source_url}
        case AvatarRequest():
            return IMAGE_AVATAR, {"imageUrl": submission.source_url}
        case VoiceRequest():
            return VOICE, _voice(submission)
        case _:
            return None


def _without_nulls(**fields: Any) -> dict[str, Any]:
    """Return the fields without those that are None."""
    return {name: value for name, value in fields.items() if value is not None}


def _avatar_video(request: AvatarVideo) -> dict[str, Any]:
    return _without_nulls(
        virtualmanId=request.avatar,
        audioUrl=request.audio_url,
        text=request.text,
        speakerId=request.voice,
    )


def _voice(request: VoiceRequest) -> dict[str, Any]:
    return _without_nulls(
        audioUrl=request.audio_url,
        model=request.model,
        language=LANGUAGE,
        demoText=request.text,
    )


def _clip(request: ClipVideo) -> dict[str, Any]:
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


def _music(bgm: BackgroundMusic) -> dict[str, Any]:
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


def opened(response: MediaResponse) -> dict[str, Any] | Refused | Failed | Unknown:
    """Return the data of a submit's response, or its failure."""
    if not is_ok(response):
        return refusal(response)
    value = json_of(response)
    code = word(member(value, "code")).lower()
    data = member(value, "data")
    if code == GOOD and isinstance(data, dict):
        return data
    if code in ("", GOOD):
        return unusable("no data")
    return reported(code, value)


def reported(code: str, value: Any) -> Refused | Failed:
    """Return the error of an envelope."""
    status, message = STATUSES.get(code, 400), message_in(value)
    if status < 500:
        return Refused(status=status, message=message)
    return Failed(status=status, message=message)


def opened_poll(
    response: MediaResponse,
) -> dict[str, Any] | RateLimited | NotFound | Trouble | Unusable:
    """Return the data of a poll's response, or its failure."""
    if (trouble := poll_trouble(response)) is not None:
        return trouble
    value = json_of(response)
    code = word(member(value, "code")).lower()
    data = member(value, "data")
    if code == GOOD and isinstance(data, dict):
        return data
    if STATUSES.get(code) == 429:
        return RateLimited()
    return Trouble(reason=f"code {code}" if code else "no envelope", status=response.status)


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
_NO_TEMPLATE = Refused(status=404, message="There is no such template.")

T = TypeVar("T")
Entry = Mapping[str, Any]


def _get(
    path: str,
    read: Callable[[MediaResponse], T | Exchange[T]],
    query: tuple[tuple[str, str], ...] = (),
) -> Exchange[T]:
    request = MediaRequest(method="GET", path=path, query=query)
    return Exchange(request=request, read=read, response_bytes_max=CATALOG_BYTES_MAX)


def _data(response: MediaResponse) -> Refused | Failed | CatalogValue[Any]:
    """Return the data of an envelope, or its failure."""
    if not is_ok(response):
        return catalog_refusal(response)
    value = json_of(response)
    code = word(member(value, "code")).lower()
    if code == GOOD:
        return CatalogValue(member(value, "data"))
    return reported(code, value) if code else UNREADABLE


# --- Templates ---


@dataclass(frozen=True, slots=True)
class _Listing:
    """The templates read so far."""

    scene: str
    found: tuple[Template, ...] = ()
    seen: frozenset[str] = frozenset()  # the pages read
    checked: int = 0  # the number of `found` with known details


Templates = CatalogReply[tuple[Template, ...]]


def templates(scene: str) -> Exchange[Templates]:
    """Request the templates of a scene, page by page, then their details."""
    return _page(_Listing(scene), None)


def _page(listing: _Listing, sid: str | None) -> Exchange[Templates]:
    def read(response: MediaResponse) -> Templates | Exchange[Templates]:
        data = _data(response)
        if not isinstance(data, CatalogValue):
            return data
        results = member(data.value, "results")
        if not isinstance(results, list):
            return UNREADABLE
        found = tuple(one for one in map(_template, entries(results)) if one is not None)
        following = identifier(member(data.value, "sid"))
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


def _details(listing: _Listing) -> Templates | Exchange[Templates]:
    """Request the missing details; after a failure a template keeps every flag."""
    position = listing.checked
    if position >= min(len(listing.found), DETAILS_MAX):
        return CatalogValue(listing.found)
    template = listing.found[position]

    def read(response: MediaResponse) -> Templates | Exchange[Templates]:
        data = _data(response)
        flagged = template
        if isinstance(data, CatalogValue) and (layers := _edit_info(data.value)) is not None:
            flagged = _flagged(template, layers)
        found = (*listing.found[:position], flagged, *listing.found[position + 1 :])
        return _details(replace(listing, found=found, checked=position + 1))

    return _get(f"{DETAIL}/{segment(template.id)}", read)


def _template(value: Entry) -> Template | None:
    template_id = identifier(value.get("id"))
    if template_id is None:
        return None
    return Template(
        id=template_id, title=text(value.get("name")), cover=link(value.get("coverUrl"))
    )


def _flagged(template: Template, layers: Entry) -> Template:
    return Template(
        id=template.id,
        title=template.title,
        cover=template.cover,
        has_title=bool(layers.get(_TITLE)),
        has_persona=bool(layers.get(_PERSONA)),
    )


def _edit_info(data: Any) -> Entry | None:
    """Return the layers of a template; some responses have them as JSON in a string."""
    structure = member(data, "videoStructInfo")
    if isinstance(structure, str):
        structure = read_loosely(structure.encode("utf-8", "replace"), mends=False)
    found = member(structure, "editInfo")
    return found if isinstance(found, Mapping) else None


def template(template_id: str) -> Exchange[CatalogReply[TemplateDetail]]:
    """Request one template."""

    def read(response: MediaResponse) -> CatalogReply[TemplateDetail]:
        data = _data(response)
        if isinstance(data, Refused) and data.status == 400:
            return _NO_TEMPLATE  # only the id can be at fault
        if not isinstance(data, CatalogValue):
            return data
        if not isinstance(data.value, Mapping):
            return _NO_TEMPLATE
        return CatalogValue(_detail(template_id, data.value))

    return _get(f"{DETAIL}/{segment(template_id)}", read)


def _detail(template_id: str, data: Entry) -> TemplateDetail:
    layers = _edit_info(data)
    canvas = member(layers, "canvas")
    return TemplateDetail(
        id=template_id,
        title=text(data.get("name")),
        cover=link(data.get("coverUrl")),
        has_title=layers is None or bool(layers.get(_TITLE)),
        has_persona=layers is None or bool(layers.get(_PERSONA)),
        scene=text(data.get("scene")),
        canvas=canvas_of(canvas) if isinstance(canvas, Mapping) else None,
        layers=() if layers is None else tuple(_layers(layers)),
    )


def _layers(edit_info: Entry) -> list[Layer]:
    """Return all layers; title and persona are editable."""
    found = []
    for name, value in edit_info.items():
        if not name.endswith(_LAYER):
            continue
        kind = text(name.removesuffix(_LAYER))
        for one in entries(value if isinstance(value, list) else [value]):
            found.append(
                Layer(
                    id=identifier(one.get("id")),
                    type=kind,
                    name=text(one.get("name")),
                    editable=name in (_TITLE, _PERSONA),
                )
            )
    return found


# --- Avatars and voices ---


def preset_avatars() -> Exchange[CatalogReply[tuple[PresetAvatar, ...]]]:
    """Request the avatars of every account."""
    return _get(AVATARS, lambda response: _all(response, "virtualmanId", _avatar))


def preset_voices() -> Exchange[CatalogReply[tuple[PresetVoice, ...]]]:
    """Request the voices of every account."""
    return _get(VOICES, lambda response: _all(response, "speakerId", _preset_voice))


def _all(
    response: MediaResponse, id_name: str, read: Callable[[str, Entry], T]
) -> CatalogReply[tuple[T, ...]]:
    """Return the entries of a list, or of an object's `results`."""
    data = _data(response)
    if not isinstance(data, CatalogValue):
        return data
    results = data.value if isinstance(data.value, list) else member(data.value, "results")
    if not isinstance(results, list):
        return UNREADABLE
    with_ids = (
        (identifier(one.get(id_name)) or identifier(one.get("id")), one) for one in entries(results)
    )
    return CatalogValue(tuple(read(one_id, one) for one_id, one in with_ids if one_id is not None))


def _avatar(avatar_id: str, value: Entry) -> PresetAvatar:
    return PresetAvatar(id=avatar_id, name=text(value.get("name")) or avatar_id)


def _preset_voice(voice_id: str, value: Entry) -> PresetVoice:
    return PresetVoice(
        id=voice_id,
        name=text(value.get("name")) or voice_id,
        language=text(value.get("language")),
        preview_url=link(value.get("demoUrl")) or link(value.get("audioUrl")),
    )


# Submits and polls: everything is a task, also a voice, which the submit awaits.

TASK = "/v1/task/info"
LINK_SECONDS = 24 * 3600.0
# The pause between two polls of a voice.
VOICE_PAUSE_SECONDS = 1.0


def submit(
    path: str, body: dict[str, Any], *, waits: bool, idempotency_key: str
) -> Exchange[SubmitReply]:
    """Submit a request; `waits`: poll a voice until it is complete."""
    read = partial(_submitted, waits)
    return post(path, encoded(body), read, idempotency_key=idempotency_key)


def _submitted(waits: bool, response: MediaResponse) -> SubmitReply | Exchange[SubmitReply]:
    data = opened(response)
    if not isinstance(data, dict):
        return data
    upstream_id = identifier(data.get("taskId"))
    if upstream_id is None:
        return unusable("no taskId")
    return _waiting(upstream_id) if waits else Accepted(upstream_id)


def poll(kind: TaskKind, upstream_id: str) -> Exchange[PollReply]:
    """Request a task's status."""
    return Exchange(request=_question(upstream_id), read=partial(_read, kind))


def _question(upstream_id: str) -> MediaRequest:
    return MediaRequest(method="GET", path=TASK, query=(("taskId", upstream_id),))


def _read(kind: TaskKind, response: MediaResponse) -> PollReply:
    data = opened_poll(response)
    if not isinstance(data, dict):
        return data
    result = _result(kind, data.get("result"), now=response.received_at)
    return _polled(data, result)


def _polled(data: dict[str, Any], result: TaskResult | None) -> Polled:
    return polled(
        data.get("status"),
        result=result,
        seconds_ms=milliseconds(member(data, "result", "duration")),
        progress=data.get("progress"),
        error={"code": data.get("errorCode"), "message": data.get("errorMessage")},
    )


def _result(kind: TaskKind, result: Any, *, now: float) -> TaskResult | None:
    if kind == "avatar":
        upstream_id = identifier(member(result, "virtualmanId"))
        return None if upstream_id is None else AvatarResult(upstream_id=upstream_id)
    url = link(member(result, "videoUrl"))
    if url is None:
        return None
    return VideoResult(url=url, expires_at=link_end(url, now=now, at_most=now + LINK_SECONDS))


def _waiting(upstream_id: str) -> Exchange[SubmitReply]:
    """Poll a voice; poll again after any response that does not end it."""

    def read(response: MediaResponse) -> SubmitReply | Exchange[SubmitReply]:
        data = opened_poll(response)
        if isinstance(data, Unusable):
            return unusable(data.reason)
        if not isinstance(data, dict):
            return waiting
        speaker = identifier(member(data, "result", "speakerId"))
        # Its status words are those of any other task.
        polled = _polled(data, None if speaker is None else AvatarResult(upstream_id=speaker))
        if polled.state == "succeeded" and speaker is not None:
            return Done(VoiceResult(upstream_id=speaker))
        if polled.error is not None:
            return Failed(status=502, message=polled.error.message, is_final=True)
        return waiting

    waiting: Exchange[SubmitReply] = Exchange(
        request=_question(upstream_id),
        read=read,
        after_seconds=VOICE_PAUSE_SECONDS,
        repeats=True,
    )
    return waiting


# The `shanjian` dialect as an object.


class Shanjian(BaseDialect):
    """Serves `avatars`, `clips` and `voices`."""

    name = "shanjian"

    def makes(self, submission: Submission) -> bool:
        return asked_body(submission) is not None

    def submit(self, submission: Submission, *, idempotency_key: str) -> Exchange[SubmitReply]:
        asked = asked_body(submission)
        if asked is None:
            self.not_served(submission)
        path, body = asked
        waits = isinstance(submission, VoiceRequest)
        return submit(path, body, waits=waits, idempotency_key=idempotency_key)

    def poll(self, kind: TaskKind, upstream_id: str) -> Exchange[PollReply]:
        return poll(kind, upstream_id)

    def templates(self, scene: str) -> Exchange[CatalogReply[tuple[Template, ...]]] | None:
        return templates(scene)

    def template(self, template_id: str) -> Exchange[CatalogReply[TemplateDetail]] | None:
        return template(template_id)

    def preset_avatars(self) -> Exchange[CatalogReply[tuple[PresetAvatar, ...]]] | None:
        return preset_avatars()

    def preset_voices(self) -> Exchange[CatalogReply[tuple[PresetVoice, ...]]] | None:
        return preset_voices()
