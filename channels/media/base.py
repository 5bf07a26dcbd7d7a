"""What a dialect has no way to is None: the parts that most dialects lack.

Each dialect is used for the protocols that `wire` allows it for; a submission of another kind is a
mistake of ours.
"""

from __future__ import annotations

from typing import NoReturn
from urllib.parse import quote

from channels.media.model import Exchange, MediaRequest, TaskKind
from channels.media.replies import (
    CatalogReply,
    PresetAvatar,
    PresetVoice,
    Template,
    TemplateDetail,
)
from channels.media.requests import Submission


class BaseDialect:
    """Returns None for everything that a dialect may lack."""

    name = ""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def makes(self, submission: Submission) -> bool:
        return True

    def cancel(self, kind: TaskKind, upstream_id: str) -> Exchange[bool] | None:
        return None

    def content(self, upstream_id: str) -> MediaRequest | None:
        return None

    def templates(self, scene: str) -> Exchange[CatalogReply[tuple[Template, ...]]] | None:
        return None

    def template(self, template_id: str) -> Exchange[CatalogReply[TemplateDetail]] | None:
        return None

    def preset_avatars(self) -> Exchange[CatalogReply[tuple[PresetAvatar, ...]]] | None:
        return None

    def preset_voices(self) -> Exchange[CatalogReply[tuple[PresetVoice, ...]]] | None:
        return None

    def not_served(self, what: object) -> NoReturn:
        """The configuration allows no such wire, so this is never called."""
        raise AssertionError(f"{self.name} has no {type(what).__name__} {what!r}")


def segment(identifier: str) -> str:
    """An id as one segment of a path."""
    return quote(identifier, safe="")
