"""Read the parts of a gemini request into canonical ones.

Calls may come without ids: they get some, always the same, and results are put to the oldest call
of their name that nothing answered yet. What only this provider knows (code it ran, files it
stores) is kept in the extras of a text that tells the same to another model.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from channels.dialects.gemini.media import read_file, read_inline
from channels.dialects.gemini.names import camel_keys
from channels.dialects.gemini.signatures import Signature, read_signature
from channels.dialects.gemini.tool_results import read_response
from channels.families import GEMINI
from channels.json.text import dumps
from channels.translation.identifiers import made_id
from channels.translation.model import Media, Part, Text, Thinking, ToolCall, ToolResult
from channels.translation.open_calls import OpenCalls

# What a part is, by the member that holds it; looked for in this order.
_KINDS = ("functionCall", "functionResponse", "inlineData", "fileData", "text")
_DETAILS = {"MEDIA_RESOLUTION_LOW": "low", "MEDIA_RESOLUTION_HIGH": "high"}


@dataclass(frozen=True, slots=True)
class ThoughtPiece:
    """A thought, or a piece of one: the last may be signed."""

    text: str
    signature: Signature | None


class PartReader:
    """Reads the parts of one request, turn by turn; `left_over` are those we do not hold."""

    __slots__ = ("_count", "_names", "_open", "left_over")

    def __init__(self, left_over: dict[str, Any]) -> None:
        self.left_over = left_over
        self._names: dict[str, str] = {}  # of calls, by id
        self._open = OpenCalls()
        self._count = 0

    def __repr__(self) -> str:
        return f"<PartReader {self._count} calls, {self._open}>"

    def read(self, parts: Sequence[Any], *, is_model: bool) -> list[Part | ThoughtPiece]:
        """The parts of a turn, thoughts in the pieces they came in."""
        read: list[Part | ThoughtPiece] = []
        for stated in parts:
            if not isinstance(stated, Mapping):
                continue
            part = camel_keys(stated)
            text = part.get("text")
            if part.get("thought") is not True or not isinstance(text, str):
                read.extend(self._read_part(part))
                continue
            signature = read_signature(part.get("thoughtSignature"))
            if not is_model:
                self.left_over["contents.parts.thought"] = True
            elif text or signature is not None:
                read.append(ThoughtPiece(text, signature))
        return read

    def _read_part(self, part: Mapping[str, Any]) -> list[Part]:
        kind = next((name for name in _KINDS if part.get(name) is not None), "")
        extras = {
            name: value
            for name, value in part.items()
            if value is not None and name not in (kind, "thoughtSignature", "text")
        }
        if extras.get("thought") is False:
            del extras["thought"]
        signature = read_signature(part.get("thoughtSignature"))
        if kind == "functionCall":
            return [self._read_call(part[kind], extras, signature)]
        read: list[Part] = []
        if kind == "functionResponse":
            read.append(self._read_result(part[kind], extras))
        elif kind in ("inlineData", "fileData"):
            read.append(_media(kind, part[kind], extras))
        else:
            text = part.get("text")
            words = text if isinstance(text, str) else text_of_code(part)
            if words or extras:
                read.append(Text(words, extras))
        if signature is not None:
            read.append(_signed("", signature))
        return read

    def _read_call(
        self, stated: Any, extras: dict[str, Any], signature: Signature | None
    ) -> ToolCall:
        call = camel_keys(stated) if isinstance(stated, Mapping) else {}
        self._count += 1
        name = _string(call, "name")
        call_id = _string(call, "id") or made_id(GEMINI.protocol, str(self._count), name)
        self._names[call_id] = name
        self._open.add(name, call_id)
        args = call.get("args")
        extras.update(_rest("functionCall", call, ("id", "name", "args")))
        return ToolCall(
            call_id,
            name,
            dumps({} if args is None else args).decode(),
            signature=None if signature is None else signature.value,
            signer=None if signature is None else signature.signer,
            extras=extras,
        )

    def _read_result(self, stated: Any, extras: dict[str, Any]) -> ToolResult:
        result = camel_keys(stated) if isinstance(stated, Mapping) else {}
        name = _string(result, "name")
        call_id = _string(result, "id") or self._oldest_open(name)
        self._open.resolve_named(name, call_id)
        texts, is_error = read_response(result.get("response"))
        parts: list[Text | Media] = list(texts)
        media = result.get("parts")
        for one in media if isinstance(media, list) else ():
            for found in self._read_part(camel_keys(one)) if isinstance(one, Mapping) else ():
                if isinstance(found, Text | Media):
                    parts.append(found)
        extras.update(_rest("functionResponse", result, ("id", "name", "response", "parts")))
        return ToolResult(
            call_id,
            name or self._names.get(call_id),
            tuple(parts),
            is_error=is_error,
            extras=extras,
        )

    def _oldest_open(self, name: str) -> str:
        if (call_id := self._open.oldest(name)) is not None:
            return call_id
        self._count += 1
        return made_id(GEMINI.protocol, "result", str(self._count), name)


def joined(parts: Iterable[Part | ThoughtPiece]) -> tuple[Part, ...]:
    """The parts with neighbouring pieces as one thought; a signature ends it."""
    whole: list[Part] = []
    thought: list[str] = []  # the pieces of the one that goes on
    for part in parts:
        is_piece = isinstance(part, ThoughtPiece)
        signature = part.signature if isinstance(part, ThoughtPiece) else None
        if thought and (not is_piece or (signature is not None and signature.is_redacted)):
            whole.append(Thinking("".join(thought)))
            thought = []
        if not isinstance(part, ThoughtPiece):
            whole.append(part)
            continue
        thought.append(part.text)
        if signature is not None:
            whole.append(_signed("".join(thought), signature))
            thought = []
    if thought:
        whole.append(Thinking("".join(thought)))
    return tuple(whole)


def text_of_code(part: Mapping[str, Any]) -> str:
    """Code that the provider ran, or what came of it, in words; empty for anything else."""
    code, outcome = part.get("executableCode"), part.get("codeExecutionResult")
    if isinstance(code, Mapping):
        language = _string(code, "language").lower()
        if language == "language_unspecified":
            language = ""
        return f"\n```{language}\n{_string(code, 'code').rstrip()}\n```\n"
    if isinstance(outcome, Mapping):
        return f"\n```\n{_string(outcome, 'output').rstrip()}\n```\n"
    return ""


def _media(kind: str, value: Any, extras: dict[str, Any]) -> Text | Media:
    if kind == "inlineData":
        media = read_inline(value, extras)
    else:
        media = read_file(value, extras)
    if media is None:
        return Text(_address(value), {**extras, kind: value})
    resolution = extras.get("mediaResolution")
    level = resolution.get("level") if isinstance(resolution, Mapping) else None
    if isinstance(level, str) and level in _DETAILS:
        rest = {name: held for name, held in extras.items() if name != "mediaResolution"}
        media = replace(media, detail=_DETAILS[level], extras=rest)
    return media


def _address(value: Any) -> str:
    """What can be said of a file that only the provider has: how it is called."""
    held = camel_keys(value) if isinstance(value, Mapping) else {}
    name = _string(held, "displayName") or _string(held, "fileUri")
    return f"[{name}]" if name else ""


def _signed(text: str, signature: Signature) -> Thinking:
    if signature.is_redacted:
        return Thinking(text, redacted=signature.value, signer=signature.signer)
    return Thinking(text, signature=signature.value, signer=signature.signer)


def _rest(path: str, value: Mapping[str, Any], known: tuple[str, ...]) -> dict[str, Any]:
    return {
        f"{path}.{name}": held
        for name, held in value.items()
        if name not in known and held is not None
    }


def _string(value: Mapping[str, Any], name: str) -> str:
    held = value.get(name)
    return held if isinstance(held, str) else ""
