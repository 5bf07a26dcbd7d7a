"""The line by which Claude Code tells the protocol's maker who pays: a system block of its own.

Its digits differ in every request, and it is the first text of the prompt: what caches a prompt by
its prefix finds nothing any more. It means nothing to any other upstream, so it is left out for
these: in a translation, and on channels that are not the maker's (`drop_billing_header`).
"""

from __future__ import annotations

import msgspec
from msgspec import Raw

from channels.json.json_object import JsonObject

_PREFIX = "x-anthropic-billing-header:"
# How the loss is called in a report.
FIELD = f"system.{_PREFIX[:-1]}"


class _SystemBlock(msgspec.Struct, gc=False):
    type: str = ""
    text: str = ""


_BLOCKS = msgspec.json.Decoder(list[Raw] | str)
_BLOCK = msgspec.json.Decoder(_SystemBlock)


def without_line(text: str) -> str | None:
    """Return a text without the line; None if it has none."""
    if not text.startswith(_PREFIX):
        return None
    return text.partition("\n")[2].lstrip("\n")


def body_without(body: bytes) -> bytes:
    """Return a checked body whose `system` lacks the line; the same object if there is none."""
    if _PREFIX.encode() not in body:
        return body
    members = JsonObject.parse(body)
    system = members.raw.get("system")
    if system is None or _PREFIX.encode() not in bytes(system):
        return body
    try:
        stated = _BLOCKS.decode(system)
    except msgspec.MsgspecError:
        return body  # the upstream judges it
    written: object
    if isinstance(stated, str):
        written = without_line(stated)
    else:
        left = [_left(block) for block in stated]
        is_same = all(one is block for one, block in zip(left, stated, strict=True))
        written = None if is_same else [one for one in left if one is not None]
    if written is None:
        return body
    return members.edited(replace={"system": msgspec.json.encode(written)}, add={})


def _left(raw: Raw) -> Raw | None:
    """Return a block without the line; None if that was all."""
    try:
        block = _BLOCK.decode(raw)
    except msgspec.MsgspecError:
        return raw
    kept = without_line(block.text) if block.type == "text" else None
    if kept is None:
        return raw
    if not kept.strip():
        return None
    members = JsonObject.parse(bytes(raw))
    return Raw(members.edited(replace={"text": msgspec.json.encode(kept)}, add={}))
