"""The content of chat-completions messages, both ways: text, images, audio, files.

A string and an array of parts say the same. Parts that the canonical model does not hold are
left over by name, for the report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from channels.dialects.chat.origin import ORIGIN
from channels.translation.field_names import spelled, spelled_media
from channels.translation.losses import LossReport
from channels.translation.media import data_uri, read_data_uri, stated_type, text_of
from channels.translation.model import ClientProtocol, Media, Refusal, Text
from channels.translation.unsupported import report_extras

_AUDIO_FORMATS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}
_AUDIO_TYPES = {"wav": "audio/wav", "mp3": "audio/mpeg"}
# The protocol wants a name for every inline file.
_FILE_NAMES = {"application/pdf": "document.pdf"}


def read_content(content: Any, left_over: dict[str, Any]) -> list[Text | Media | Refusal]:
    """The parts of a `content` member; those we do not know go to `left_over` by name."""
    if isinstance(content, str):
        return [Text(content)] if content else []
    parts: list[Text | Media | Refusal] = []
    for part in content if isinstance(content, list) else ():
        if isinstance(part, str):
            parts.append(Text(part))
        elif isinstance(part, Mapping) and (read := _read_part(part, left_over)) is not None:
            parts.append(read)
    return parts


def _read_part(part: Mapping[str, Any], left_over: dict[str, Any]) -> Text | Media | Refusal | None:
    kind = part.get("type")
    extras = {
        name: value
        for name, value in part.items()
        if name not in ("type", kind) and value is not None
    }
    held = part.get(kind) if isinstance(kind, str) else None
    if kind == "text" and isinstance(held, str):
        return Text(held, extras) if held else None
    if kind == "refusal" and isinstance(held, str):
        return Refusal(held)
    media = None
    if kind in ("image_url", "video_url"):
        media = _read_url("image" if kind == "image_url" else "video", held, extras)
    elif kind == "input_audio" and isinstance(held, Mapping):
        media = _read_audio(held, extras)
    elif kind == "file" and isinstance(held, Mapping):
        media = _read_file(held, extras)
        if held.get("file_id") is not None:
            left_over["messages.file.file_id"] = held["file_id"]
            return media
    if media is None:
        left_over[f"messages.{kind}"] = held
    return media


def _read_url(kind: Any, held: Any, extras: dict[str, Any]) -> Media | None:
    detail = None
    if isinstance(held, Mapping):
        detail = held.get("detail")
        held = held.get("url")
    if not isinstance(held, str):
        return None
    detail = detail if isinstance(detail, str) else None
    inline = read_data_uri(held)
    if inline is None:
        return Media(kind, None, url=held, detail=detail, extras=extras)
    return Media(kind, inline[0], data=inline[1], detail=detail, extras=extras)


def _read_audio(held: Mapping[str, Any], extras: dict[str, Any]) -> Media | None:
    data, form = held.get("data"), held.get("format")
    if not isinstance(data, str):
        return None
    mime_type = _AUDIO_TYPES.get(form, f"audio/{form}") if isinstance(form, str) else None
    return Media("audio", mime_type, data=data, extras=extras)


def _read_file(held: Mapping[str, Any], extras: dict[str, Any]) -> Media | None:
    data, name = held.get("file_data"), held.get("filename")
    if not isinstance(data, str):
        return None
    name = name if isinstance(name, str) else None
    inline = read_data_uri(data)
    if inline is not None:
        return Media("document", inline[0], data=inline[1], name=name, extras=extras)
    if data.startswith(("http://", "https://")):
        return Media("document", None, url=data, name=name, extras=extras)
    mime_type = stated_type(None, data)
    return Media("document", mime_type, data=data, name=name, extras=extras)


# --- The other way ---


def write_content(
    parts: Sequence[Text | Media], *, origin: ClientProtocol, report: LossReport
) -> str | list[dict[str, Any]] | None:
    """A `content` member; None when nothing of the parts can be said."""
    written = [
        part
        for part in (_write_part(part, origin=origin, report=report) for part in parts)
        if part is not None
    ]
    if not written:
        return None
    if len(written) == 1 and written[0].keys() == {"type", "text"}:
        text: str = written[0]["text"]
        return text
    return written


def _write_part(
    part: Text | Media, *, origin: ClientProtocol, report: LossReport
) -> dict[str, Any] | None:
    extras: Mapping[str, Any] = part.extras
    if origin is not ORIGIN:
        report_extras(origin, origin.parts, extras, report)
        extras = {}
    if isinstance(part, Text):
        return {"type": "text", "text": part.text, **extras}
    member = _write_media(part, origin=origin)
    if member is None:
        report.drop(spelled_media(origin, part))
        return None
    if part.name is not None and member["type"] != "file" and origin is not ORIGIN:
        report.drop(spelled(origin, "media.name"))
    return {**member, **extras}


def _write_media(media: Media, *, origin: ClientProtocol) -> dict[str, Any] | None:
    target = media.url if media.data is None else None
    if media.kind == "image":
        image: dict[str, Any] = {"url": data_uri(media) if target is None else target}
        if media.detail is not None:
            image["detail"] = media.detail
        return {"type": "image_url", "image_url": image}
    if media.kind == "video" and origin is ORIGIN:
        video: dict[str, Any] = {"url": data_uri(media) if target is None else target}
        if media.detail is not None:
            video["detail"] = media.detail
        return {"type": "video_url", "video_url": video}
    if media.kind == "audio" and media.data is not None:
        form = _AUDIO_FORMATS.get(media.mime_type or "")
        if form is None and origin is ORIGIN and media.mime_type is not None:
            form = media.mime_type.removeprefix("audio/")
        if form is not None:
            return {"type": "input_audio", "input_audio": {"data": media.data, "format": form}}
    if media.kind == "document":
        return _write_document(media, origin=origin)
    return None


def _write_document(media: Media, *, origin: ClientProtocol) -> dict[str, Any] | None:
    if media.data is None:
        # Documents by URL are not documented here; a chat client that sent one knows its upstream.
        if origin is not ORIGIN or media.url is None:
            return None
        file: dict[str, Any] = {"file_data": media.url}
    elif origin is not ORIGIN and (media.mime_type or "").startswith("text/"):
        text = text_of(media.data)
        return None if text is None else {"type": "text", "text": text}
    else:
        file = {"file_data": data_uri(media) if media.mime_type else media.data}
    if media.name is not None:
        file["filename"] = media.name
    elif origin is not ORIGIN:
        file["filename"] = _FILE_NAMES.get(media.mime_type or "", "document")
    return {"type": "file", "file": file}
