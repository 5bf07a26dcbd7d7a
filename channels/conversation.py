"""Which conversation a chat request belongs to: its name in the body, else a digest of its prefix.

A provider keeps the prefix of a conversation in a cache of the account that sent it. So the calls
of one conversation go to one channel and one of its keys, chosen by a hash of this
(`actors/routing.py`, `KeyRing`); nothing is stored.

A body names a conversation by the first of these that is a text which is not empty:

    prompt_cache_key                                 chat, responses
    metadata.session_id, metadata.conversation_id    chat, responses
    metadata.user_id                                 messages: agents put their session in it
    user                                             chat, responses: the end user

One that does not is known by what no later turn of it changes: instructions, tools, and the first
turn of the user. Of each the length and the beginning count, so that the work has a bound.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import Raw, Struct

from channels.json import JsonObject

# Members that name a conversation, or are a part of its prefix beside the turns.
MEMBERS = frozenset(
    {
        *("prompt_cache_key", "metadata", "user"),
        *("system", "instructions", "systemInstruction", "system_instruction", "tools"),
    }
)
# The digest of a prefix begins with it, which distinguishes it from a client's own name.
PREFIX = "prefix/"
# Providers that take `metadata` bound it to 16 short texts; what is longer is not looked into.
METADATA_BYTES_MAX = 16 * 1024
# A name is hashed and never stored; this bounds what is hashed.
NAME_CHARACTERS_MAX = 512
# Calls of one account with one label are one conversation; a few billion others share none.
LABEL_BYTES = 8

# What counts of instructions, of tools, and of each turn before the user's.
_HEAD_BYTES = 2 * 1024
# What counts of the user's first turn, and of how many parts of it.
_TURN_CHARACTERS, _TURN_PARTS = 8 * 1024, 32
# Where the first turn of the user is looked for: nearly always it ends within the first of these.
_WINDOWS = (64 * 1024, 256 * 1024)
_FIXED = ("system", "instructions", "systemInstruction", "system_instruction", "tools")
_TURNS = ("messages", "input", "contents")
# Numbers stay text: one of a million digits would not be read.
_SCAN = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str).raw_decode
_BETWEEN = re.compile(r"[ \t\r\n,]*")


class _Metadata(Struct):
    session_id: object = None
    conversation_id: object = None
    user_id: object = None


_NO_METADATA = _Metadata()


def session_of(raw: Mapping[str, Raw]) -> str | None:
    """What `metadata` calls the conversation; None where it does not."""
    metadata = _metadata(raw)
    named = metadata.session_id or metadata.conversation_id
    return named if isinstance(named, str) else None


def conversation_of(raw: Mapping[str, Raw]) -> str | None:
    """The conversation of a body, by its members; None where it has no turns."""
    if "prompt_cache_key" in raw and (named := _text(raw["prompt_cache_key"])):
        return named
    if "metadata" in raw:
        metadata = _metadata(raw)
        for value in (metadata.session_id, metadata.conversation_id, metadata.user_id):
            if value and isinstance(value, str):
                return value[:NAME_CHARACTERS_MAX]
    if "user" in raw and (named := _text(raw["user"])):
        return named
    return _prefix_of(raw)


def label_of(conversation: str) -> str:
    """What a row of the call log has of a conversation: 16 hex digits, never its name."""
    return blake2b(conversation.encode(errors="replace"), digest_size=LABEL_BYTES).hexdigest()


def stand_in(members: JsonObject) -> JsonObject:
    """An object in place of a large one, of which the conversation alone is left."""
    name = conversation_of(members.raw)
    named = {} if name is None else {"prompt_cache_key": Raw(msgspec.json.encode(name))}
    return JsonObject(b"{}", named)


def _metadata(raw: Mapping[str, Raw]) -> _Metadata:
    value = raw.get("metadata")
    if value is None or len(value) > METADATA_BYTES_MAX:
        return _NO_METADATA
    try:
        return msgspec.json.decode(value, type=_Metadata)
    except msgspec.MsgspecError:
        return _NO_METADATA


def _text(value: Raw) -> str | None:
    if not _is_text(value) or len(value) > METADATA_BYTES_MAX:
        return None
    return msgspec.json.decode(value, type=str)[:NAME_CHARACTERS_MAX]


def _is_text(value: Raw) -> bool:
    return bytes(memoryview(value)[:1]) == b'"'


def _prefix_of(raw: Mapping[str, Raw]) -> str | None:
    turns = next((raw[name] for name in _TURNS if name in raw), None)
    if turns is None:
        return None
    digest = blake2b(digest_size=16)
    for name in _FIXED:
        if name in raw:
            _add(digest, memoryview(raw[name]))
    if _is_text(turns):  # one turn
        _add(digest, memoryview(turns))
    else:
        _add_turns(digest, turns)
    return PREFIX + digest.hexdigest()


def _add(digest: blake2b, value: bytes | memoryview) -> None:
    digest.update(b"%d:" % len(value))
    digest.update(value[:_HEAD_BYTES])


def _add_turns(digest: blake2b, turns: Raw) -> None:
    """Add the turns up to the first of the user, which is added by its texts.

    Clients move the marks of a cache from turn to turn, and write one text as a part or as it is.
    """
    view = memoryview(turns)
    for window in _WINDOWS:
        text = bytes(view[:window]).decode(errors="replace")
        before, last = _until_user(text)
        if isinstance(last, str) or len(view) <= window:
            break
    for turn in before:
        _add(digest, turn.encode())
    if not isinstance(last, str):  # it is longer, or there is none
        last = text[last : last + _TURN_CHARACTERS]
    digest.update(last.encode(errors="replace"))


def _until_user(text: str) -> tuple[list[str], str | int]:
    """The turns before the user's first, as they stand there, and the texts of that one; where
    `text` ends before it, the position where it begins."""
    before: list[str] = []
    position = 1
    while True:
        found = _BETWEEN.match(text, position)
        assert found is not None
        start = found.end()
        try:
            turn, position = _SCAN(text, start)
        except (ValueError, RecursionError):
            return before, start
        if isinstance(turn, dict) and turn.get("role", "user") == "user":
            return before, _texts_of(turn)
        before.append(text[start:position])


def _texts_of(turn: dict[str, Any]) -> str:
    content = turn.get("content", turn.get("parts"))
    if isinstance(content, str):
        return content[:_TURN_CHARACTERS]
    if not isinstance(content, list):
        content = [turn]  # an item of another type
    texts = [_text_of(part) for part in content[:_TURN_PARTS]]
    return "".join(texts)[:_TURN_CHARACTERS]


def _text_of(part: Any) -> str:
    if isinstance(part, dict):
        text = part.get("text")
        if isinstance(text, str):
            return text[:_TURN_CHARACTERS]
        part.pop("cache_control", None)
    return json.dumps(part)[:_TURN_CHARACTERS]
