"""The wires of all endpoints."""

from __future__ import annotations

from typing import Final

from loadtests.simulator.tasks.plain.avatars import AVATARS
from loadtests.simulator.tasks.plain.films import VIDEOS
from loadtests.simulator.tasks.plain.songs import MUSIC
from loadtests.simulator.tasks.plain.speech import SPEECH
from loadtests.simulator.tasks.plain.templates import CLIPS
from loadtests.simulator.tasks.plain.transcripts import TRANSCRIPTS
from loadtests.simulator.tasks.plain.voices import VOICES

WIRES: Final = (VIDEOS, AVATARS, CLIPS, MUSIC, SPEECH, VOICES, TRANSCRIPTS)
