"""The content of chat-completions messages, both ways: text, images, audio, files.

A string and an array of parts are equivalent. Parts outside the canonical model are left over by
name, for the report.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from channels.translation import losses, model
from channels.translation.media import (
    data_uri,
    inline_media,
    is_text,
    linked_media,
    read_data_uri,
    stated_type,
    text_of,
)

_AUDIO_FORMATS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}
_AUDIO_TYPES = {"wav": "audio/wav", "mp3": "audio/mpeg"}
# The protocol requires a name for every inline file.
_FILE_NAMES = {"application/pdf": "document.pdf"}


def read_content(
    content: object, left_over: dict[str, object]
) -> list[model.Text | model.Media | model.Refusal]:
    """Decode the parts of a `content` member; unknown ones go to `left_over` by name."""
    if isinstance(content, str):
        return [model.Text(content)] if content else []
    parts: list[model.Text | model.Media | model.Refusal] = []
    for part in content if isinstance(content, list) else ():
        if isinstance(part, str):
            parts.append(model.Text(part))
        elif isinstance(part, Mapping) and (read := _read_part(part, left_over)) is not None:
            parts.append(read)
    return parts


def _read_part(
    part: Mapping[str, object], left_over: dict[str, object]
) -> model.Text | model.Media | model.Refusal | None:
    kind = part.get("type")
    extras = {
        name: value
        for name, value in part.items()
        if name not in ("type", kind) and value is not None
    }
    payload = part.get(kind) if isinstance(kind, str) else None
    if isinstance(payload, str) and kind in ("text", "refusal"):
        if kind == "refusal":
            return model.Refusal(payload)
        return model.Text(payload, extras) if payload else None
    read = _MEDIA.get(kind) if isinstance(kind, str) else None
    media = None if read is None else read(payload, extras)
    if kind == "file" and isinstance(payload, Mapping) and payload.get("file_id") is not None:
        left_over["messages.file.file_id"] = payload["file_id"]
    elif media is None:
        left_over[f"messages.{kind}"] = payload
    return media


def read_url(
    payload: object, extras: dict[str, object], *, kind: model.MediaKind, member: str
) -> model.Media | None:
    detail = None
    if isinstance(payload, Mapping):
        detail = payload.get("detail")
        payload = payload.get("url")
    if not isinstance(payload, str):
        return None
    detail = detail if isinstance(detail, str) else None
    inline = read_data_uri(payload)
    if inline is None:
        return linked_media(kind, payload, member=member, detail=detail, extras=extras)
    return inline_media(kind, *inline, member=member, detail=detail, extras=extras)


def read_audio(payload: object, extras: dict[str, object]) -> model.Media | None:
    if not isinstance(payload, Mapping):
        return None
    data, form = payload.get("data"), payload.get("format")
    if not isinstance(data, str):
        return None
    mime_type = _AUDIO_TYPES.get(form, f"audio/{form}") if isinstance(form, str) else None
    return inline_media(
        "audio", stated_type(mime_type, data), data, member="input_audio", extras=extras
    )


def read_file(
    payload: object, extras: dict[str, object], *, member: str = "file"
) -> model.Media | None:
    if not isinstance(payload, Mapping):
        return None
    data, name = payload.get("file_data"), payload.get("filename")
    if not isinstance(data, str):
        return None
    name = name if isinstance(name, str) else None
    inline = read_data_uri(data)
    if inline is not None:
        return inline_media("document", *inline, member=member, name=name, extras=extras)
    if data.startswith(("http://", "https://")):
        return linked_media("document", data, member=member, name=name, extras=extras)
    mime_type = stated_type(None, data)
    return inline_media("document", mime_type, data, member=member, name=name, extras=extras)


_MEDIA: Mapping[str, Callable[[object, dict[str, object]], model.Media | None]] = {
    "image_url": partial(read_url, kind="image", member="image_url"),
    "video_url": partial(read_url, kind="video", member="video_url"),
    "input_audio": read_audio,
    "file": read_file,
}


def _write_media(media: model.Media) -> dict[str, object] | None:
    if media.kind == "image":
        target = media.url if media.data is None else None
        payload: dict[str, object] = {"url": data_uri(media) if target is None else target}
        if media.detail is not None:
            payload["detail"] = media.detail
        return {"type": "image_url", "image_url": payload}
    if media.kind == "audio" and media.data is not None:
        form = _AUDIO_FORMATS.get(media.mime_type or "")
        if form is not None:
            return {"type": "input_audio", "input_audio": {"data": media.data, "format": form}}
    if media.kind == "document":
        return _write_document(media)
    return None


def _write_document(media: model.Media) -> dict[str, object] | None:
    """Return an inline document; those by URL are undocumented."""
    if media.data is None:
        return None
    if is_text(media):
        text = text_of(media.data)
        return None if text is None else {"type": "text", "text": text}
    data = data_uri(media) if media.mime_type else media.data
    name = media.name
    if name is None:
        name = _FILE_NAMES.get(media.mime_type or "", "document")
    return {"type": "file", "file": {"file_data": data, "filename": name}}


def write_content(
    parts: Sequence[model.Text | model.Media],
    *,
    origin: model.ClientProtocol,
    report: losses.LossReport,
) -> str | list[dict[str, object]] | None:
    """Return a `content` member; None if no part can be encoded."""
    written = [
        part
        for part in (_write_part(part, origin=origin, report=report) for part in parts)
        if part is not None
    ]
    if not written:
        return None
    only = written[0]
    if len(written) == 1 and only.keys() == {"type", "text"} and isinstance(only["text"], str):
        return only["text"]
    return written


def _write_part(
    part: model.Text | model.Media, *, origin: model.ClientProtocol, report: losses.LossReport
) -> dict[str, object] | None:
    losses.report_extras(origin, origin.parts, part.extras, report)
    if isinstance(part, model.Text):
        return {"type": "text", "text": part.text}
    member = _write_media(part)
    if member is None:
        losses.report_media(origin, part, report)
    elif part.name is not None and member["type"] != "file":
        report.drop(losses.spelled(origin, "media.name"))
    return member
