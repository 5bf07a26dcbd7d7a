"""What a client may ask of the media endpoints: bodies and queries, checked against tables.

Without HTTP and without a channel: bytes in, a request of `channels/media/requests.py` out, or
InvalidRequest naming the field. One file per kind of request; `user_urls.py` says which links a
client may name, `lengths.py` how many seconds are held and paid for, `parameters.py` what the call
log shows.
"""

from __future__ import annotations

from gw.media.lengths import (
    held_milliseconds,
    priced_resolution,
    unit_count,
    unreported_milliseconds,
)
from gw.media.lists import TaskListQuery, read_list
from gw.media.parameters import parameters_of
from gw.media.reading import model_of
from gw.media.registrations import read_avatar, read_transcript, read_voice
from gw.media.songs import read_music
from gw.media.speech import read_speech
from gw.media.video_kinds import read_video

__all__ = [
    "TaskListQuery",
    "held_milliseconds",
    "model_of",
    "parameters_of",
    "priced_resolution",
    "read_avatar",
    "read_list",
    "read_music",
    "read_speech",
    "read_transcript",
    "read_video",
    "read_voice",
    "unit_count",
    "unreported_milliseconds",
]
