"""Images and files between the protocols: data URIs, and what kind of file the bytes are.

The stricter protocols refuse an image whose stated type is not what its bytes are, and clients
often state the wrong one. URLs are not fetched here: URLs are passed on.
"""

from __future__ import annotations

import base64
import binascii
import re
from urllib.parse import unquote_to_bytes

from channels.translation.model import Media

# First bytes of the kinds of image that every protocol takes, and of PDF.
_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"%PDF-", "application/pdf"),
)
_IMAGE_BEGINS = "](data:image/"
_IMAGE = re.compile(r"!\[[^\]\n]{0,200}\]\((data:image/[\w.+-]+;base64,[A-Za-z0-9+/]+={0,2})\)")
_ALIASES = {"image/jpg": "image/jpeg", "image/pjpeg": "image/jpeg", "image/x-png": "image/png"}


def data_uri(media: Media) -> str:
    """The medium as a data URI; its data must be inline."""
    assert media.data is not None, media.kind
    return f"data:{media.mime_type or 'application/octet-stream'};base64,{media.data}"


def read_data_uri(uri: str) -> tuple[str | None, str] | None:
    """Type and base64 data of a data URI; None when it is not one.

    The scheme is read in any case; parameters are dropped; percent-encoded data becomes base64.
    """
    if uri[:5].lower() != "data:":
        return None
    comma = uri.find(",")
    if comma < 0:
        return None
    data = uri[comma + 1 :]  # often megabytes, and copied once
    mime_type, *parameters = [piece.strip() for piece in uri[5:comma].split(";")]
    if parameters and parameters[-1].lower() == "base64":
        # Most are clean already, and may be megabytes.
        if "%" in data:
            data = unquote_to_bytes(data).decode("ascii", "replace")
        if not data.isascii() or any(space in data for space in " \n\r\t"):
            data = "".join(data.split())
    else:
        data = base64.b64encode(unquote_to_bytes(data)).decode("ascii")
    return stated_type(mime_type or None, data), data


def stated_type(mime_type: str | None, data: str) -> str | None:
    """The type of base64 data: by its first bytes where they tell, else as it was stated."""
    found = _type_of(data)
    if found is not None:
        return found
    if mime_type is None:
        return None
    mime_type = mime_type.lower()
    return _ALIASES.get(mime_type, mime_type)


def text_of(data: str) -> str | None:
    """Base64 data as text; None when it is not UTF-8 or not base64."""
    try:
        return base64.b64decode(data, validate=True).decode("utf-8")
    except (ValueError, binascii.Error):
        return None


def markdown(media: Media) -> str:
    """An image the model made, for a protocol whose responses are text (spec: Built-in tools 5)."""
    target = media.url if media.url is not None else data_uri(media)
    name = media.name or media.kind
    return f"![{name}]({target})" if media.kind == "image" else f"[{name}]({target})"


def split_markdown(text: str) -> list[str | Media]:
    """A text and the images that stand in it as Markdown with their data; empty pieces left out."""
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
