"""The `shanjian` dialect: avatars that speak, clips by template, cloned voices."""

from __future__ import annotations

from channels.media import model, replies, requests
from channels.media.shanjian.bodies import asked_body
from channels.media.shanjian.lists import preset_avatars, preset_voices, template, templates
from channels.media.shanjian.tasks import poll, submit


class Shanjian(model.BaseDialect):
    """Serves `avatars`, `clips` and `voices`."""

    name = "shanjian"

    def makes(self, submission: requests.Submission) -> bool:
        return asked_body(submission) is not None

    def submit(
        self, submission: requests.Submission, *, idempotency_key: str
    ) -> model.Exchange[replies.SubmitReply]:
        asked = asked_body(submission)
        if asked is None:
            self.not_served(submission)
        path, body = asked
        waits = isinstance(submission, requests.VoiceRequest)
        return submit(path, body, waits=waits, idempotency_key=idempotency_key)

    def poll(self, kind: model.TaskKind, upstream_id: str) -> model.Exchange[replies.PollReply]:
        return poll(kind, upstream_id)

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
