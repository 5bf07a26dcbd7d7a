"""Images and documents as blocks of the messages protocol, both ways.

A block's source is inline base64, a URL, plain text, or nested blocks; a file stored at the
provider is useless to any other.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Literal

from channels.translation.media import inline_media, is_text, linked_media, stated_type, text_of
from channels.translation.model import Media

SourceKind = Literal["image", "document"]


def read_source(
    kind: SourceKind, block: Mapping[str, object], extras: dict[str, object]
) -> Media | None:
    """Return the medium of an image or document block; None if only the provider has its source."""
    source = block.get("source")
    if not isinstance(source, Mapping):
        return None
    title = block.get("title") if kind == "document" else None
    name = title if isinstance(title, str) else None
    form, data, url = source.get("type"), source.get("data"), source.get("url")
    mime_type = source.get("media_type")
    if form == "url" and isinstance(url, str):
        return linked_media(kind, url, member=kind, name=name, extras=extras)
    if not isinstance(data, str):
        return None
    if form == "text":
        encoded = base64.b64encode(data.encode("utf-8", "replace")).decode("ascii")
        return Media(kind, "text/plain", data=encoded, name=name, extras=extras)
    stated = stated_type(mime_type if isinstance(mime_type, str) else None, data)
    return inline_media(kind, stated, data, member=kind, name=name, extras=extras)


def write_block(media: Media) -> dict[str, object] | None:
    """Return the block of a medium; None if the protocol has no block for it."""
    if media.kind == "image":
        return {"type": "image", "source": _source(media)}
    if media.kind != "document":
        return None
    mime_type = media.mime_type or ""
    if media.data is not None and is_text(media):
        text = text_of(media.data)
        if text is None:
            return None
        source: dict[str, object] = {"type": "text", "media_type": "text/plain", "data": text}
    elif media.data is not None and mime_type not in ("", "application/pdf"):
        return None
    else:
        source = _source(media)
    block: dict[str, object] = {"type": "document", "source": source}
    if media.name is not None:
        block["title"] = media.name
    return block


def _source(media: Media) -> dict[str, object]:
    if media.data is None:
        return {"type": "url", "url": media.url}
    fallback = "application/pdf" if media.kind == "document" else "image/png"
    mime_type = media.mime_type or fallback
    return {"type": "base64", "media_type": mime_type, "data": media.data}
