"""Encodes parts of a request or a response in the gemini protocol.

For requests that came in it, and for its clients: nothing is lost, and foreign signatures are sent
in an envelope. `encode.py` encodes other protocols' parts for an upstream.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from channels.families import GEMINI, MESSAGES
from channels.json.lenient import dumps
from channels.translation import signatures as envelope
from channels.translation.call_arguments import arguments_object, object_in
from channels.translation.model import (
    ClientProtocol,
    Media,
    MediaKind,
    Part,
    Protocol,
    Refusal,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    kind_of,
    read_data_uri,
    stated_type,
)
from channels.translation.signatures import Turn, edited
from channels.translation.tool_calls import IdentifierLimits

# Names in the gemini protocol: members in two spellings, and the names of functions.
#
# Upstreams accept both `generationConfig` and `generation_config`, and so does the gateway; the
# client's own names (in arguments, results, schemas' properties) are unchanged.

_UNDERSCORE = re.compile(r"(?<=[A-Za-z0-9])_([a-z0-9])")


def camel_keys(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return an object's members in camel case, which overrides the other spelling."""
    if not any("_" in name for name in value):
        return value
    renamed = {_camel(name): payload for name, payload in value.items()}
    return {**renamed, **{name: payload for name, payload in value.items() if name in renamed}}


def _camel(name: str) -> str:
    return _UNDERSCORE.sub(lambda match: match[1].upper(), name)


@dataclass(frozen=True)
class _GeminiLimits(IdentifierLimits):
    """Limits of names: a function's begins with a letter or an underscore; ids have no limit."""

    def name(self, name: str) -> str:
        fitted = super().name(name)
        if fitted[0].isalpha() or fitted[0] == "_":
            return fitted
        # The dot forces a change of the name, so that it differs from any real one.
        return super().name(f"_{name}.")

    def call_id(self, call_id: str) -> str:
        return call_id


LIMITS = _GeminiLimits(name_characters_max=64, id_characters_max=0)


# Media in the gemini protocol, both ways: inline data, and files by URL.
#
# Files stored at the provider mean nothing to another one. Nothing is fetched here.

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
_STANDARD = str.maketrans("-_", "+/")


def standard_base64(data: str) -> str:
    """Return base64 in the standard alphabet, padded: official clients send the other one."""
    if "-" in data or "_" in data:
        data = data.translate(_STANDARD)
    return data + "=" * (-len(data) % 4)


def read_inline(value: Any, extras: Mapping[str, Any] | None = None) -> Media | None:
    """Return the medium of an `inlineData` member; None without data."""
    payload = camel_keys(value) if isinstance(value, Mapping) else {}
    data = payload.get("data")
    if not isinstance(data, str) or not data:
        return None
    data = standard_base64(data)
    mime_type = stated_type(_string(payload, "mimeType"), data)
    name = _string(payload, "displayName")
    return Media(kind_of(mime_type), mime_type, data=data, name=name, extras=extras or {})


def read_file(value: Any, extras: Mapping[str, Any] | None = None) -> Media | None:
    """Return the medium of a `fileData` member; None for a file that only the provider has."""
    payload = camel_keys(value) if isinstance(value, Mapping) else {}
    address, mime_type = _string(payload, "fileUri") or "", _string(payload, "mimeType")
    name = _string(payload, "displayName")
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


def write_media(media: Media, *, guesses_type: bool) -> dict[str, Any]:
    """Encode a medium as a part; `guesses_type` if the client need not state one."""
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
    except ValueError:  # the upstream that fetches it reports the fault
        return None


def _type_by_name(address: str) -> str | None:
    try:
        path = urlsplit(address).path
    except ValueError:
        return None
    return _TYPES.get(path.rpartition(".")[2].lower())


def _string(payload: Mapping[str, Any], name: str) -> str | None:
    value = payload.get(name)
    return value if isinstance(value, str) and value else None


# Thought signatures in the gemini protocol: its own, foreign ones, and the value that skips the
# check.
#
# The field is base64, and official clients refuse anything else in it; a foreign signature is sent
# as base64 of its tagged envelope (`channels/translation/signatures.py`). Clients return it in
# either alphabet of base64.
#
# Newer upstreams require a signature on the first of a turn's function calls. Clients of protocols
# without signatures cannot return it: for them the provider documents a value that skips the check.

ESCAPE = "skip_thought_signature_validator"

_ESCAPES = frozenset(
    (
        ESCAPE,
        base64.b64encode(ESCAPE.encode()).decode(),
        base64.urlsafe_b64encode(ESCAPE.encode()).decode(),
        "context_engineering_is_the_way_to_go",
    )
)
# The prefix of every sealed signature; the base64 after it depends on the rest of the envelope.
SEALED = base64.b64encode(envelope.TAG.encode()).decode()[:14]
_REDACTED = "redacted:"


@dataclass(frozen=True, slots=True)
class Signature:
    """The content of a `thoughtSignature`: a signature, or opaque data in place of a thought."""

    value: str
    signer: Protocol
    is_redacted: bool = False


def read_signature(text: object) -> Signature | None:
    """Return the signature; None without one, and for the value that skips the check."""
    if not isinstance(text, str) or not text or text in _ESCAPES:
        return None
    if not text.startswith(SEALED):
        return Signature(text, GEMINI.protocol)
    value, signer = envelope.opened(_unwrapped(text), own=GEMINI.protocol)
    if signer == GEMINI.protocol:
        return Signature(text, GEMINI.protocol)
    if value.startswith(_REDACTED):
        return Signature(value.removeprefix(_REDACTED), signer, is_redacted=True)
    return Signature(value, signer)


def write_signature(value: str, signer: Protocol | None) -> str:
    """Return the field for a signature; this protocol's own is unchanged."""
    if signer is None or signer == GEMINI.protocol:
        return value
    return _wrapped(envelope.sealed(value, signer, own=GEMINI.protocol))


def write_redacted(data: str, signer: Protocol | None) -> str:
    """Return the field for opaque data, which this protocol does not have itself."""
    whose = signer or MESSAGES.protocol
    return _wrapped(envelope.sealed(_REDACTED + data, whose, own=GEMINI.protocol))


def _wrapped(text: str) -> str:
    return base64.b64encode(text.encode("utf-8", "replace")).decode("ascii")


def _unwrapped(text: str) -> str:
    """Return the text within; empty if the field is not valid base64 of UTF-8."""
    padded = text + "=" * (-len(text) % 4)
    try:
        return base64.b64decode(padded.translate(_STANDARD), validate=True).decode("utf-8")
    except (ValueError, binascii.Error):
        return ""


# Results of functions, which are objects in the gemini protocol, both ways.
#
# In other protocols a result is text. The protocol itself looks for text in `output` and `error`,
# and for a reference to the result's media in `$ref` at any depth; an object without these is the
# whole result, which is its JSON in other protocols.

_OUTPUT = "output"
_ERROR = "error"
_REFERENCE = "$ref"


def read_response(response: Any) -> tuple[tuple[Text, ...], bool]:
    """Return the texts of a `response` member, empty if it is, and whether it is an error."""
    if not isinstance(response, Mapping):
        return (), False
    is_error = False
    value: Any = response
    if len(response) == 1:
        name, payload = next(iter(response.items()))
        is_error = name == _ERROR and payload is not None
        if is_error or name == _OUTPUT:
            value = payload
    text = value if isinstance(value, str) else dumps(value).decode()
    return ((Text(text),) if text else ()), is_error


def write_response(texts: Sequence[str], *, is_error: bool, is_exact: bool) -> dict[str, Any]:
    """Return the `response` member. `is_exact`: JSON is only decoded if it is in compact form.

    Text that is a JSON object becomes that object, unless it would be decoded differently, or the
    provider gives one of its keys a meaning of its own.
    """
    text = "\n".join(texts)
    if is_error:
        return {_ERROR: text}
    value = object_in(text) if text.strip() else None
    if value is None or not value.keys().isdisjoint((_OUTPUT, _ERROR)):
        return {_OUTPUT: text}
    if (_REFERENCE in text or "\\u" in text) and _has_reference(value):
        return {_OUTPUT: text}
    if is_exact and dumps(value).decode() != text:
        return {_OUTPUT: text}
    return value


def _has_reference(value: Any) -> bool:
    """Whether an object within a value has a member that the provider would resolve."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Mapping):
            if _REFERENCE in one:
                return True
            waiting.extend(one.values())
        elif isinstance(one, list):
            waiting.extend(one)
    return False


_Written = dict[str, Any]
# Members that only the provider understands; a text is in their place for others.
_OWN = frozenset(("executableCode", "codeExecutionResult", "inlineData", "fileData"))
_RESOLUTIONS = {"low": "MEDIA_RESOLUTION_LOW", "high": "MEDIA_RESOLUTION_HIGH"}


class GeminiWriter:
    """Encodes the parts of a turn; `calls`: those so far, for the names of their results."""

    __slots__ = ("_calls",)

    def __init__(self, calls: Mapping[str, ToolCall]) -> None:
        self._calls = calls

    def __repr__(self) -> str:
        return f"<GeminiWriter {len(self._calls)} calls>"

    def write(self, parts: Sequence[Part]) -> list[_Written]:
        """Encode the parts of a request's turn."""
        written: list[_Written] = []
        for part in parts:
            if isinstance(part, ToolResult):
                written.append(self._result(part))
            elif isinstance(part, Thinking) and not (part.text or part.redacted):
                _sign_last(written, part)
            else:
                written.append(write_part(part))
        prove_calls(written)
        return written

    def _result(self, result: ToolResult) -> _Written:
        texts = [part.text for part in result.parts if isinstance(part, Text)]
        media = [write_part(part) for part in result.parts if isinstance(part, Media)]
        call = self._calls.get(result.call_id)
        name = result.name or (call.name if call is not None else "")
        function: _Written = {
            "id": result.call_id,
            "name": name,
            "response": write_response(texts, is_error=result.is_error, is_exact=True),
        }
        if media:
            function["parts"] = media
        return restored({"functionResponse": function}, result.extras)


def write_part(part: Part) -> _Written:
    """Encode a part of a response, or one of a request that does not depend on others."""
    if isinstance(part, Text):
        return restored({"text": part.text}, part.extras)
    if isinstance(part, ToolCall):
        function = {"id": part.id, "name": part.name, "args": arguments_object(part.arguments)}
        written: _Written = {"functionCall": function}
        if part.signature is not None:
            written["thoughtSignature"] = write_signature(part.signature, part.signer)
        return restored(written, part.extras)
    if isinstance(part, Thinking):
        return write_thinking(part, is_thought=True)
    if isinstance(part, Media):
        return _media(part)
    assert isinstance(part, Refusal), part
    return {"text": part.text}


def write_thinking(part: Thinking, *, is_thought: bool) -> _Written:
    """Encode a thought. `is_thought`: a signature without text belongs to an open thought."""
    written: _Written = {"text": part.text}
    if part.text or part.redacted or is_thought or part.signer not in (None, GEMINI.protocol):
        written["thought"] = True
    if part.redacted:
        written["thoughtSignature"] = write_redacted(part.redacted, part.signer)
    elif part.signature:
        written["thoughtSignature"] = write_signature(part.signature, part.signer)
    return written


def restored(written: _Written, extras: Mapping[str, Any]) -> _Written:
    """Restore a part's own members; `a.b` is the member b of the part's member a."""
    if not extras:
        return written
    for name, value in extras.items():
        parent, dot, last = name.partition(".")
        if dot and isinstance(written.get(parent), dict):
            written[parent][last] = value
        else:
            written[name] = value
    if not _OWN.isdisjoint(extras):
        written.pop("text", None)  # it is for other upstreams only
    return written


def prove_calls(parts: Sequence[_Written]) -> None:
    """Set the value that skips the check on a turn's first call, if no call is signed."""
    calls = [part for part in parts if "functionCall" in part]
    if calls and not any("thoughtSignature" in call for call in calls):
        calls[0]["thoughtSignature"] = ESCAPE


def _sign_last(written: list[_Written], part: Thinking) -> None:
    """Add a signature to the last text or medium, else as a part of its own."""
    if not part.signature:
        return
    last = written[-1] if written else {}
    if (
        part.signer in (None, GEMINI.protocol)
        and "thought" not in last
        and "thoughtSignature" not in last
        and ("text" in last or "inlineData" in last or "fileData" in last)
    ):
        last["thoughtSignature"] = part.signature
    else:
        written.append(write_thinking(part, is_thought=False))


def _media(media: Media) -> _Written:
    written = write_media(media, guesses_type=False)
    if media.name is not None:
        next(iter(written.values()))["displayName"] = media.name
    if media.detail in _RESOLUTIONS:
        written["mediaResolution"] = {"level": _RESOLUTIONS[media.detail]}
    return restored(written, media.extras)


# The members of requests as gemini's clients call them, for reports of losses.
#
# Left the field of `channels/translation/model.py`, right this protocol's name, dotted and without
# indices. A field without a name cannot have come in this protocol.

_NAMES = {
    "tool_choice": "toolConfig.functionCallingConfig",
    "tool_choice.allowed": "toolConfig.functionCallingConfig.allowedFunctionNames",
    "temperature": "generationConfig.temperature",
    "top_p": "generationConfig.topP",
    "top_k": "generationConfig.topK",
    "stop": "generationConfig.stopSequences",
    "seed": "generationConfig.seed",
    "frequency_penalty": "generationConfig.frequencyPenalty",
    "presence_penalty": "generationConfig.presencePenalty",
    "count": "generationConfig.candidateCount",
    "format": "generationConfig.responseMimeType",
    "format.name": "generationConfig.responseSchema",
    "format.description": "generationConfig.responseSchema",
    "format.is_strict": "generationConfig.responseSchema",
    "reasoning.effort": "generationConfig.thinkingConfig.thinkingLevel",
    "reasoning.budget_tokens": "generationConfig.thinkingConfig.thinkingBudget",
    "reasoning.is_enabled": "generationConfig.thinkingConfig",
    "reasoning.shows_thoughts": "generationConfig.thinkingConfig.includeThoughts",
    "tools.name": "tools.functionDeclarations.name",
    "tools.description": "tools.functionDeclarations.description",
    "tools.parameters": "tools.functionDeclarations.parameters",
    "turn.role": "contents.role",
    "system": "systemInstruction",
    "thinking": "contents.parts.thought",
    "call.arguments": "contents.parts.functionCall.args",
    "call.signature": "contents.parts.thoughtSignature",
    "image": "contents.parts.inlineData",
    "document": "contents.parts.inlineData",
    "audio": "contents.parts.inlineData",
    "video": "contents.parts.inlineData",
    "media.url": "contents.parts.fileData",
    "media.detail": "contents.parts.mediaResolution",
    "media.name": "contents.parts.inlineData.displayName",
    "is_error": "contents.parts.functionResponse.response.error",
}

# Values with the same meaning as an absent member.
_NEUTRAL = {
    "safetySettings": [],
    "labels": {},
    "generationConfig.responseModalities": ["TEXT"],
    "generationConfig.responseLogprobs": False,
    "generationConfig.enableEnhancedCivicAnswers": False,
    "generationConfig.audioTimestamp": False,
    "generationConfig.mediaResolution": "MEDIA_RESOLUTION_UNSPECIFIED",
    "toolConfig.functionCallingConfig.streamFunctionCallArguments": False,
    "toolConfig.includeServerSideToolInvocations": False,
    "tools.functionDeclarations.behavior": "BLOCKING",
    "contents.parts.functionResponse.willContinue": False,
}

ORIGIN = ClientProtocol(
    protocol=GEMINI.protocol,
    names=_NAMES,
    neutral=_NEUTRAL,
    turns="contents",
    parts="contents.parts.",
    tools="tools.functionDeclarations.",
)


# Removes other providers' signatures from a request that is not translated.
#
# `channels/translation/signatures.py` explains why they are there.


def without_foreign(body: bytes, outline: bytes) -> bytes:
    """Return the body without foreign signatures; the same bytes if there are none."""
    if SEALED.encode() not in outline:
        return body
    return edited(body, "contents", _without_in_content)


def _without_in_content(content: Turn) -> Turn | None:
    parts = content.get("parts")
    if not isinstance(parts, list):
        return content
    read = [camel_keys(part) if isinstance(part, Mapping) else part for part in parts]
    kept = [left for part in read if (left := _without_in_part(part)) is not None]
    if kept == read:
        return content
    prove_calls([part for part in kept if isinstance(part, dict)])
    return {**content, "parts": kept} if kept else None


def _without_in_part(part: Any) -> Any:
    """Return the part without a foreign signature; None for a thought, or if nothing is left."""
    signature = read_signature(part.get("thoughtSignature")) if isinstance(part, Mapping) else None
    if signature is None or signature.signer == GEMINI.protocol:
        return part
    rest = {name: value for name, value in part.items() if name != "thoughtSignature"}
    return None if rest.get("thought") is True or rest in ({}, {"text": ""}) else rest
