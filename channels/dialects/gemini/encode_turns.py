"""Write system texts and turns as the gemini protocol wants them.

Every function call of a turn is answered in the next one, in the order of the calls and by the
function's name; newer models want a signature on the first call of a turn. Thinking comes back only
with the proof that this provider gave it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from channels.dialects.gemini.media import write_media
from channels.dialects.gemini.names import LIMITS
from channels.dialects.gemini.origin import ORIGIN
from channels.dialects.gemini.tool_results import write_response
from channels.dialects.gemini.write_parts import GeminiWriter, prove_calls, restored
from channels.families import GEMINI
from channels.json.text import arguments_object, object_in
from channels.translation.field_names import spelled
from channels.translation.losses import LossReport
from channels.translation.model import (
    ClientProtocol,
    Media,
    Part,
    Refusal,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
    Turn,
)
from channels.translation.turns import unsayable
from channels.translation.unsupported import report_extras

# What stands in for the user where a conversation begins with a call.
_OPENING = "."

_Written = dict[str, Any]


class ContentWriter:
    """Writes the turns of one request, which came in the protocol `origin`."""

    __slots__ = ("_call_order", "_calls", "_origin", "_report")

    def __init__(self, origin: ClientProtocol, report: LossReport) -> None:
        self._origin = origin
        self._report = report
        self._calls: dict[str, ToolCall] = {}  # by id, in the order they were made
        self._call_order: dict[str, int] = {}  # of the calls, in that order

    def __repr__(self) -> str:
        return f"<ContentWriter from {self._origin.protocol}, {len(self._calls)} calls>"

    def write(
        self, system: Sequence[Text], turns: Iterable[Turn]
    ) -> tuple[_Written | None, list[_Written]]:
        """The `systemInstruction` member, None where there is none, and the contents.

        Raises InvalidRequest for a turn of which nothing can be said, and where there is none.
        """
        contents: list[_Written] = []
        for turn in turns:
            role = "user" if turn.role == "user" else "model"
            parts = self._write_turn(turn)
            if not parts and self._origin is not ORIGIN and not all(map(_is_system, turn.parts)):
                raise unsayable(self._origin)
            if contents and contents[-1]["role"] == role:
                contents[-1]["parts"].extend(parts)
            elif parts:
                contents.append({"role": role, "parts": parts})
        field = self._origin.system or "messages."
        system_texts = [self._text(text, field=field) for text in system]
        instruction = [part for part in system_texts if part is not None]
        if self._origin is not ORIGIN:
            if not contents:
                if not instruction:
                    raise unsayable(self._origin)
                # Instructions alone are no conversation here: they are what is asked.
                self._report.drop(spelled(self._origin, "turn.role"))
                return None, [{"role": "user", "parts": instruction}]
            if _begins_with_call(contents[0]):
                self._report.drop(spelled(self._origin, "turn.role"))
                contents.insert(0, {"role": "user", "parts": [{"text": _OPENING}]})
        return ({"parts": instruction} if instruction else None), contents

    def _write_turn(self, turn: Turn) -> list[_Written]:
        if self._origin is ORIGIN:
            for part in turn.parts:
                if isinstance(part, ToolCall):
                    self._calls[part.id] = part
            return GeminiWriter(self._calls).write(turn.parts)
        if turn.name is not None:
            self._report.drop(spelled(self._origin, "turn.name"))
        if turn.role == "user":
            return self._write_user(turn.parts)
        return self._write_model(turn.parts)

    # --- What the user says ---

    def _write_user(self, parts: Sequence[Part]) -> list[_Written]:
        results = [part for part in parts if isinstance(part, ToolResult)]
        order = self._call_order
        results.sort(key=lambda result: order.get(result.call_id, len(order)))
        written = [self._result(result) for result in results]
        for result in results:  # beside a result only newer models take media
            media = [part for part in result.parts if isinstance(part, Media)]
            written.extend(self._media(part) for part in media)
        for part in parts:
            if isinstance(part, Text):
                if part.is_system:
                    self._report.drop(spelled(self._origin, "turn.role"))
                written.append(self._text(part))
            elif isinstance(part, Refusal):
                written.append(self._text(Text(part.text)))
            elif isinstance(part, Media):
                written.append(self._media(part))
            elif isinstance(part, Thinking):
                self._report.drop(spelled(self._origin, "thinking"))
        return [part for part in written if part is not None]

    def _result(self, result: ToolResult) -> _Written | None:
        self._report_extras(result.extras)
        texts = []
        for part in result.parts:
            if isinstance(part, Text):
                self._report_extras(part.extras)
                texts.append(part.text)
        call = self._calls.get(result.call_id)
        if call is None:
            # A result of no call is refused; what it says is not lost.
            self._report.drop(spelled(self._origin, "turn.role"))
            return self._text(Text("\n".join(texts)))
        response = write_response(texts, is_error=result.is_error, is_exact=False)
        function: _Written = {"name": LIMITS.name(call.name), "response": response}
        return {"functionResponse": _identified(function, result.call_id)}

    # --- What the model said ---

    def _write_model(self, parts: Sequence[Part]) -> list[_Written]:
        written: list[_Written] = []
        loose: deque[str] = deque()  # signatures that wait for the part they belong to
        for part in parts:
            one: _Written | None = None
            if isinstance(part, Thinking):
                one = self._thinking(part, loose)
            elif isinstance(part, ToolCall):
                one = self._call(part)
            elif isinstance(part, Text | Refusal):
                one = self._text(part if isinstance(part, Text) else Text(part.text))
            elif isinstance(part, Media):
                one = self._media(part)
            if one is None:
                continue
            if loose and "thought" not in one and "thoughtSignature" not in one:
                one["thoughtSignature"] = loose.popleft()
            written.append(one)
        for signature in loose:
            if written and written[-1].keys() == {"text"}:
                written[-1]["thoughtSignature"] = signature
            else:
                written.append({"text": "", "thoughtSignature": signature})
        prove_calls(written)
        return written

    def _thinking(self, part: Thinking, loose: deque[str]) -> _Written | None:
        if part.signer != GEMINI.protocol or not part.signature:
            self._report.drop(spelled(self._origin, "thinking"))
            return None
        if not part.text:
            loose.append(part.signature)
            return None
        return {"text": part.text, "thought": True, "thoughtSignature": part.signature}

    def _call(self, call: ToolCall) -> _Written:
        self._report_extras(call.extras)
        self._calls[call.id] = call
        self._call_order.setdefault(call.id, len(self._call_order))
        if object_in(call.arguments) is None:
            self._report.drop(spelled(self._origin, "call.arguments"))
        function = {"name": LIMITS.name(call.name), "args": arguments_object(call.arguments)}
        written: _Written = {"functionCall": _identified(function, call.id)}
        if call.signature is not None and call.signer == GEMINI.protocol:
            written["thoughtSignature"] = call.signature
        elif call.signature is not None:
            self._report.drop(spelled(self._origin, "call.signature"))
        return written

    # --- Parts of either ---

    def _text(self, text: Text, *, field: str = "messages.") -> _Written | None:
        """A text; empty ones are refused."""
        if self._origin is ORIGIN:
            return restored({"text": text.text}, text.extras)
        self._report_extras(text.extras, field=field)
        return {"text": text.text} if text.text else None

    def _media(self, media: Media) -> _Written:
        self._report_extras(media.extras)
        if media.name is not None:
            self._report.drop(spelled(self._origin, "media.name"))
        return write_media(media, guesses_type=True)

    def _report_extras(self, extras: Mapping[str, Any], *, field: str = "messages.") -> None:
        if extras:
            report_extras(self._origin, field, extras, self._report)


def _is_system(part: Part) -> bool:
    return isinstance(part, Text) and part.is_system


def _identified(function: _Written, call_id: str) -> _Written:
    return {"id": call_id, **function} if call_id else function


def _begins_with_call(content: _Written) -> bool:
    return content["role"] == "model" and any("functionCall" in part for part in content["parts"])
