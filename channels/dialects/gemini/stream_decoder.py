"""Decodes a gemini stream into canonical events.

The protocol has no terminator: a stream with a finish reason, or with a refused prompt, is complete
when the upstream ends it. Until then more may follow, such as the usage, so the finish reason is
emitted at the end. No input raises.
"""

from __future__ import annotations

import functools
import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import msgspec

from channels.dialects.gemini.decode import text_of_code
from channels.dialects.gemini.events import (
    Call,
    Candidate,
    Chunk,
    Part,
    PartialArgument,
    UsageMetadata,
    UsageReader,
    object_of,
)
from channels.dialects.gemini.parts import read_file, read_inline
from channels.dialects.meter import Usage
from channels.families import GEMINI
from channels.json.lenient import NULL, UNREADABLE, dumps, read_loosely
from channels.translation.model import (
    Began,
    CallBegan,
    CallDelta,
    Ended,
    Event,
    Finished,
    FinishReason,
    Media,
    MediaDelta,
    TextDelta,
    ThinkingDelta,
    UsageStated,
)
from channels.translation.tool_calls import failure_in, made_id

# Function calls of a gemini response, whole or in pieces, as canonical events.
#
# A call is usually complete in one part. On request some upstreams first send a name, then values
# by path (`$.items[0].name`), texts in pieces; a part without a continuation ends the call. The
# arguments are assembled, and emitted once they are complete.

_STEP = re.compile(r"""\.([^.\[\]]+)|\[(\d{1,6})\]|\[(?:'([^']*)'|"([^"]*)")\]""")
# The largest gap between an index and the end of its array: pieces come in order.
_GAP_MAX = 64


@dataclass(slots=True)
class _Open:
    """A call whose arguments are incomplete.

    `unfinished`: the path of an incomplete text; `pieces`: its pieces so far; `write` stores it.
    """

    index: int
    args: dict[str, Any] = field(default_factory=dict)
    unfinished: str | None = None
    pieces: list[str] = field(default_factory=list)
    write: Callable[[str], None] | None = None

    def go_on(self, path: str, piece: str) -> bool:
        """Append to the incomplete text, if it has this path."""
        if self.unfinished != path or self.write is None:
            return False
        self.pieces.append(piece)
        return True

    def end_text(self) -> None:
        """Store the text, which is complete."""
        if self.write is not None:
            self.write("".join(self.pieces))
        self.unfinished = self.write = None
        self.pieces.clear()


class ToolCallReader:
    """Emits the events of one response's calls. `seed`: for generated ids."""

    __slots__ = ("_open", "count", "seed")

    def __init__(self) -> None:
        self.seed = ""
        self.count = 0
        self._open: _Open | None = None

    def __repr__(self) -> str:
        return f"<ToolCallReader {self.count} calls{', one open' if self._open else ''}>"

    def read(self, call: Call, signature: str | None) -> list[Event]:
        """Return the events of a part with a call or a piece of one."""
        events: list[Event] = []
        if call.name:
            events.extend(self.close())
            index = self.count
            self.count += 1
            events.append(
                CallBegan(
                    index,
                    call.id or made_id(self.seed, str(index)),
                    call.name,
                    signature=signature,
                    signer=GEMINI.protocol if signature else None,
                )
            )
            if not (call.partial_args or call.will_continue):
                events.append(CallDelta(index, _arguments(call.args)))
                return events
            self._open = _Open(index)
        if self._open is not None:
            self._take(self._open, call)
            if not call.will_continue:
                events.extend(self.close())
        return events

    def close(self) -> list[Event]:
        """Complete the open call, if there is one."""
        if self._open is None:
            return []
        done, self._open = self._open, None
        done.end_text()
        return [CallDelta(done.index, dumps(done.args).decode())]

    def _take(self, done: _Open, call: Call) -> None:
        if call.args is not NULL:
            value = read_loosely(bytes(call.args))
            if isinstance(value, dict):
                done.end_text()
                done.args.update(value)
        for piece in call.partial_args or ():
            _put(done, piece)


def _arguments(raw: msgspec.Raw) -> str:
    """Return arguments as compact JSON text; `{}` without any."""
    if raw is NULL:
        return "{}"
    try:
        text = msgspec.json.format(bytes(raw), indent=-1)
    except UNREADABLE:
        return "{}"
    if text.startswith(b"{"):
        return text.decode("utf-8", "replace")
    if text.startswith(b'"'):  # some upstreams send the object as a string
        value = read_loosely(text)
        return value if isinstance(value, str) and value.strip() else "{}"
    return "{}" if text == b"null" else text.decode("utf-8", "replace")


def _put(done: _Open, piece: PartialArgument) -> None:
    """Store a value at its path; an invalid path is ignored."""
    path = piece.json_path or ""
    if piece.string_value is not None and done.go_on(path, piece.string_value):
        if not piece.will_continue:
            done.end_text()
        return
    done.end_text()
    steps = _steps(path)
    if not steps:
        return
    holder: Any = done.args
    for step, following in pairwise(steps):
        if not _has_member(holder, step):
            return
        if holder[step] is None:
            holder[step] = [] if isinstance(following, int) else {}
        holder = holder[step]
    last: Any = steps[-1]
    if not _has_member(holder, last):
        return
    value = _value(piece)
    holder[last] = value
    if piece.will_continue and isinstance(value, str):
        done.unfinished = path
        done.pieces.append(value)
        done.write = functools.partial(operator.setitem, holder, last)


def _value(piece: PartialArgument) -> Any:
    value: Any = piece.string_value
    for raw in (piece.number_value, piece.bool_value):
        if value is None and raw is not NULL:
            value = read_loosely(bytes(raw))
    return value


def _steps(path: str) -> list[Any]:
    """Return the names and indices of a path; empty if it is invalid."""
    steps: list[Any] = []
    position = 1 if path.startswith("$") else 0
    while position < len(path):
        match = _STEP.match(path, position)
        if match is None:
            return []
        name, index, quoted, doubly = match.groups()
        steps.append(int(index) if index is not None else name or quoted or doubly or "")
        position = match.end()
    return steps


def _has_member(holder: Any, step: Any) -> bool:
    """Whether a step exists or can be added; it is added to the container."""
    if isinstance(holder, dict) and isinstance(step, str):
        holder.setdefault(step, None)
        return True
    if isinstance(holder, list) and isinstance(step, int) and step < len(holder) + _GAP_MAX:
        holder.extend([None] * (step + 1 - len(holder)))
        return True
    return False


# Finish reasons of the gemini protocol and of the canonical model.
#
# The protocol has no reason for a tool call: that is STOP after a call. Whatever the provider
# withheld, a call that it could not parse included, is a refusal in other protocols, with the
# reason's name as the explanation.

_STOP = "STOP"
_LENGTH = "MAX_TOKENS"
_REFUSED = "SAFETY"
_WITHHELD = frozenset(
    (
        _REFUSED,
        "RECITATION",
        "LANGUAGE",
        "OTHER",
        "BLOCKLIST",
        "PROHIBITED_CONTENT",
        "SPII",
        "MODEL_ARMOR",
        "IMAGE_SAFETY",
        "IMAGE_PROHIBITED_CONTENT",
        "IMAGE_RECITATION",
        "IMAGE_OTHER",
        "NO_IMAGE",
        "MALFORMED_FUNCTION_CALL",
        "MALFORMED_RESPONSE",
        "UNEXPECTED_TOOL_CALL",
        "TOO_MANY_TOOL_CALLS",
        "MISSING_THOUGHT_SIGNATURE",
    )
)


def read_finish(
    reason: str, message: str | None, *, has_calls: bool
) -> tuple[FinishReason, str | None]:
    """Return the canonical reason and the provider's explanation. An unknown reason is a stop."""
    if reason == _LENGTH:
        return "length", message
    if reason in _WITHHELD:
        return "refusal", message or _explanation(reason)
    return ("tool_calls" if has_calls else "stop"), message


def read_block(reason: str, message: str | None) -> tuple[FinishReason, str | None]:
    """Return the canonical reason of a refused prompt, which has no response."""
    return "refusal", message or _explanation(reason)


def _explanation(reason: str) -> str | None:
    """Return a reason's name, unless it is unspecific."""
    return None if reason in (_REFUSED, "OTHER") else reason


def write_finish(
    reason: FinishReason | None, explanation: str | None, *, has_refusal: bool
) -> tuple[str, str | None]:
    """Return the protocol's reason and message; `has_refusal`: the model itself declined.

    A paused turn is not finished: it becomes the reason for length, after which more may come.
    """
    if reason in ("length", "pause"):
        return _LENGTH, explanation
    if reason == "refusal" or has_refusal:
        if explanation in _WITHHELD:  # a reason's own word
            return explanation, None
        return _REFUSED, explanation
    return _STOP, explanation


_NO_BLOCK = ("BLOCK_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED")


class StreamDecoder:
    """Decodes one stream, for one attempt and one task."""

    __slots__ = (
        "_began",
        "_blocked",
        "_calls",
        "_finish",
        "_has_output",
        "_is_over",
        "_last_usage",
        "_stated",
    )

    def __init__(self) -> None:
        self._calls = ToolCallReader()
        self._began = False
        self._has_output = False
        self._is_over = False
        self._finish: tuple[str, str | None] | None = None  # reason and message
        self._blocked: tuple[str, str | None] | None = None
        self._stated = UsageReader()
        self._last_usage: Usage | None = None  # emitted last

    def __repr__(self) -> str:
        state = "over" if self._is_over else "began" if self._began else "new"
        return f"<gemini.StreamDecoder {state}, {self._calls}>"

    def take(self, read: Sequence[Chunk] | None) -> list[Event]:
        """Return the canonical events of one event's chunks. Never raises."""
        events: list[Event] = []
        for chunk in read or ():
            if not self._is_over:
                self._take(chunk, events)
        return events

    def end(self) -> list[Event]:
        """Return the events after the upstream's end of stream; empty for a stream that was cut.

        A call with incomplete arguments is complete then: some upstreams omit its end.
        """
        if self._is_over or (self._finish is None and self._blocked is None):
            return []
        self._is_over = True
        events = self._calls.close()
        if not self._has_output:
            self._emit_usage(events, is_empty=True)
        if self._blocked is not None:
            reason, explanation = read_block(*self._blocked)
            events.append(Finished(reason, explanation=explanation))
        elif self._finish is not None:
            has_calls = self._calls.count > 0
            finish, reason_text = read_finish(*self._finish, has_calls=has_calls)
            events.append(Finished(finish, explanation=reason_text))
        events.append(Ended())
        return events

    def _take(self, chunk: Chunk, events: list[Event]) -> None:
        error = None if chunk.error is NULL else read_loosely(bytes(chunk.error))
        if (failed := failure_in(error, ("status", "code"))) is not None:
            self._is_over = True
            events.append(failed)
            return
        if not self._began and (chunk.candidates or chunk.prompt_feedback is not None):
            self._began = True
            self._calls.seed = chunk.response_id or ""
            self._stated.model = chunk.model_version
            events.append(Began(chunk.response_id, chunk.model_version))
        # Before the content: some protocols state the input's count first.
        if chunk.usage_metadata is not None:
            self._take_usage(chunk.usage_metadata, events)
        for candidate in chunk.candidates or ():
            if not candidate.index:  # translations return one response
                self._take_candidate(candidate, events)
        feedback = chunk.prompt_feedback
        if feedback is not None and feedback.block_reason not in (None, *_NO_BLOCK):
            self._blocked = (feedback.block_reason or "", feedback.block_reason_message)

    def _take_usage(self, stated: UsageMetadata, events: list[Event]) -> None:
        self._stated.take(stated)
        self._emit_usage(events, is_empty=False)

    def _emit_usage(self, events: list[Event], *, is_empty: bool) -> None:
        """Emit the usage if it has changed; `is_empty`: the response is complete, and empty."""
        usage = self._stated.usage(is_empty=is_empty)
        if usage is not None and usage != self._last_usage:
            self._last_usage = usage
            events.append(UsageStated(usage))

    def _take_candidate(self, candidate: Candidate, events: list[Event]) -> None:
        if candidate.content is not None:
            for part in candidate.content.parts or ():
                self._take_part(part, events)
        if candidate.grounding_metadata is not NULL:
            self._stated.ground(candidate.grounding_metadata)
            self._emit_usage(events, is_empty=False)
        if candidate.finish_reason:
            self._finish = (candidate.finish_reason, candidate.finish_message)

    def _take_part(self, part: Part, events: list[Event]) -> None:
        if not self._has_output:
            self._has_output = part.characters() > 0
        if part.function_call is not None:
            events.extend(self._calls.read(part.function_call, part.thought_signature))
            return
        if part.thought:
            if part.text or part.thought_signature:  # media among thoughts are drafts
                events.append(_thinking(part.text or "", part.thought_signature))
            return
        if part.text:
            events.append(TextDelta(part.text))
        elif part.text is None:
            self._take_rarer(part, events)
        if part.thought_signature:
            events.append(_thinking("", part.thought_signature))

    def _take_rarer(self, part: Part, events: list[Event]) -> None:
        if (inline := object_of(part.inline_data)) is not None:
            _emit_media(read_inline(inline), events)
        elif (file := object_of(part.file_data)) is not None:
            _emit_media(read_file(file), events)
        elif (code := object_of(part.executable_code)) is not None:
            events.append(TextDelta(text_of_code({"executableCode": code})))
        elif (outcome := object_of(part.code_execution_result)) is not None:
            events.append(TextDelta(text_of_code({"codeExecutionResult": outcome})))


def _emit_media(media: Media | None, events: list[Event]) -> None:
    if media is not None:
        events.append(MediaDelta(media))


def _thinking(text: str, signature: str | None) -> ThinkingDelta:
    if signature is None:
        return ThinkingDelta(text)
    return ThinkingDelta(text, signature=signature, signer=GEMINI.protocol)
