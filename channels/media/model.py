"""An exchange with a media upstream, the interface of a dialect, and how exchanges are performed.

An exchange is one request and the decoding of its response: to the reply, or to the next exchange
if a further request is needed (an image to register first, a next page, a file's link). `perform`
sends the requests; its caller manages time, slots and channels.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Generic, Literal, NoReturn, Protocol, TypeAlias, TypeVar
from urllib.parse import quote, urlencode

from msgspec import Struct

from channels.authorizers.authorizers import authorizer_of
from channels.credentials import Credentials, bearer, credentials_of
from channels.errors import UpstreamError, UpstreamMalformed
from channels.exact_redaction import ExactRedaction
from channels.http.interfaces import UpstreamClient, UpstreamRequest, UpstreamResponse
from channels.media import canonical
from channels.redaction import redaction_of
from channels.registry import ChannelSpec

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

    def makes(self, submission: canonical.Submission) -> bool:
        """Whether the upstream supports such a submission; others are never submitted."""

    def submit(
        self, submission: canonical.Submission, *, idempotency_key: str
    ) -> Exchange[canonical.SubmitReply]:
        """Submit a request for a result. The key is the task's id, or the call's."""

    def poll(self, kind: TaskKind, upstream_id: str) -> Exchange[canonical.PollReply]:
        """Request a task's status."""

    def cancel(self, kind: TaskKind, upstream_id: str) -> Exchange[bool] | None:
        """Request the cancellation of a task, or the deletion of an avatar; whether it succeeded.

        None if the upstream supports neither.
        """

    def content(self, upstream_id: str) -> MediaRequest | None:
        """Return the request for the video of a task without link; None in other dialects."""

    def templates(
        self, scene: str
    ) -> Exchange[canonical.CatalogReply[tuple[canonical.Template, ...]]] | None:
        """Request the templates of a scene; None if the upstream has none."""

    def template(
        self, template_id: str
    ) -> Exchange[canonical.CatalogReply[canonical.TemplateDetail]] | None:
        """Request one template; Refused with 404 if it does not exist."""

    def preset_avatars(
        self,
    ) -> Exchange[canonical.CatalogReply[tuple[canonical.PresetAvatar, ...]]] | None:
        """Request the avatars that every account may use."""

    def preset_voices(
        self,
    ) -> Exchange[canonical.CatalogReply[tuple[canonical.PresetVoice, ...]]] | None:
        """Request the voices that every account may use."""


# Defaults for the parts that most dialects lack: None.
#
# Each dialect is used for the protocols that `wire` allows it for; a submission of another kind is
# a programming error.


class BaseDialect:
    """Returns None for every optional part of a dialect."""

    name = ""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"

    def makes(self, submission: canonical.Submission) -> bool:
        return True

    def cancel(self, kind: TaskKind, upstream_id: str) -> Exchange[bool] | None:
        return None

    def content(self, upstream_id: str) -> MediaRequest | None:
        return None

    def templates(
        self, scene: str
    ) -> Exchange[canonical.CatalogReply[tuple[canonical.Template, ...]]] | None:
        return None

    def template(
        self, template_id: str
    ) -> Exchange[canonical.CatalogReply[canonical.TemplateDetail]] | None:
        return None

    def preset_avatars(
        self,
    ) -> Exchange[canonical.CatalogReply[tuple[canonical.PresetAvatar, ...]]] | None:
        return None

    def preset_voices(
        self,
    ) -> Exchange[canonical.CatalogReply[tuple[canonical.PresetVoice, ...]]] | None:
        return None

    def not_served(self, what: object) -> NoReturn:
        """Raise AssertionError: the configuration allows no such wire."""
        raise AssertionError(f"{self.name} has no {type(what).__name__} {what!r}")


def segment(identifier: str) -> str:
    """Quote an id as one segment of a path; it was checked by `identifier` (`outcomes.py`)."""
    return quote(identifier, safe="")


# One request of an exchange to a channel, over HTTP.
#
# The channel's address and credentials are added here; dialects know neither.

# The headers of a response that dialects read.
HEADERS_READ = ("content-type", "retry-after")


def addressed(channel: ChannelSpec, request: MediaRequest) -> UpstreamRequest:
    """Return the request with the channel's address and credentials."""
    credentials: Credentials | None = channel.derived.get(addressed)
    if credentials is None:
        credentials = channel.derived[addressed] = credentials_of(channel, bearer, channel.api_key)
    url = f"{channel.base_url}{request.path}"
    if request.query:
        url = f"{url}?{urlencode(request.query)}"
    headers = (*credentials.key_headers, *credentials.others(request.headers), *credentials.fixed)
    if request.body:
        headers = (*headers, ("Content-Type", "application/json"))
    url = credentials.url(url)
    key = channel.ring.keys[0]  # the others do not know its tasks
    return UpstreamRequest(
        request.method,
        url,
        headers,
        request.body,
        channel.transport,
        key,
        authorizer_of(channel),
    )


async def send(
    http: UpstreamClient,
    channel: ChannelSpec,
    request: MediaRequest,
    response_bytes_max: int,
    *,
    now: Callable[[], float],
) -> MediaResponse:
    """Send a request and read its whole response, with the channel's secrets redacted.

    A longer response is cut off.

    Raises UpstreamUnreachable and UpstreamCut. Cancelling it closes the connection.
    """
    sent = addressed(channel, request)
    response = await http.open(sent)
    if response.status >= 400:
        sent.took_status(response.status)
    try:
        is_cut_off = False
        redaction = redaction_of(channel)
        try:
            body = await redaction.redact_whole(await response.read(response_bytes_max))
        except UpstreamMalformed:
            body, is_cut_off = b"", True
        return MediaResponse(
            status=response.status,
            headers=_read(response, redaction),
            body=body,
            received_at=now(),
            is_cut_off=is_cut_off,
        )
    finally:
        response.close()


def _read(response: UpstreamResponse, redaction: ExactRedaction) -> dict[str, str]:
    found = {name: response.header(name) for name in HEADERS_READ}
    return {
        name: redaction.redacted_text(value) for name, value in found.items() if value is not None
    }


# Performs a whole exchange with the caller's functions to send and to sleep.

R = TypeVar("R")


async def perform(
    exchange: Exchange[R],
    send: Callable[[MediaRequest, int], Awaitable[MediaResponse]],
    sleep: Callable[[float], Awaitable[None]],
    *,
    body_bytes_max: int,
) -> R:
    """Return the reply, after as many requests as it takes; the caller limits the time.

    `send` gets a request and the maximum size of its response, `body_bytes_max` if the exchange
    sets none; its errors are raised, except an UpstreamError of an exchange that repeats.
    """
    while True:
        if exchange.after_seconds:
            await sleep(exchange.after_seconds)
        try:
            bytes_max = exchange.response_bytes_max
            response = await send(
                exchange.request, body_bytes_max if bytes_max is None else bytes_max
            )
        except UpstreamError:
            if not exchange.repeats:
                raise
            continue
        outcome = exchange.read(response)
        if not isinstance(outcome, Exchange):
            return outcome
        exchange = outcome
