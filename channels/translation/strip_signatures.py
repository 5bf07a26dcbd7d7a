"""Signatures that a translation sealed, taken out of a request that needs no translation.

A conversation may move: answered once by a channel of another protocol, whose signatures its client
keeps in their envelope (`sealed_signature.py`), and then by one of the client's own. That one
checks every signature and refuses those that it did not make. So the thoughts they prove stay
behind, as they do where a request is translated; everything else goes on as the client sent it.

Where signatures stand is each dialect's own (`channels/dialects/<dialect>/strip_signatures.py`). It
looks for their tags, which stand at the beginning of strings, in one scan of the outline
(`channels/json/outline.py`) of a body that its reader has checked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from channels.json.members import JsonObject
from channels.json.text import dumps

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
