"""What a chat request states beside what is done with it, for the trace of a sampled call."""

from __future__ import annotations

import math

import msgspec
from msgspec import Struct

from channels.json.members import JsonObject

# Providers that take `metadata` bound it to 16 short texts; what is longer is not looked into.
METADATA_BYTES_MAX = 16 * 1024


class _Metadata(Struct):
    session_id: object = None
    conversation_id: object = None


def conversation_of(body: JsonObject) -> str | None:
    """What the client's `metadata` calls the conversation; None where it does not.

    Nothing is made up in its place: a conversation that has no name is not told from others.
    """
    raw = body.raw.get("metadata")
    if raw is None or len(raw) > METADATA_BYTES_MAX:
        return None
    try:
        metadata = msgspec.json.decode(raw, type=_Metadata)
    except msgspec.MsgspecError:
        return None
    named = metadata.session_id or metadata.conversation_id
    return named if isinstance(named, str) else None


def number_of(text: str | None) -> float | None:
    """A parameter that the call log shows, as a number; None for what is none."""
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) else None
