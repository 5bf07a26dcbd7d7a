"""The plain wire: an upstream with this gateway's own client API, usually another gateway."""

from __future__ import annotations

from channels.media import model, replies, requests
from channels.media.plain import submits
from channels.media.plain.lists import preset_avatars, preset_voices, template, templates
from channels.media.plain.polls import cancel, poll


class Plain(model.BaseDialect):
    """Serves every protocol."""

    name = "plain"

    def submit(
        self, submission: requests.Submission, *, idempotency_key: str
    ) -> model.Exchange[replies.SubmitReply]:
        match submission:
            case requests.MusicRequest():
                return submits.music(submission, idempotency_key=idempotency_key)
            case requests.SpeechRequest():
                return submits.speech(submission, idempotency_key=idempotency_key)
            case requests.VoiceRequest():
                return submits.voice(submission, idempotency_key=idempotency_key)
            case requests.AvatarRequest():
                return submits.avatar(submission, idempotency_key=idempotency_key)
            case requests.TranscriptRequest():
                return submits.transcript(submission, idempotency_key=idempotency_key)
            case _:
                return submits.video(submission, idempotency_key=idempotency_key)

    def poll(self, kind: model.TaskKind, upstream_id: str) -> model.Exchange[replies.PollReply]:
        return poll(kind, upstream_id)

    def cancel(self, kind: model.TaskKind, upstream_id: str) -> model.Exchange[bool] | None:
        return cancel(kind, upstream_id)

    def templates(
        self, scene: str
    ) -> model.Exchange[replies.CatalogReply[tuple[replies.Template, ...]]] | None:
        return templates(scene)

    def template(
        self, template_id: str
    ) -> model.Exchange[replies.CatalogReply[replies.TemplateDetail]] | None:
        return template(template_id)

    def preset_avatars(
        self,
    ) -> model.Exchange[replies.CatalogReply[tuple[replies.PresetAvatar, ...]]] | None:
        return preset_avatars()

    def preset_voices(
        self,
    ) -> model.Exchange[replies.CatalogReply[tuple[replies.PresetVoice, ...]]] | None:
        return preset_voices()
