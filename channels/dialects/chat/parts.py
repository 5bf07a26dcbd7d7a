"""The content of chat-completions messages, both ways: text, images, audio, files.

A string and an array of parts are equivalent. Parts outside the canonical model are left over by
name, for the report.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from channels.families import CHAT, GEMINI, MESSAGES, RESPONSES
from channels.translation.model import (
    ClientProtocol,
    Media,
    MediaKind,
    Protocol,
    Refusal,
    Text,
    Thinking,
    data_uri,
    inline_media,
    is_text,
    read_data_uri,
    stated_type,
    text_of,
)

# The names of request members in chat-completions, to report what was dropped.
#
# Keys are fields of `channels/translation/model.py`, values this protocol's names, dotted and
# without indices. A field without a name here cannot be in a chat-completions request.

_NAMES = {
    "parallel_tools": "parallel_tool_calls",
    "stop": "stop",
    "count": "n",
    "format": "response_format",
    "format.name": "response_format.json_schema.name",
    "format.description": "response_format.json_schema.description",
    "format.schema": "response_format.json_schema.schema",
    "format.is_strict": "response_format.json_schema.strict",
    "reasoning.effort": "reasoning_effort",
    "reasoning.budget_tokens": "reasoning_effort",
    "reasoning.is_enabled": "reasoning_effort",
    "reasoning.shows_thoughts": "reasoning_effort",
    "tools.name": "tools.function.name",
    "tools.description": "tools.function.description",
    "tools.parameters": "tools.function.parameters",
    "tools.is_strict": "tools.function.strict",
    "tool_choice.allowed": "tool_choice.allowed_tools",
    "turn.role": "messages.role",
    "turn.name": "messages.name",
    "system": "messages",
    "thinking": "messages.reasoning_content",
    "call.arguments": "messages.tool_calls.function.arguments",
    "call.signature": "messages.tool_calls.extra_content",
    "image": "messages.image_url",
    "document": "messages.file",
    "audio": "messages.input_audio",
    "video": "messages.video_url",
    "media.detail": "messages.image_url.detail",
    "media.name": "messages.file.filename",
}

# Values equivalent to leaving the member out.
_NEUTRAL = {
    "store": False,
    "logprobs": False,
    "top_logprobs": 0,
    "logit_bias": {},
    "metadata": {},
    "modalities": ["text"],
    "verbosity": "medium",
    "service_tier": "auto",
    "stream_options.include_obfuscation": False,
}

# The provider of these members: another of its protocols shares some of their names.
PROVIDER = "openai"

ORIGIN = ClientProtocol(
    protocol=CHAT.protocol,
    names=_NAMES,
    neutral=_NEUTRAL,
    modalities="modalities",
    provider=PROVIDER,
)


_AUDIO_FORMATS = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}
_AUDIO_TYPES = {"wav": "audio/wav", "mp3": "audio/mpeg"}
# The protocol requires a name for every inline file.
_FILE_NAMES = {"application/pdf": "document.pdf"}


def read_content(content: Any, left_over: dict[str, Any]) -> list[Text | Media | Refusal]:
    """Decode the parts of a `content` member; unknown ones go to `left_over` by name."""
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
    payload = part.get(kind) if isinstance(kind, str) else None
    if isinstance(payload, str) and kind in ("text", "refusal"):
        if kind == "refusal":
            return Refusal(payload)
        return Text(payload, extras) if payload else None
    read = _MEDIA.get(kind) if isinstance(kind, str) else None
    media = None if read is None else read(payload, extras)
    if kind == "file" and isinstance(payload, Mapping) and payload.get("file_id") is not None:
        left_over["messages.file.file_id"] = payload["file_id"]
    elif media is None:
        left_over[f"messages.{kind}"] = payload
    return media


def read_url(payload: Any, extras: dict[str, Any], *, kind: MediaKind, member: str) -> Media | None:
    detail = None
    if isinstance(payload, Mapping):
        detail = payload.get("detail")
        payload = payload.get("url")
    if not isinstance(payload, str):
        return None
    detail = detail if isinstance(detail, str) else None
    inline = read_data_uri(payload)
    if inline is None:
        return Media(kind, None, url=payload, detail=detail, extras=extras)
    return inline_media(kind, *inline, member=member, detail=detail, extras=extras)


def read_audio(payload: Any, extras: dict[str, Any]) -> Media | None:
    if not isinstance(payload, Mapping):
        return None
    data, form = payload.get("data"), payload.get("format")
    if not isinstance(data, str):
        return None
    mime_type = _AUDIO_TYPES.get(form, f"audio/{form}") if isinstance(form, str) else None
    return inline_media(
        "audio", stated_type(mime_type, data), data, member="input_audio", extras=extras
    )


def read_file(payload: Any, extras: dict[str, Any], *, member: str = "file") -> Media | None:
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
        return Media("document", None, url=data, name=name, extras=extras)
    mime_type = stated_type(None, data)
    return inline_media("document", mime_type, data, member=member, name=name, extras=extras)


_MEDIA: Mapping[str, Callable[[Any, dict[str, Any]], Media | None]] = {
    "image_url": partial(read_url, kind="image", member="image_url"),
    "video_url": partial(read_url, kind="video", member="video_url"),
    "input_audio": read_audio,
    "file": read_file,
}


# --- The other way ---


def _write_media(media: Media, *, origin: ClientProtocol) -> dict[str, Any] | None:
    if media.kind == "image" or (media.kind == "video" and origin is ORIGIN):
        target = media.url if media.data is None else None
        payload: dict[str, Any] = {"url": data_uri(media) if target is None else target}
        if media.detail is not None:
            payload["detail"] = media.detail
        return {"type": f"{media.kind}_url", f"{media.kind}_url": payload}
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
        # Documents by URL are undocumented; a chat client that sends one knows its upstream.
        if origin is not ORIGIN or media.url is None:
            return None
        file: dict[str, Any] = {"file_data": media.url}
    elif origin is not ORIGIN and is_text(media):
        text = text_of(media.data)
        return None if text is None else {"type": "text", "text": text}
    else:
        file = {"file_data": data_uri(media) if media.mime_type else media.data}
    if media.name is not None:
        file["filename"] = media.name
    elif origin is not ORIGIN:
        file["filename"] = _FILE_NAMES.get(media.mime_type or "", "document")
    return {"type": "file", "file": file}


# Thinking in chat-completions: text beside the content, and an envelope that proves it.
#
# The protocol documents neither. `reasoning_content` is the text that many upstreams send and many
# clients show; `reasoning_details` is the array in which clients of other gateways already keep
# signatures between turns. Each entry is complete by itself, so that a client only has to return
# it:

_FORMATS: Mapping[Protocol, str] = {
    MESSAGES.protocol: "anthropic-claude-v1",
    GEMINI.protocol: "google-gemini-v1",
    RESPONSES.protocol: "openai-responses-v1",
    CHAT.protocol: "chat-completions-v1",
}
_SIGNERS: Mapping[str, Protocol] = {name: signer for signer, name in _FORMATS.items()}
# The member with a tool call's signature, by its signer.
_CALL_SIGNERS: Mapping[Protocol, str] = {
    GEMINI.protocol: "google",
    MESSAGES.protocol: "anthropic",
    RESPONSES.protocol: "openai",
    CHAT.protocol: "chat",
}


def read_thinking(message: Mapping[str, Any]) -> list[Thinking]:
    """Decode the thinking of a message: the proven thoughts, else the bare text."""
    details = message.get("reasoning_details")
    entries = [
        thinking
        for entry in (details if isinstance(details, list) else ())
        if isinstance(entry, Mapping) and (thinking := read_entry(entry)) is not None
    ]
    if text := bare_text(message):
        entries = [Thinking(text), *(thinking for thinking in entries if is_proven(thinking))]
    return settled(entries)


def settled(thoughts: Sequence[Thinking]) -> list[Thinking]:
    """Return the proven thoughts, preceded by the others' text if no proven one has text.

    The bare text repeats the proven ones.
    """
    found = [thinking for thinking in thoughts if is_proven(thinking)]
    if not any(thinking.text for thinking in found):
        text = "".join(thinking.text for thinking in thoughts)
        if text:
            found.insert(0, Thinking(text))
    return found


def bare_text(message: Mapping[str, Any]) -> str:
    """Return the thinking's text outside the envelope: under either name, or in the content."""
    for name in ("reasoning_content", "reasoning"):
        text = message.get(name)
        if isinstance(text, str) and text:
            return text
    content = message.get("content")
    return text_in_content(content) if isinstance(content, list) else ""


def text_in_content(content: Iterable[Any]) -> str:
    """Return the thinking that some upstreams send as parts of the content."""
    texts: list[str] = []
    for part in content:
        if isinstance(part, Mapping) and part.get("type") == "thinking":
            thought = part.get("thinking")
            pieces = thought if isinstance(thought, list) else [thought]
            for piece in pieces:
                text = piece.get("text") if isinstance(piece, Mapping) else piece
                if isinstance(text, str):
                    texts.append(text)
    return "".join(texts)


def read_entry(entry: Mapping[str, Any]) -> Thinking | None:
    """Decode one entry of the envelope; None if it has nothing known."""
    signer = _SIGNERS.get(_string(entry, "format") or "")
    data, signature = _string(entry, "data"), _string(entry, "signature")
    if data:
        return None if signer is None else Thinking("", redacted=data, signer=signer)
    text = _string(entry, "text") or _string(entry, "summary") or ""
    if signature and signer is not None:
        return Thinking(text, signature=signature, signer=signer)
    return Thinking(text) if text else None


def members_of(parts: Iterable[Thinking]) -> dict[str, Any]:
    """Return the members for these thoughts: their text, and the envelope of the proven ones."""
    members: dict[str, Any] = {}
    texts = []
    details: list[dict[str, Any]] = []
    for part in parts:
        texts.append(part.text)
        if is_proven(part):
            details.append(entry_of(part, index=len(details)))
    if text := "".join(texts):
        members["reasoning_content"] = text
    if details:
        members["reasoning_details"] = details
    return members


def is_proven(part: Thinking) -> bool:
    """Whether the thought has a signature or redacted data, and a known signer."""
    return part.signer is not None and bool(part.signature or part.redacted)


def entry_of(part: Thinking, *, index: int) -> dict[str, Any]:
    """Return the envelope's entry for one proven thought."""
    assert part.signer is not None, part
    tag = {"index": index, "format": _FORMATS[part.signer]}
    if part.redacted is not None:
        return {"type": "reasoning.encrypted", **tag, "data": part.redacted}
    return {"type": "reasoning.text", **tag, "text": part.text, "signature": part.signature}


def read_call_signature(call: Mapping[str, Any]) -> tuple[str | None, Protocol | None]:
    """Return the signature of a tool call, and its signer."""
    extra = call.get("extra_content")
    if isinstance(extra, Mapping):
        for signer, name in _CALL_SIGNERS.items():
            payload = extra.get(name)
            if isinstance(payload, Mapping) and (
                signature := _string(payload, "thought_signature")
            ):
                return signature, signer
    return None, None


def call_signature(signature: str | None, signer: Protocol | None) -> dict[str, Any]:
    """Return the member of a tool call with its signature; empty without one."""
    if signature is None or signer is None:
        return {}
    return {"extra_content": {_CALL_SIGNERS[signer]: {"thought_signature": signature}}}


def _string(entry: Mapping[str, Any], name: str) -> str | None:
    value = entry.get(name)
    return value if isinstance(value, str) else None
