"""Films, avatars and templates, in the reference."""

from __future__ import annotations

from actors.catalogs import LIST_SECONDS
from gw import errors
from gw.api.reference import headers
from gw.api.reference.operation import (
    BYTES,
    Content,
    Operation,
    Response,
    answers,
    in_path,
    in_query,
    one_of,
)
from gw.api.reference.tasks import list_parameters
from gw.api.task_shapes import BegunTask
from gw.api.videos import avatars, clip_templates, generations
from gw.media import clips, digital_humans, general_videos, registrations, task_list

TAG, AVATARS_TAG = "Videos", "Avatars and templates"
_TASK = in_path("id", "The id of the task.", "vid_00000000000000000000000000000000")
_AVATAR = in_path("id", "The id of the avatar.", "ava_00000000000000000000000000000000")
_UNKNOWN = (errors.NOT_FOUND,)
_RAISED = (
    errors.MODEL_NOT_FOUND,
    errors.MODEL_NOT_ALLOWED,
    errors.QUOTA_EXCEEDED,
    # Of digital humans and clips.
    (errors.MODEL_NOT_FOUND, 404),
    (errors.MODEL_NOT_ALLOWED, 403),
)
_LINK = (
    in_query("expires", "Part of the link.", required=True),
    in_query("signature", "Part of the link.", required=True),
)

GENERATIONS = (
    Operation(
        name="list_videos",
        tag=TAG,
        summary="List the account's films.",
        description="Links that have expired are renewed.",
        parameters=list_parameters(task_list.VIDEOS),
        responses=answers(generations.VideoTasks, "The tasks."),
        raises=(errors.INVALID_REQUEST,),
    ),
    Operation(
        name="create_video",
        tag=TAG,
        method="POST",
        summary="Have a film made.",
        description="The response is a task, to be polled every 5 to 10 seconds; the client may"
        " leave. The model says which body it is: `dh-…` are digital humans, `clip-…` films cut by"
        " a template. The highest cost is held, and the film's real seconds are charged; a film"
        " that fails costs nothing.",
        body=(
            general_videos.GeneralBody,
            digital_humans.SpeakingBody,
            digital_humans.LipSyncBody,
            digital_humans.MotionBody,
            clips.RealManBody,
            clips.MixCutBody,
            clips.NewsBody,
        ),
        examples={
            "a film": {
                "model": "demo-film",
                "duration": 5,
                "content": [{"type": "text", "text": "A boat in the harbour"}],
            },
            "a film of a digital human": {
                "model": "dh-avatar",
                "duration": 10,
                "avatar": "preset-anna",
                "voice": "preset-warm",
                "text": "Good morning, and welcome to the harbour.",
            },
            "a film cut by a template": {
                "model": "clip-realman",
                "style_id": "realman-bold",
                "title": "The harbour",
                "source_video_url": "https://example.com/talk.mp4",
            },
        },
        responses=answers(BegunTask, "The task."),
        raises=_RAISED,
        timeout="video_submit",
    ),
)
ONE = (
    Operation(
        name="get_video",
        tag=TAG,
        summary="Read one film's task.",
        parameters=(_TASK,),
        responses=answers(generations.VideoTask, "The task."),
        raises=_UNKNOWN,
    ),
)
CONTENT = (
    Operation(
        name="get_video_content",
        tag=TAG,
        summary="Follow a link to a film.",
        description="Without a key: the link in `video_url` is signed.",
        parameters=(_TASK, *_LINK, headers.RANGE),
        responses=tuple(
            Response(
                status=status,
                description=described,
                contents=(Content(BYTES, "video/*"), Content(BYTES, "application/octet-stream")),
                headers=("Accept-Ranges", "Cache-Control", "Content-Length", "ETag", *more),
            )
            for status, described, more in (
                (200, "The film.", ()),
                (206, "A part of the film.", ("Content-Range",)),
            )
        ),
        raises=(
            errors.PERMISSION_DENIED,
            errors.NOT_FOUND,
            (errors.INVALID_REQUEST, 416),
            errors.UPSTREAM_UNREACHABLE,
            errors.UPSTREAM_TIMEOUT,
        ),
        timeout="task_poll",
    ),
)
AVATARS = (
    Operation(
        name="list_avatars",
        tag=AVATARS_TAG,
        summary="List the account's avatars.",
        responses=answers(avatars.Avatars, "The avatars."),
    ),
    Operation(
        name="create_avatar",
        tag=AVATARS_TAG,
        method="POST",
        summary="Have an avatar made.",
        description="It takes some minutes; a failed one is refunded.",
        body=(registrations.AvatarBody,),
        examples={
            "an avatar of one's own": {
                "name": "Ann",
                "source_url": "https://example.com/ann.png",
            }
        },
        responses=answers(avatars.Avatar, "The avatar, which is pending."),
        raises=((errors.MODEL_NOT_FOUND, 404), (errors.MODEL_NOT_ALLOWED, 403)),
        timeout="video_submit",
    ),
)
PRESETS = (
    Operation(
        name="list_preset_avatars",
        tag=AVATARS_TAG,
        summary="List the avatars that every account may use.",
        responses=answers(avatars.PresetAvatars, "The avatars."),
        timeout=LIST_SECONDS,
    ),
)
AVATAR = (
    Operation(
        name="get_avatar",
        tag=AVATARS_TAG,
        summary="Read one avatar.",
        parameters=(_AVATAR,),
        responses=answers(avatars.Avatar, "The avatar."),
        raises=_UNKNOWN,
    ),
    Operation(
        name="delete_avatar",
        tag=AVATARS_TAG,
        method="DELETE",
        summary="Delete an avatar that is not pending.",
        parameters=(_AVATAR,),
        responses=answers(avatars.DeletedAvatar, "It is deleted."),
        raises=(*_UNKNOWN, errors.INVALID_REQUEST),
    ),
)
_CLIPS = ((errors.MODEL_NOT_ALLOWED, 403),)
TEMPLATES = (
    Operation(
        name="list_templates",
        tag=AVATARS_TAG,
        summary="List the templates of films.",
        description="For keys that may use a clip model.",
        parameters=(
            in_query("scene", "Only those of this kind of film.", one_of(clips.TEMPLATE_SCENES)),
        ),
        responses=answers(clip_templates.Templates, "The templates."),
        raises=(errors.INVALID_REQUEST, *_CLIPS),
        timeout=LIST_SECONDS,
    ),
)
TEMPLATE = (
    Operation(
        name="get_template",
        tag=AVATARS_TAG,
        summary="Read one template.",
        description="For keys that may use a clip model.",
        parameters=(in_path("id", "The id of the template.", "realman-bold"),),
        responses=answers(clip_templates.WholeTemplate, "The template."),
        raises=(errors.NOT_FOUND, *_CLIPS),
        timeout=LIST_SECONDS,
    ),
)
