"""`/v1/videos/generations`: videos are submitted, polled and listed.

Reference 7.4, 7.5.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, NoReturn, NotRequired, TypedDict

from msgspec import Meta
from msgspec.structs import replace

from actors.catalogs import CatalogUnavailable
from actors.jobs.job import Job
from actors.jobs.service import new_job_id
from actors.wallet.piece_prices import MediaPrice
from channels.media.requests import AvatarVideo, Video
from channels.media.results import VideoResult
from gw.api import task_lists, task_shapes
from gw.api.failures import unavailable
from gw.api.handler import ApiHandler
from gw.api.keyed_handler import KeyedHandler
from gw.api.media_submit import MediaSubmit, media_of
from gw.api.model_call import ModelCall
from gw.api.references import avatar_of, voice_of
from gw.calls.media_calls import Pin
from gw.errors import GatewayError, unserved
from gw.media import task_list
from gw.media.fields import model_of
from gw.media.film_length import held_milliseconds, priced_resolution, unreported_milliseconds
from gw.media.videos import read_video
from gw.upstream_errors import as_http_status

# Returns the link to a job's film served by the gateway, valid until an instant (Unix seconds).
ContentLink = Callable[[Job, float], str]


class VideoTask(TypedDict):
    """A film that is made, or was."""

    id: task_shapes.TaskId
    status: Annotated[
        str,
        Meta(
            description="Where it is; the last four are final.",
            extra_json_schema={"enum": list(task_list.VIDEOS.states)},
        ),
    ]
    model: task_shapes.TaskModel
    created_at: task_shapes.SubmittedAt
    progress: NotRequired[
        Annotated[
            int,
            Meta(ge=0, le=100, description="Per cent, before its end, if the upstream says so."),
        ]
    ]
    video_url: NotRequired[
        Annotated[str, Meta(description="A link to the film, on success; a list renews it.")]
    ]
    expires_at: NotRequired[task_shapes.ExpiresAt]
    duration: NotRequired[
        Annotated[int | float, Meta(description="The film's seconds, which are billed.")]
    ]
    output_files: NotRequired[
        Annotated[list[Any], Meta(description="Further files, of models that make subtitles.")]
    ]
    error: NotRequired[task_shapes.TaskFailure]


class VideoTasks(TypedDict):
    """A list of tasks."""

    data: Annotated[list[VideoTask], Meta(description="The tasks, newest first.")]


def shown(job: Job, content_link: ContentLink) -> VideoTask:
    """Return the members of a task; `content_link` makes links to films that have none."""
    members: VideoTask = {
        "id": job.id,
        "status": job.state,
        "model": job.model,
        "created_at": int(job.submitted_at),
    }
    if job.progress is not None and not job.has_ended:
        members["progress"] = job.progress
    result = job.result
    if isinstance(result, VideoResult):
        assert result.expires_at is not None
        members["video_url"] = result.url or content_link(job, result.expires_at)
        members["expires_at"] = int(result.expires_at)
        if result.milliseconds is not None:
            members["duration"] = _seconds(result.milliseconds)
        if result.output_files:
            members["output_files"] = result.output_files
    if (error := task_lists.error_of(job)) is not None:
        members["error"] = error
    return members


def _seconds(milliseconds: int) -> int | float:
    whole, rest = divmod(milliseconds, 1000)
    return milliseconds / 1000 if rest else whole


# Ids of models whose errors are 404 and 403 (reference 1.7).
HUMANS_AND_CLIPS = ("dh-", "clip-")


class VideosHandler(KeyedHandler):
    """Submits videos for their price, and lists them for free."""

    async def on_get(self) -> None:
        self.write(await task_lists.listed(self, "video", task_list.VIDEOS, _shown_by(self)))

    async def on_submit(self, begun: ModelCall, /) -> None:
        media, submit = media_of(self), MediaSubmit(begun, "video")
        request = await self._read(submit)
        request, pins = await self._referenced(request)
        price = MediaPrice.of(submit.model, resolution=priced_resolution(request))
        held = held_milliseconds(request)
        quantity = unreported_milliseconds(request)
        call = submit.job_call(
            request,
            job_id=new_job_id("video"),
            job=media.jobs.new_job("video", price=price, quantity=quantity, held=held),
            hold_nano_usd=price.cost_nano_usd(held),
            cheaper="or ask for fewer seconds.",
            status="queued",
            pins=pins,
        )
        await submit.run_detached(call, media.video_submit)

    async def _read(self, submit: MediaSubmit) -> Video:
        """Return the request, validated by the rules of its model. Raises GatewayError."""
        try:
            submit.find_model(await submit.parsed(model_of))
            model = submit.model
            request = await submit.parsed(read_video, model.id, model.video)
        except GatewayError as error:
            self._refuse(error)
        if request is None:
            raise unserved(f"films of the kind of `{submit.model.id}`")
        submit.show(request)
        if request.portrait_auth is not None:
            submit.detail["portrait_auth"] = request.portrait_auth
        return request

    def _refuse(self, error: GatewayError) -> NoReturn:
        """Raise the error of a model, with the status of its kind of videos."""
        known = self.services.current.registry.resolve(self.model_name or "")
        model_id = self.model_name if known is None else known.id
        is_human_or_clip = (model_id or "").startswith(HUMANS_AND_CLIPS)
        raise as_http_status(error) if is_human_or_clip else error

    async def _referenced(self, request: Video) -> tuple[Video, tuple[Pin, ...]]:
        """Return the request with the upstream's names of its references, and their channels.

        Raises GatewayError and StoreUnavailable.
        """
        if not isinstance(request, AvatarVideo):
            return request, ()
        media, account_id = media_of(self), self.principal.account_id
        try:
            avatar = await avatar_of(
                request.avatar, media.jobs, media.catalogs, account_id=account_id
            )
            request, pins = replace(request, avatar=avatar.upstream_id), avatar.pins
            if request.voice is not None:
                voice = await voice_of(
                    request.voice, media.voices, media.catalogs, account_id=account_id
                )
                request, pins = replace(request, voice=voice.upstream_id), (*pins, *voice.pins)
        except CatalogUnavailable as failure:
            raise unavailable(failure, self.services.current.redactor) from failure
        return request, pins


class VideoHandler(ApiHandler):
    """One task."""

    async def on_get(self, task_id: str) -> None:
        self.write(await task_lists.polled(self, "video", task_id, _shown_by(self)))


def _shown_by(handler: ApiHandler) -> task_lists.Shown:
    """Return the rendering of tasks, with our links where the upstream has none."""
    return partial(shown, content_link=media_of(handler).content_links.link)
