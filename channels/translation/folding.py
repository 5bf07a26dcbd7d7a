"""A stream's events as a whole response, for dialects that decode whole responses as streams."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from msgspec.structs import replace

from channels.dialects.token_counts import Usage
from channels.translation import model
from channels.translation.events import (
    Began,
    CallBegan,
    CallDelta,
    Event,
    Finished,
    MediaDelta,
    RefusalDelta,
    TextDelta,
    ThinkingDelta,
    UsageStated,
)


def folded(events: Iterable[Event]) -> model.Response | None:
    """Return the response that a stream's events make up; None if it never began."""
    began: Began | None = None
    finished: Finished | None = None
    usage: Usage | None = None
    parts: list[_Gathered] = []
    calls: dict[int, _Gathered] = {}  # by index
    for event in events:
        if isinstance(event, Began):
            began = event
        elif isinstance(event, Finished):
            finished = event
        elif isinstance(event, UsageStated):
            usage = event.usage
        elif isinstance(event, CallBegan):
            call = model.ToolCall(
                event.id, event.name, "", signature=event.signature, signer=event.signer
            )
            calls[event.index] = _Gathered(call)
            parts.append(calls[event.index])
        elif isinstance(event, CallDelta):
            calls[event.index].texts.append(event.arguments)
        else:
            _extend(parts, event)
    if began is None:
        return None
    return model.Response(
        id=began.id,
        model=began.model,
        parts=tuple([part.whole() for part in parts]),
        finish=None if finished is None else finished.reason,
        usage=usage,
        explanation=None if finished is None else finished.explanation,
    )


@dataclass(slots=True)
class _Gathered:
    """A part under construction: its kind, and the pieces of its text or arguments."""

    part: model.Part
    texts: list[str] = field(default_factory=list)

    def whole(self) -> model.Part:
        """Return the part with all its pieces."""
        part = self.part
        if isinstance(part, model.ToolCall):
            return replace(part, arguments="".join(self.texts))
        if isinstance(part, model.Text | model.Thinking | model.Refusal):
            return replace(part, text="".join(self.texts))
        return part


def _extend(parts: list[_Gathered], event: Event) -> None:
    """Add to the last part what continues it; a signed thought is complete."""
    last = parts[-1].part if parts else None
    if isinstance(event, TextDelta):
        if not isinstance(last, model.Text):
            parts.append(_Gathered(model.Text("")))
        parts[-1].texts.append(event.text)
    elif isinstance(event, RefusalDelta):
        if not isinstance(last, model.Refusal):
            parts.append(_Gathered(model.Refusal("")))
        parts[-1].texts.append(event.text)
    elif isinstance(event, MediaDelta):
        parts.append(_Gathered(event.media))
    elif isinstance(event, ThinkingDelta) and event.redacted:
        parts.append(_Gathered(model.Thinking("", redacted=event.redacted, signer=event.signer)))
    elif isinstance(event, ThinkingDelta):
        if not (isinstance(last, model.Thinking) and not (last.signature or last.redacted)):
            parts.append(_Gathered(model.Thinking("")))
        thought = parts[-1]
        thought.part = model.Thinking("", signature=event.signature, signer=event.signer)
        thought.texts.append(event.text)
