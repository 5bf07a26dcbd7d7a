"""A signature of one provider, in the field where another provider's signatures go.

A thinking block's signature means something to its maker only, yet it must come back to its maker
unchanged. Where a protocol has one field for its own signatures, a foreign one travels in it under
a tag that states whose it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from channels.families import CHAT_PROTOCOLS
from channels.json import JsonObject, dumps
from channels.translation.model import Protocol

TAG = "translated:"


def sealed(signature: str, signer: Protocol | None, *, own: Protocol) -> str:
    """What goes into the field of `own`: its own signature as it is, a foreign one tagged."""
    if signer is None or signer == own:
        return signature
    return f"{TAG}{signer}:{signature}"


def opened(text: str, *, own: Protocol) -> tuple[str, Protocol]:
    """The signature that the field of `own` holds, and whose it is."""
    if text.startswith(TAG):
        name, colon, signature = text[len(TAG) :].partition(":")
        if colon and name in CHAT_PROTOCOLS:
            return signature, name
    return text, own


# Signatures that a translation sealed, taken out of a request that needs no translation.
#
# A conversation may move: answered once by a channel of another protocol, whose signatures its
# client keeps in their envelope, and then by one of the client's own. That one checks
# every signature and refuses those that it did not make. So the thoughts they prove stay behind, as
# they do where a request is translated; everything else goes on as the client sent it.
#
# Where signatures are is each dialect's own (`channels/dialects/<dialect>/strip_signatures.py`).
# It looks for their tags, which are at the beginning of strings, in one scan of the outline
# (`channels/json.py`) of a body that its reader has checked.

Turn = dict[str, Any]


def edited(
    body: bytes,
    name: str,
    strip: Callable[[Turn], Turn | None],
    also: Callable[[JsonObject, list[Turn]], dict[str, bytes]] = lambda members, kept: {},
) -> bytes:
    """The body with the turns in its member `name` as `strip` leaves them, None for one that goes.

    The same bytes where nothing changes. `also` are members to be replaced along with it.
    """
    members = JsonObject.parse(body)
    stated = msgspec.json.decode(members.raw[name])
    turns = stated if isinstance(stated, list) else [stated]
    kept = [left for turn in turns if (left := strip(turn)) is not None]
    if kept == turns:
        return body
    return members.edited(replace={name: dumps(kept), **also(members, kept)}, add={})
