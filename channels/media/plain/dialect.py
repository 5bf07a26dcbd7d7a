"""The plain wire under the names that every dialect has."""

from __future__ import annotations

from channels.media.base import BaseDialect
from channels.media.model import Exchange, TaskKind
from channels.media.plain import catalog, poll, submit
from channels.media.replies import (
    CatalogReply,
    PollReply,
    PresetAvatar,
    PresetVoice,
    SubmitReply,
    Template,
    TemplateDetail,
)
from channels.media.requests import (
    AvatarRequest,
    MusicRequest,
    SpeechRequest,
    Submission,
    TranscriptRequest,
    VoiceRequest,
)


class Plain(BaseDialect):
    """Serves every protocol."""

    name = "plain"

    def submit(self, submission: Submission, *, idempotency_key: str) -> Exchange[SubmitReply]:
        match submission:
            case MusicRequest():
                return submit.music(submission, idempotency_key=idempotency_key)
            case SpeechRequest():
                return submit.speech(submission, idempotency_key=idempotency_key)
            case VoiceRequest():
                return submit.voice(submission, idempotency_key=idempotency_key)
            case AvatarRequest():
                return submit.avatar(submission, idempotency_key=idempotency_key)
            case TranscriptRequest():
                return submit.transcript(submission, idempotency_key=idempotency_key)
            case _:
                return submit.video(submission, idempotency_key=idempotency_key)

    def poll(self, kind: TaskKind, upstream_id: str) -> Exchange[PollReply]:
        return poll.poll(kind, upstream_id)

    def cancel(self, kind: TaskKind, upstream_id: str) -> Exchange[bool] | None:
        return poll.cancel(kind, upstream_id)

    def templates(self, scene: str) -> Exchange[CatalogReply[tuple[Template, ...]]] | None:
        return catalog.templates(scene)

    def template(self, template_id: str) -> Exchange[CatalogReply[TemplateDetail]] | None:
        return catalog.template(template_id)

    def preset_avatars(self) -> Exchange[CatalogReply[tuple[PresetAvatar, ...]]] | None:
        return catalog.preset_avatars()

    def preset_voices(self) -> Exchange[CatalogReply[tuple[PresetVoice, ...]]] | None:
        return catalog.preset_voices()
