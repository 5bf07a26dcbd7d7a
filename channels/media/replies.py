"""Replies of media upstreams, in the gateway's own form.

To a submit: Accepted, Done, Refused, Failed or Unknown. To a poll: Polled, RateLimited, NotFound,
Trouble or Unusable. To a request for a list: CatalogValue, or the failures of a submit. All texts
are bounded and storable (`channels/storable_text.py`), and not redacted yet
(`channels/redaction.py`).
"""

from __future__ import annotations

from typing import Annotated, Generic, Literal, TypeAlias, TypeVar

from msgspec import Meta, Struct

from channels.media.results import ImmediateResult, TaskResult

T = TypeVar("T")


class Accepted(Struct, frozen=True):
    """The upstream has begun a task with this id."""

    upstream_id: str


class Done(Struct, frozen=True):
    """The upstream has completed the request at once."""

    result: ImmediateResult


class Refused(Struct, frozen=True, kw_only=True):
    """The upstream refused the request: a 4xx to pass on, no other channel is tried.

    `status` is 400 to 499, the upstream's own or its dialect's equivalent. `is_rejected`: the
    material of the result was refused, in a request before the submit.
    """

    status: int
    message: str | None = None
    retry_after: str | None = None
    is_rejected: bool = False


class Failed(Struct, frozen=True, kw_only=True):
    """The upstream failed, and made nothing: the next channel may be tried.

    `status` is 500 to 599; of a submit not 504. `is_final`: it accepted the request and failed
    later, so that no other channel is tried. `is_unreachable`: no part of a response was received.
    """

    status: int
    message: str | None = None
    retry_after: str | None = None
    is_final: bool = False
    is_unreachable: bool = False


class Unknown(Struct, frozen=True, kw_only=True):
    """It is unknown whether the upstream accepted the request: it is not repeated.

    `status` is the client's: 504 for an upstream's 504, 502 for an unusable response. `reason` is
    for the log.
    """

    status: Literal[502, 504]
    reason: str


SubmitReply: TypeAlias = Accepted | Done | Refused | Failed | Unknown

# The states of the state tables. "cancelled" and "expired" are the upstream's decisions.
TaskState: TypeAlias = Literal["queued", "running", "succeeded", "failed", "cancelled", "expired"]


class TaskError(Struct, frozen=True, kw_only=True):
    """Why a task did not succeed: the upstream's code and message, or the gateway's defaults."""

    code: str
    message: str


class Polled(Struct, frozen=True, kw_only=True):
    """The upstream reported the state of the task.

    `state` None: an unknown one, which changes nothing. "succeeded" always has a `result`, other
    ends have an `error`: a success without a result is "failed", `no_result`. `seconds_ms` is the
    real length, above 0; `progress` 0 to 100.
    """

    state: TaskState | None
    word: str
    progress: int | None = None
    result: TaskResult | None = None
    seconds_ms: int | None = None
    error: TaskError | None = None

    def __post_init__(self) -> None:
        assert (self.state == "succeeded") == (self.result is not None)
        assert (self.state in ("failed", "cancelled", "expired")) == (self.error is not None)


class RateLimited(Struct, frozen=True):
    """The upstream requests a later poll: after 0 to 300 seconds, if it states a delay."""

    retry_after_seconds: float | None = None


class NotFound(Struct, frozen=True):
    """The upstream does not know the task."""


class Trouble(Struct, frozen=True, kw_only=True):
    """The upstream reported no state of the task. `reason` is for the log."""

    reason: str
    status: int | None = None


class Unusable(Struct, frozen=True, kw_only=True):
    """The response is a success that can never be used. `reason` is for the log."""

    reason: str


PollReply: TypeAlias = Polled | RateLimited | NotFound | Trouble | Unusable


class Template(Struct, frozen=True, kw_only=True):
    """A template in the list."""

    id: Annotated[str, Meta(description="The template's id.")]
    title: Annotated[str | None, Meta(description="Its title.")] = None
    cover: Annotated[str | None, Meta(description="A link to its picture.")] = None
    has_title: Annotated[bool, Meta(description="Whether it shows a title.")] = True
    has_persona: Annotated[bool, Meta(description="Whether it shows a speaker's card.")] = True


class Canvas(Struct, frozen=True, kw_only=True):
    """The size of a template's picture, in pixels."""

    width: Annotated[int | None, Meta(description="Pixels from left to right.")] = None
    height: Annotated[int | None, Meta(description="Pixels from top to bottom.")] = None
    ratio: Annotated[str | None, Meta(description="The shape, such as `9:16`.")] = None


class Layer(Struct, frozen=True, kw_only=True):
    """One layer of a template."""

    id: Annotated[str | None, Meta(description="The layer's id.")] = None
    type: Annotated[str | None, Meta(description="What it shows.")] = None
    name: Annotated[str | None, Meta(description="Its name.")] = None
    editable: Annotated[bool, Meta(description="Whether a film may change it.")] = False


class TemplateDetail(Template, frozen=True, kw_only=True):
    """A whole template."""

    scene: str | None = None
    canvas: Canvas | None = None
    layers: tuple[Layer, ...] = ()


class PresetAvatar(Struct, frozen=True, kw_only=True):
    """An avatar that all accounts may use."""

    id: Annotated[str, Meta(description="The avatar's id, for `avatar` of a film.")]
    name: Annotated[str, Meta(description="Its name.")]


class PresetVoice(Struct, frozen=True, kw_only=True):
    """A voice that all accounts may use."""

    id: str
    name: str
    language: str | None = None
    preview_url: str | None = None


class CatalogValue(Struct, Generic[T], frozen=True):
    """A list or an entry of a catalog."""

    value: T


# For an unknown template: Refused, 404.
CatalogReply: TypeAlias = CatalogValue[T] | Refused | Failed
