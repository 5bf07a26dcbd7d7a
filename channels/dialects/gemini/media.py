"""Media on the gemini wire, both ways: inline data, and files by their address.

Files that are stored at the provider mean nothing to another one. Nothing is fetched here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import urlsplit

from channels.dialects.gemini.names import camel_keys
from channels.translation.media import read_data_uri, stated_type
from channels.translation.model import Media

_Kind = Literal["image", "document", "audio", "video"]
_KINDS: dict[str, _Kind] = {"image": "image", "audio": "audio", "video": "video"}

# The provider's stores, by the beginning of their addresses.
_STORED = ("https://generativelanguage.googleapis.com/", "https://aiplatform.googleapis.com/")
_VIDEO_HOSTS = frozenset(("youtube.com", "www.youtube.com", "m.youtube.com", "youtu.be"))

# The wire wants a type beside an address; other protocols have none.
_TYPES = {
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "heic": "image/heic",
    "heif": "image/heif",
    "bmp": "image/bmp",
    "pdf": "application/pdf",
    "txt": "text/plain",
    "md": "text/markdown",
    "csv": "text/csv",
    "html": "text/html",
    "mp3": "audio/mpeg",
    "wav": "audio/wav",
    "flac": "audio/flac",
    "ogg": "audio/ogg",
    "mp4": "video/mp4",
    "mov": "video/quicktime",
    "webm": "video/webm",
    "mpeg": "video/mpeg",
}
# What a file most likely is where nothing tells.
_LIKELY: dict[_Kind, str] = {"image": "image/jpeg", "document": "application/pdf"}
_STANDARD = str.maketrans("-_", "+/")


def kind_of(mime_type: str | None) -> _Kind:
    """What kind of medium a type is; a document where it is nothing else."""
    return _KINDS.get((mime_type or "").partition("/")[0].lower(), "document")


def standard_base64(data: str) -> str:
    """Base64 in its usual alphabet, padded: official clients of this protocol send the other."""
    if "-" in data or "_" in data:
        data = data.translate(_STANDARD)
    return data + "=" * (-len(data) % 4)


def read_inline(value: Any, extras: Mapping[str, Any] | None = None) -> Media | None:
    """The medium of an `inlineData` member; None when there are no data in it."""
    held = camel_keys(value) if isinstance(value, Mapping) else {}
    data = held.get("data")
    if not isinstance(data, str) or not data:
        return None
    data = standard_base64(data)
    mime_type = stated_type(_string(held, "mimeType"), data)
    name = _string(held, "displayName")
    return Media(kind_of(mime_type), mime_type, data=data, name=name, extras=extras or {})


def read_file(value: Any, extras: Mapping[str, Any] | None = None) -> Media | None:
    """The medium of a `fileData` member; None for a file that only the provider has."""
    held = camel_keys(value) if isinstance(value, Mapping) else {}
    address, mime_type = _string(held, "fileUri") or "", _string(held, "mimeType")
    name = _string(held, "displayName")
    inline = read_data_uri(address)
    if inline is not None:
        found = inline[0] or mime_type
        return Media(kind_of(found), found, data=inline[1], name=name, extras=extras or {})
    if not address.startswith(("http://", "https://")) or address.startswith(_STORED):
        return None
    if mime_type is None and _host_of(address) in _VIDEO_HOSTS:
        kind: _Kind = "video"
    else:
        kind = kind_of(mime_type or _type_by_name(address))
    return Media(kind, mime_type, url=address, name=name, extras=extras or {})


def write_media(media: Media, *, guesses_type: bool) -> dict[str, Any]:
    """The part that holds a medium; `guesses_type` where the client stated none."""
    mime_type = media.mime_type
    if media.data is not None:
        if mime_type is None:
            mime_type = "image/png" if media.kind == "image" else _LIKELY.get(media.kind)
        inline = {"mimeType": mime_type or "application/octet-stream", "data": media.data}
        return {"inlineData": inline}
    if mime_type is None and guesses_type:
        mime_type = _type_by_name(media.url or "") or _LIKELY.get(media.kind)
    file: dict[str, Any] = {} if mime_type is None else {"mimeType": mime_type}
    file["fileUri"] = media.url
    return {"fileData": file}


def _host_of(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:  # the upstream that fetches it will say what is wrong with it
        return None


def _type_by_name(address: str) -> str | None:
    try:
        path = urlsplit(address).path
    except ValueError:
        return None
    return _TYPES.get(path.rpartition(".")[2].lower())


def _string(held: Mapping[str, Any], name: str) -> str | None:
    value = held.get(name)
    return value if isinstance(value, str) and value else None
