"""A provider's signature in the field of another provider's signatures.

A thinking block's signature is only valid at its maker, and has to be returned to its maker
unchanged. If a protocol has one field for its own signatures, a foreign one is carried in it under
a tag that names its signer.

A conversation may move: answered once by a channel of another protocol, whose signatures its client
keeps in their envelope, and then by one of the client's own protocol. That one checks every
signature and refuses foreign ones. So the thoughts that they prove are removed, as in a
translation; everything else is sent unchanged. Each dialect knows where its signatures are
(`without_foreign`). It searches for their tags, which are at the beginning of strings, in one scan
of the outline (`channels/json/outline.py`) of a checked body.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from channels.families import CHAT_PROTOCOLS
from channels.json.json_object import JsonObject
from channels.json.lenient import dumps
from channels.translation.model import Protocol

TAG = "translated:"
# Replaces the signature of a thought that nobody signed. Clients keep only signed thoughts, some
# upstreams take no result of a tool without the thought before its call, and no upstream that
# checks signatures is sent one that it has not made.
UNSIGNED = f"{TAG}unsigned"


def sealed(signature: str, signer: Protocol | None, *, own: Protocol) -> str:
    """Return the content of the field of `own`: its own signature, or a foreign one tagged."""
    if signer is None or signer == own:
        return signature
    return f"{TAG}{signer}:{signature}"


def opened(text: str, *, own: Protocol) -> tuple[str, Protocol]:
    """Return the signature in the field of `own`, and its signer."""
    if text.startswith(TAG):
        name, colon, signature = text[len(TAG) :].partition(":")
        if colon and name in CHAT_PROTOCOLS:
            return signature, name
    return text, own


RawTurn = dict[str, object]


def edited(
    body: bytes,
    name: str,
    strip: Callable[[RawTurn], RawTurn | None],
    also: Callable[[JsonObject, list[RawTurn]], dict[str, bytes]] = lambda members, kept: {},
) -> bytes:
    """Return the body with `strip` applied to the turns in member `name`; None drops a turn.

    Without changes the same object is returned. `also` returns further members to replace.
    """
    members = JsonObject.parse(body)
    stated = msgspec.json.decode(members.raw[name])
    turns = stated if isinstance(stated, list) else [stated]
    stripped = [strip(turn) if isinstance(turn, dict) else turn for turn in turns]
    kept = [turn for turn in stripped if turn is not None]
    if kept == turns:
        return body
    return members.edited(replace={name: dumps(kept), **also(members, kept)}, add={})
