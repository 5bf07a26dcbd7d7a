"""Media in the gemini protocol, both ways: inline data, and files by URL.

Files stored at the provider mean nothing to another one. Nothing is fetched here.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from channels.dialects.gemini.members import camel_keys
from channels.json.lenient import text_in
from channels.json.written import Written
from channels.translation.media import kind_of, read_data_uri, stated_type
from channels.translation.model import Media, MediaKind

# URL prefixes of the provider's stores.
_STORED = ("https://generativelanguage.googleapis.com/", "https://aiplatform.googleapis.com/")
_VIDEO_HOSTS = frozenset(("youtube.com", "www.youtube.com", "m.youtube.com", "youtu.be"))

# The protocol requires a type beside a URL; others have none.
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
# The types of files without a stated or recognisable one.
_LIKELY: dict[MediaKind, str] = {"image": "image/jpeg", "document": "application/pdf"}
STANDARD_ALPHABET = str.maketrans("-_", "+/")


def standard_base64(data: str) -> str:
    """Return base64 in the standard alphabet, padded: official clients send the other one."""
    if "-" in data or "_" in data:
        data = data.translate(STANDARD_ALPHABET)
    return data + "=" * (-len(data) % 4)


def read_inline(value: object, extras: Mapping[str, object] | None = None) -> Media | None:
    """Return the medium of an `inlineData` member; None without data."""
    payload = camel_keys(value) if isinstance(value, Mapping) else {}
    data = payload.get("data")
    if not isinstance(data, str) or not data:
        return None
    data = standard_base64(data)
    mime_type = stated_type(text_in(payload, "mimeType") or None, data)
    name = text_in(payload, "displayName") or None
    return Media(kind_of(mime_type), mime_type, data=data, name=name, extras=extras or {})


def read_file(value: object, extras: Mapping[str, object] | None = None) -> Media | None:
    """Return the medium of a `fileData` member; None for a file that only the provider has."""
    payload = camel_keys(value) if isinstance(value, Mapping) else {}
    address, mime_type = text_in(payload, "fileUri"), text_in(payload, "mimeType") or None
    name = text_in(payload, "displayName") or None
    inline = read_data_uri(address)
    if inline is not None:
        found = inline[0] or mime_type
        return Media(kind_of(found), found, data=inline[1], name=name, extras=extras or {})
    if not address.startswith(("http://", "https://")) or address.startswith(_STORED):
        return None
    if mime_type is None and _host_of(address) in _VIDEO_HOSTS:
        kind: MediaKind = "video"
    else:
        kind = kind_of(mime_type or _type_by_name(address))
    return Media(kind, mime_type, url=address, name=name, extras=extras or {})


def write_media(media: Media, *, guesses_type: bool) -> Written:
    """Encode a medium as a part; `guesses_type` if the client need not state one."""
    mime_type = media.mime_type
    if media.data is not None:
        if mime_type is None:
            mime_type = "image/png" if media.kind == "image" else _LIKELY.get(media.kind)
        inline = {"mimeType": mime_type or "application/octet-stream", "data": media.data}
        return {"inlineData": inline}
    if mime_type is None and guesses_type:
        mime_type = _type_by_name(media.url or "") or _LIKELY.get(media.kind)
    file: dict[str, object] = {} if mime_type is None else {"mimeType": mime_type}
    file["fileUri"] = media.url
    return {"fileData": file}


def _host_of(address: str) -> str | None:
    try:
        return urlsplit(address).hostname
    except ValueError:  # the upstream that fetches it reports the fault
        return None


def _type_by_name(address: str) -> str | None:
    try:
        path = urlsplit(address).path
    except ValueError:
        return None
    return _TYPES.get(path.rpartition(".")[2].lower())
