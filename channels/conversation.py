"""The conversation of a chat request: its name in the body, else a digest of its prefix.

A provider caches the prefix of a conversation for the account that sent it. The calls of one
conversation are therefore sent to one channel and one of its keys, chosen by a hash of its name
(`actors/routing.py`, `KeyRing`); nothing is stored.

A body names a conversation by the first of these that is a non-empty string:

    prompt_cache_key                                 chat, responses
    metadata.session_id, metadata.conversation_id    chat, responses
    metadata.user_id                                 messages: agents put their session in it
    user                                             chat, responses: the end user

Any other body is identified by the parts that later turns do not change: instructions, tools, and
the first turn of the user. Length and beginning of each are hashed, so that the work is bounded.

What stands before the user's first turn is a request's opening. Calls of several conversations may
have the same one, which a provider's cache then keeps once for all of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from channels.json.json_object import JsonObject

# Members that name a conversation, or belong to its prefix besides the turns.
MEMBERS = frozenset(
    {
        *("prompt_cache_key", "metadata", "user"),
        *("system", "instructions", "systemInstruction", "system_instruction", "tools"),
    }
)
# Members of `metadata` that name a conversation and nothing else.
SESSIONS = frozenset({"session_id", "conversation_id"})
# Members that name a person, or somebody's conversation.
_NAMING = ("safety_identifier", "user", "metadata")
# Prefix of a digest, which distinguishes it from a client's own name.
PREFIX = "prefix/"
# Providers limit `metadata` to 16 short strings; a longer one is not parsed.
METADATA_BYTES_MAX = 16 * 1024
# A name is hashed and never stored; this bounds the hashed part.
NAME_CHARACTERS_MAX = 512
# Calls of one account with the same label are one conversation; collisions are negligible.
LABEL_BYTES = 8

# A longer opening is none: it is long enough to be kept in a cache without having been seen.
OPENING_BYTES_MAX = 64 * 1024

# Hashed bytes of instructions, of tools, and of each turn before the user's.
_HEAD_BYTES = 2 * 1024
# Hashed characters of the user's first turn, and the number of its parts.
_TURN_CHARACTERS, _TURN_PARTS = 8 * 1024, 32
# Windows in which the user's first turn is searched; it usually ends within the first.
_WINDOWS = (64 * 1024, 256 * 1024)
# Turns of this length are decoded together, at less than a scan costs.
_SHORT_BYTES = 16 * 1024
_FIXED = ("system", "instructions", "systemInstruction", "system_instruction", "tools")
# Numbers stay strings: one of a million digits would raise.
_SCAN = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str).raw_decode
_BETWEEN = re.compile(r"[ \t\r\n,]*")


class _Metadata(Struct):
    session_id: object = None
    conversation_id: object = None
    user_id: object = None


class _Names(Struct, gc=False):
    """What names somebody in a body of any endpoint."""

    prompt_cache_key: Raw | UnsetType = UNSET
    safety_identifier: Raw | UnsetType = UNSET
    user: Raw | UnsetType = UNSET
    metadata: Raw | UnsetType = UNSET


class _PrefixTurn(Struct, gc=False):
    role: object = "user"
    content: object = None


_NO_METADATA = _Metadata()
_decode_names = msgspec.json.Decoder(_Names).decode
_decode_turns = msgspec.json.Decoder(list[Raw]).decode
_decode_turn = msgspec.json.Decoder(_PrefixTurn).decode


def session_of(raw: Mapping[str, Raw]) -> str | None:
    """Return the name of the conversation in `metadata`; None without one."""
    metadata = _metadata(raw)
    named = metadata.session_id or metadata.conversation_id
    return named if isinstance(named, str) else None


def conversation_of(raw: Mapping[str, Raw]) -> str | None:
    """Return the conversation of a body, by its members; None if it has no turns."""
    hashed: list[bytes] = []
    if not MEMBERS.isdisjoint(raw):
        if named := name_in(raw):
            return named
        hashed = [_sized(raw[name]) for name in _FIXED if name in raw]
    turns = raw.get("messages") or raw.get("input") or raw.get("contents")
    if turns is None:
        return None
    before, text = _short_turns(turns) or _long_turns(turns)
    hashed += map(_sized, before)
    hashed.append(text.encode(errors="replace"))
    return PREFIX + blake2b(b"".join(hashed), digest_size=16).hexdigest()


def opening_of(raw: Mapping[str, Raw]) -> bytes | None:
    """Return a digest of all of a request's tools and instructions.

    None without tools, or if they are longer than `OPENING_BYTES_MAX`.
    """
    if "tools" not in raw:
        return None
    parts: list[bytes | Raw] = [raw[name] for name in _FIXED if name in raw]
    turns = raw.get("messages") or raw.get("input")
    if turns is not None and not _is_text(turns):
        parts += (_short_turns(turns) or _long_turns(turns))[0]
    if sum(map(len, parts)) > OPENING_BYTES_MAX:
        return None
    hashed = blake2b(digest_size=16)
    for part in parts:
        hashed.update(b"%d:" % len(part))
        hashed.update(part)
    return hashed.digest()


def members_in(body: bytes) -> Mapping[str, Raw]:
    """Return the members that name somebody, of a body that may be invalid otherwise.

    Those that are read are texts, and `metadata` up to its length.
    """
    try:
        found = _decode_names(body)
        members = {name: getattr(found, name) for name in found.__struct_fields__}
        named = {name: value for name, value in members.items() if _is_read(name, value)}
        for value in named.values():
            msgspec.json.decode(value)  # the struct's decoder leaves a value's text unread
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return {}
    return named


def _is_read(name: str, value: Raw | UnsetType) -> bool:
    if isinstance(value, UnsetType):
        return False
    return len(value) <= METADATA_BYTES_MAX if name == "metadata" else _is_text(value)


def naming_members(members: Mapping[str, Any]) -> set[str]:
    """Return the members of a decoded body that do nothing but name its conversation.

    The gateway itself does what they ask for, so a translation that leaves them out loses nothing.
    A `prompt_cache_key` is none of them: it is the provider's cache that it names.
    """
    names = {f"metadata.{name}" for name in SESSIONS}
    found = {name for name in names if _is_name(members.get(name))}
    metadata = members.get("metadata")
    if isinstance(metadata, Mapping) and metadata.keys() <= SESSIONS:
        found |= {"metadata"} if all(map(_is_name, metadata.values())) else set()
    return found


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= NAME_CHARACTERS_MAX


def label_of(conversation: str) -> str:
    """Return the label of a conversation in the call log: 16 hex digits, never its name."""
    return blake2b(conversation.encode(errors="replace"), digest_size=LABEL_BYTES).hexdigest()


def stand_in(members: JsonObject) -> JsonObject:
    """Return a small object that replaces a large one: it has what names somebody, nothing more."""
    name = conversation_of(members.raw)
    raw = members.raw
    named = {name: raw[name] for name in _NAMING if name in raw and _is_read(name, raw[name])}
    if name is not None:
        named["prompt_cache_key"] = Raw(msgspec.json.encode(name))
    return JsonObject(b"{}", named, b"{}")


def name_in(raw: Mapping[str, Raw]) -> str | None:
    """Return the name that a body's members give its conversation; None without one."""
    if "prompt_cache_key" in raw and (named := _text(raw["prompt_cache_key"])):
        return named
    if "metadata" in raw:
        metadata = _metadata(raw)
        for value in (metadata.session_id, metadata.conversation_id, metadata.user_id):
            if value and isinstance(value, str):
                return value[:NAME_CHARACTERS_MAX]
    return _text(raw["user"]) if "user" in raw else None


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


def _sized(value: bytes | Raw) -> bytes:
    head = value if len(value) <= _HEAD_BYTES else bytes(memoryview(value)[:_HEAD_BYTES])
    return b"%d:%b" % (len(value), head)


def _short_turns(turns: Raw) -> tuple[list[bytes | Raw], str] | None:
    """Return the turns before the user's first, and its text; None if they are long."""
    if len(turns) > _SHORT_BYTES:
        return None
    before: list[bytes | Raw] = []
    try:
        for raw in _decode_turns(turns):
            turn = _decode_turn(raw)
            if turn.role == "user":
                text = turn.content
                return (before, text[:_TURN_CHARACTERS]) if isinstance(text, str) else None
            before.append(raw)
    except (msgspec.MsgspecError, RecursionError):
        pass  # the scan takes what a decoder refuses
    return None


def _long_turns(turns: Raw) -> tuple[list[bytes | Raw], str]:
    """Return the same of any turns, as far as the text reaches."""
    if _is_text(turns):  # one turn
        return [turns], ""
    view = memoryview(turns)
    for window in _WINDOWS:
        text = bytes(view[:window]).decode(errors="replace")
        before, last = _until_user(text)
        if isinstance(last, str) or len(view) <= window:
            break
    if not isinstance(last, str):  # it is longer, or missing
        last = text[last : last + _TURN_CHARACTERS]
    return [turn.encode() for turn in before], last


def _until_user(text: str) -> tuple[list[str], str | int]:
    """Return the turns before the user's first, unparsed, and the texts of that one; if `text` ends
    before it, the position where it begins."""
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
    """Return a turn's texts: clients write one as a string or a part, and move cache marks."""
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
