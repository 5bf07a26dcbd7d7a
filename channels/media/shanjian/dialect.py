"""The `shanjian` dialect under the names that every dialect has."""

from __future__ import annotations

from channels.media.base import BaseDialect
from channels.media.model import Exchange, TaskKind
from channels.media.replies import (
    CatalogReply,
    PollReply,
    PresetAvatar,
    PresetVoice,
    SubmitReply,
    Template,
    TemplateDetail,
)
from channels.media.requests import Submission, VoiceRequest
from channels.media.shanjian import bodies, catalog, tasks


class Shanjian(BaseDialect):
    """Serves `avatars`, `clips` and `voices`."""

    name = "shanjian"

    def makes(self, submission: Submission) -> bool:
        return bodies.asked(submission) is not None

    def submit(self, submission: Submission, *, idempotency_key: str) -> Exchange[SubmitReply]:
        asked = bodies.asked(submission)
        if asked is None:
            self.not_served(submission)
        path, body = asked
        waits = isinstance(submission, VoiceRequest)
        return tasks.submit(path, body, waits=waits, idempotency_key=idempotency_key)

    def poll(self, kind: TaskKind, upstream_id: str) -> Exchange[PollReply]:
        return tasks.poll(kind, upstream_id)

    def templates(self, scene: str) -> Exchange[CatalogReply[tuple[Template, ...]]] | None:
        return catalog.templates(scene)

    def template(self, template_id: str) -> Exchange[CatalogReply[TemplateDetail]] | None:
        return catalog.template(template_id)

    def preset_avatars(self) -> Exchange[CatalogReply[tuple[PresetAvatar, ...]]] | None:
        return catalog.preset_avatars()

    def preset_voices(self) -> Exchange[CatalogReply[tuple[PresetVoice, ...]]] | None:
        return catalog.preset_voices()
