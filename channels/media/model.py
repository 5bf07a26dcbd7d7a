"""An exchange with a media upstream, and the interface of a dialect.

An exchange is one request and the decoding of its response: to the reply, or to the next exchange
if a further request is needed (an image to register first, a next page, a file's link). `perform`
(`exchanges.py`) sends the requests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, Literal, NoReturn, Protocol, TypeAlias, TypeVar
from urllib.parse import quote

from msgspec import Struct

from channels.media import replies, requests

# Kinds with tasks that are polled. Voices and transcripts are awaited by the exchange that makes
# them.
TaskKind: TypeAlias = Literal["video", "music", "speech", "avatar"]
TASK_KINDS: tuple[TaskKind, ...] = ("video", "music", "speech", "avatar")

KIB, MIB = 1024, 1024 * 1024
# Limits of a response's body; a longer one is Unusable to a poll, Unknown to a submit. Bodies of
# tasks, usually a few hundred bytes, have the common limit (`max_body_mb`).
CATALOG_BYTES_MAX = MIB
TRANSCRIPT_BYTES_MAX = 2 * MIB
# A recording of the longest input takes some 15 MB as mp3.
AUDIO_BYTES_MAX = 32 * MIB
# Limit of an upstream's id of a task, an avatar, a voice or a file. No known one is longer than
# 100.
ID_CHARACTERS_MAX = 256


class MediaRequest(Struct, frozen=True, kw_only=True):
    """One request to a channel: relative to its base URL, without its credentials.

    `path` is absolute and percent-encoded, `query` is not encoded yet. `headers` are added to the
    channel's own; a `body` is JSON.
    """

    method: Literal["GET", "POST", "DELETE"]
    path: str
    query: tuple[tuple[str, str], ...] = ()
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class MediaResponse:
    """One whole response. `headers` are in lower case; `received_at` is in Unix seconds.

    `is_cut_off`: the body is longer than the exchange allows, and was not read to its end.
    """

    status: int
    headers: Mapping[str, str]
    body: bytes
    received_at: float
    is_cut_off: bool = False


R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange(Generic[R_co]):
    """A request, to send after so many seconds, and the decoding of its response.

    `read` never raises, whatever the upstream sends. `response_bytes_max` None: the common limit.
    `repeats`: the upstream has accepted the task before, so that a lost connection decides nothing;
    the same exchange is repeated after its pause, never on another channel.
    """

    request: MediaRequest
    read: Callable[[MediaResponse], R_co | Exchange[R_co]] = field(repr=False)
    response_bytes_max: int | None = None
    after_seconds: float = 0.0
    repeats: bool = False

    def __post_init__(self) -> None:
        assert self.after_seconds > 0 or not self.repeats  # it would block the event loop


class MediaDialect(Protocol):
    """Requests and responses of one kind of upstream: pure functions of their arguments."""

    @property
    def name(self) -> str:
        """Its name in a channel's `wire`."""

    def makes(self, submission: requests.Submission) -> bool:
        """Whether the upstream supports such a submission; others are never submitted."""

    def submit(
        self, submission: requests.Submission, *, idempotency_key: str
    ) -> Exchange[replies.SubmitReply]:
        """Submit a request for a result. The key is the task's id, or the call's."""

    def poll(self, kind: TaskKind, upstream_id: str) -> Exchange[replies.PollReply]:
        """Request a task's status."""

    def cancel(self, kind: TaskKind, upstream_id: str) -> Exchange[bool] | None:
        """Request the cancellation of a task, or the deletion of an avatar; whether it succeeded.

        None if the upstream supports neither.
        """

    def content(self, upstream_id: str) -> MediaRequest | None:
        """Return the request for the video of a task without link; None in other dialects."""

    def templates(
        self, scene: str
    ) -> Exchange[replies.CatalogReply[tuple[replies.Template, ...]]] | None:
        """Request the templates of a scene; None if the upstream has none."""

    def template(
        self, template_id: str
    ) -> Exchange[replies.CatalogReply[replies.TemplateDetail]] | None:
        """Request one template; Refused with 404 if it does not exist."""

    def preset_avatars(
        self,
    ) -> Exchange[replies.CatalogReply[tuple[replies.PresetAvatar, ...]]] | None:
        """Request the avatars that every account may use."""

    def preset_voices(
        self,
    ) -> Exchange[replies.CatalogReply[tuple[replies.PresetVoice, ...]]] | None:
        """Request the voices that every account may use."""


class BaseDialect:
    """Returns None for every optional part of a dialect.

    Each dialect is used for the protocols that `wire` allows it for; a submission of another kind
    is a programming error.
    """

    name = ""

    def makes(self, submission: requests.Submission) -> bool:
        return True

    def cancel(self, kind: TaskKind, upstream_id: str) -> Exchange[bool] | None:
        return None

    def content(self, upstream_id: str) -> MediaRequest | None:
        return None

    def templates(
        self, scene: str
    ) -> Exchange[replies.CatalogReply[tuple[replies.Template, ...]]] | None:
        return None

    def template(
        self, template_id: str
    ) -> Exchange[replies.CatalogReply[replies.TemplateDetail]] | None:
        return None

    def preset_avatars(
        self,
    ) -> Exchange[replies.CatalogReply[tuple[replies.PresetAvatar, ...]]] | None:
        return None

    def preset_voices(
        self,
    ) -> Exchange[replies.CatalogReply[tuple[replies.PresetVoice, ...]]] | None:
        return None

    def not_served(self, what: object) -> NoReturn:
        """Raise AssertionError: the configuration allows no such wire."""
        raise AssertionError(f"{self.name} has no {type(what).__name__} {what!r}")


def segment(identifier: str) -> str:
    """Quote an id as one segment of a path; it was checked by `identifier` (`values.py`)."""
    return quote(identifier, safe="")
