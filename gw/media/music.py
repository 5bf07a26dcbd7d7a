"""A request for music (reference 7.6)."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

from channels.dialects.validation import check_model
from channels.media.requests import MusicRequest
from gw.media import fields

PROMPT_CHARACTERS_MAX = 200
LYRICS_CHARACTERS_MAX = 3000


class SongBody(Struct, gc=False):
    """A request for songs."""

    model: fields.Model
    prompt: Annotated[
        Annotated[str, Meta(max_length=PROMPT_CHARACTERS_MAX)] | None,
        Meta(
            description="What the song is to be like; needed without `lyrics` and `instrumental`."
        ),
    ] = None
    lyrics: Annotated[
        Annotated[str, Meta(max_length=LYRICS_CHARACTERS_MAX)] | None,
        Meta(description="The words of the song; `prompt` is then not used."),
    ] = None
    title: Annotated[fields.Line | None, Meta(description="The song's title.")] = None
    tags: Annotated[fields.Line | None, Meta(description="Its styles.")] = None
    negative_tags: Annotated[fields.Line | None, Meta(description="Styles to be avoided.")] = None
    instrumental: Annotated[
        bool | None, Meta(description="True: without a voice; `lyrics` are then not used.")
    ] = None


_SONG_TABLE = fields.FieldTable(
    SongBody,
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
