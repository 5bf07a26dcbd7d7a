"""A request for music (spec: Music)."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from channels.dialects.validation import check_model
from channels.media.requests import MusicRequest
from gw.media import fields

PROMPT_CHARACTERS_MAX = 200
LYRICS_CHARACTERS_MAX = 3000


class _SongBody(Struct, gc=False):
    model: fields.Model
    prompt: Annotated[str, Meta(max_length=PROMPT_CHARACTERS_MAX)] | None = None
    lyrics: Annotated[str, Meta(max_length=LYRICS_CHARACTERS_MAX)] | None = None
    title: fields.Line | None = None
    tags: fields.Line | None = None
    negative_tags: fields.Line | None = None
    instrumental: bool | None = None


_SONG_TABLE = fields.FieldTable(
    _SongBody,
    {
        "model": fields.MODEL_WORDS,
        "prompt": f"a string of at most {PROMPT_CHARACTERS_MAX} characters",
        "lyrics": f"a string of at most {LYRICS_CHARACTERS_MAX} characters",
        "title": fields.LINE_WORDS,
        "tags": fields.LINE_WORDS,
        "negative_tags": fields.LINE_WORDS,
        "instrumental": fields.FLAG_WORDS,
    },
)


def read_music(body: bytes) -> MusicRequest:
    """Validate a body. Raises InvalidRequest.

    With lyrics the prompt is not sent; for an instrumental piece the lyrics are not.
    """
    read = _SONG_TABLE.read(body)
    lyrics = _text_or_none(read.lyrics) if not read.instrumental else None
    prompt = _text_or_none(read.prompt) if lyrics is None else None
    if prompt is None and lyrics is None and not read.instrumental:
        fields.require("prompt", "a text here or in lyrics, unless instrumental is true")
    return MusicRequest(
        model=check_model(read.model),
        prompt=prompt,
        lyrics=lyrics,
        title=read.title,
        tags=read.tags,
        negative_tags=read.negative_tags,
        instrumental=read.instrumental,
    )


def _text_or_none(text: str | None) -> str | None:
    """Return the text, or None if it is absent or blank."""
    return text if text is not None and text.strip() else None
