"""Images and files in translations: data URIs, and the file type of the bytes.

The stricter protocols refuse an image whose stated type differs from its bytes, and clients often
state the wrong one. URLs are passed on and never fetched here.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping
from urllib.parse import unquote_to_bytes

from channels.translation.model import Media, MediaKind

# Magic numbers of the image types that every protocol supports, and of PDF.
_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
)
_IMAGE_BEGINS = "](data:image/"
_IMAGE = re.compile(r"!\[[^\]\n]{0,200}\]\((data:image/[\w.+-]+;base64,[A-Za-z0-9+/]+={0,2})\)")
_ALIASES = {
    "image/jpg": "image/jpeg",
    "image/pjpeg": "image/jpeg",
    "image/x-png": "image/png",
    # No protocol shows drawings, and a model reads their source.
    "image/svg+xml": "text/xml",
}
_UNKNOWN = "application/octet-stream"
# The types of the addresses whose kind is told by how they end; others' servers tell.
_ENDINGS = {
    "pdf": "application/pdf",
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
}

_KINDS: Mapping[str, MediaKind] = {"image": "image", "audio": "audio", "video": "video"}
# Types of text besides text/*.
_TEXTS = frozenset(
    (
        *("application/json", "application/xml", "application/yaml", "application/x-yaml"),
        *("application/javascript", "application/x-javascript", "application/typescript"),
        *("application/x-sh", "application/sql", "application/toml", "application/x-ndjson"),
    )
)


def kind_of(mime_type: str | None) -> MediaKind:
    """Return the kind of medium of a type; a document for any other."""
    return _KINDS.get((mime_type or "").partition("/")[0].lower(), "document")


def inline_media(
    kind: MediaKind,
    mime_type: str | None,
    data: str,
    *,
    member: str,
    detail: str | None = None,
    name: str | None = None,
    extras: Mapping[str, object],
) -> Media:
    """Return inline data as the kind of medium that its type is.

    `kind` is what the client's `member` is for: clients send PDFs as images. It counts for data
    without a type. Files that clients do not know the type of may be text.
    """
    if (mime_type == _UNKNOWN or (mime_type is None and kind == "document")) and _is_words(data):
        mime_type = "text/plain"
    found = kind_of(mime_type) if mime_type else kind
    return Media(
        found,
        mime_type,
        data=data,
        detail=detail if found == "image" else None,
        name=name,
        extras=extras,
        member=None if found == kind else member,
    )


def linked_media(
    kind: MediaKind,
    url: str,
    *,
    member: str,
    detail: str | None = None,
    name: str | None = None,
    extras: Mapping[str, object],
) -> Media:
    """Return the medium at an address; an image or a document is what the address ends as."""
    mime_type = None
    if kind in ("image", "document"):
        ending = re.split(r"[?#]", url, maxsplit=1)[0].rpartition(".")[2]
        mime_type = _ENDINGS.get(ending.lower())
    found = kind_of(mime_type) if mime_type else kind
    if found == kind:
        return Media(kind, None, url=url, detail=detail, name=name, extras=extras)
    detail = detail if found == "image" else None
    return Media(found, mime_type, url=url, detail=detail, name=name, extras=extras, member=member)


def is_text(media: Media) -> bool:
    """Whether a medium is inline text."""
    kind = (media.mime_type or "").partition(";")[0].strip()
    return media.data is not None and (kind.startswith("text/") or kind in _TEXTS)


def data_uri(media: Media) -> str:
    """Return the medium as a data URI; its data must be inline."""
    assert media.data is not None, media.kind
    return f"data:{media.mime_type or _UNKNOWN};base64,{media.data}"


def read_data_uri(uri: str) -> tuple[str | None, str] | None:
    """Return type and base64 data of a data URI; None if it is not one.

    The scheme is case-insensitive; parameters are dropped; percent-encoded data becomes base64.
    """
    uri = uri.strip()
    if uri[:5].lower() != "data:":
        return None
    comma = uri.find(",")
    if comma < 0:
        return None
    data = uri[comma + 1 :]  # often megabytes, copied once
    # The parameters between the first and the last may be long, and are not parsed.
    mime_type, _, parameters = uri[5:comma].partition(";")
    mime_type = mime_type.strip()
    if parameters.rpartition(";")[2].strip().lower() == "base64":
        # Most are clean already, and may be megabytes.
        if "%" in data:
            data = unquote_to_bytes(data).decode("ascii", "replace")
        if not data.isascii() or any(space in data for space in " \n\r\t"):
            data = "".join(data.split())
    else:
        data = base64.b64encode(unquote_to_bytes(data)).decode("ascii")
        mime_type = mime_type or "text/plain"
    return stated_type(mime_type or None, data), data


def stated_type(mime_type: str | None, data: str) -> str | None:
    """Return the type of base64 data: by its magic number, else as stated."""
    found = _type_of(data)
    if found is not None:
        return found
    if mime_type is None:
        return None
    mime_type = mime_type.lower()
    return _ALIASES.get(mime_type, mime_type)


def text_of(data: str) -> str | None:
    """Decode base64 data as text; None if it is not UTF-8 or not base64."""
    try:
        return base64.b64decode(data, validate=True).decode("utf-8")
    except (ValueError, binascii.Error):
        return None


def _is_words(data: str) -> bool:
    """Whether base64 data is text by its bytes."""
    text = text_of(data)
    return text is not None and "\0" not in text


def markdown(media: Media) -> str:
    """Return Markdown for an image, if responses are text (reference 2.7)."""
    target = media.url if media.url is not None else data_uri(media)
    name = media.name or media.kind
    return f"![{name}]({target})" if media.kind == "image" else f"[{name}]({target})"


def split_markdown(text: str) -> list[str | Media]:
    """Split a text at images that it has as Markdown with data; without empty pieces."""
    if _IMAGE_BEGINS not in text:
        return [text] if text else []
    pieces: list[str | Media] = []
    for index, piece in enumerate(_IMAGE.split(text)):
        inline = read_data_uri(piece) if index % 2 else None
        if inline is not None:
            pieces.append(Media("image", inline[0], data=inline[1]))
        elif piece:
            pieces.append(piece)
    return pieces


def _type_of(data: str) -> str | None:
    try:
        head = base64.b64decode(data[:32] + "=" * (-len(data[:32]) % 4))
    except (ValueError, binascii.Error):
        return None
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return "image/webp"
    for magic, mime_type in _MAGIC:
        if head.startswith(magic):
            return mime_type
    return None
