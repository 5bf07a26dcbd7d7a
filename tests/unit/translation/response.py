"""A response as parts, which the events of a response are folded into, and made of.

`folded` is the meaning of events by the words of `channels/translation/events.py`.
"""

from collections.abc import Iterable

from msgspec import Struct
from msgspec.structs import replace

from channels.dialects.token_counts import Usage
from channels.translation import events as of
from channels.translation.model import (
    FinishReason,
    Media,
    Part,
    Refusal,
    Text,
    Thinking,
    ToolCall,
)


class Response(Struct, frozen=True, kw_only=True):
    """A whole response."""

    id: str | None
    model: str | None
    parts: tuple[Part, ...]
    finish: FinishReason | None
    stop_sequence: str | None = None
    usage: Usage | None = None
    explanation: str | None = None
    citations: tuple[of.Citation, ...] = ()


def events_saying(response: Response) -> list[of.Event]:
    """The fewest events that make up a response."""
    events: list[of.Event] = [of.Began(response.id, response.model)]
    calls = 0
    for part in response.parts:
        if isinstance(part, Text):
            events.append(of.TextDelta(part.text))
        elif isinstance(part, Refusal):
            events.append(of.RefusalDelta(part.text))
        elif isinstance(part, Media):
            events.append(of.MediaDelta(part))
        elif isinstance(part, Thinking):
            events.append(
                of.ThinkingDelta(
                    part.text,
                    signature=part.signature,
                    redacted=part.redacted,
                    signer=part.signer,
                )
            )
        else:
            assert isinstance(part, ToolCall), part
            events.append(of.CallBegan(calls, part.id, part.name, part.signature, part.signer))
            events.append(of.CallDelta(calls, part.arguments))
            calls += 1
    events += response.citations
    if response.usage is not None:
        events.append(of.UsageStated(response.usage))
    if response.finish is not None:
        finished = of.Finished(response.finish, response.stop_sequence, response.explanation)
        events.append(finished)
    return [*events, of.Ended()]


def folded(events: Iterable[of.Event]) -> Response:
    """The whole answer that these events say."""
    response = Response(id=None, model=None, parts=(), finish=None)
    parts: list[Part] = []
    calls: dict[int, int] = {}
    for event in events:
        if isinstance(event, of.Began):
            response = replace(response, id=event.id, model=event.model)
        elif isinstance(event, of.CallBegan):
            calls[event.index] = len(parts)
            parts.append(ToolCall(event.id, event.name, "", event.signature, event.signer))
        elif isinstance(event, of.CallDelta):
            call = parts[calls[event.index]]
            assert isinstance(call, ToolCall), "a delta goes to its call"
            parts[calls[event.index]] = replace(call, arguments=call.arguments + event.arguments)
        elif isinstance(event, of.Finished):
            response = replace(
                response,
                finish=event.reason,
                stop_sequence=event.stop_sequence,
                explanation=event.explanation,
            )
        elif isinstance(event, of.UsageStated):
            response = replace(response, usage=event.usage)
        elif isinstance(event, of.Citation):
            response = replace(response, citations=(*response.citations, event))
        elif not isinstance(event, of.Ended | of.StreamFailed):
            _append(parts, event)
    return replace(response, parts=tuple(parts))


def _append(
    parts: list[Part], event: of.TextDelta | of.RefusalDelta | of.ThinkingDelta | of.MediaDelta
) -> None:
    last = parts[-1] if parts else None
    if isinstance(event, of.TextDelta):
        if isinstance(last, Text):
            parts[-1] = Text(last.text + event.text)
        else:
            parts.append(Text(event.text))
    elif isinstance(event, of.RefusalDelta):
        if isinstance(last, Refusal):
            parts[-1] = Refusal(last.text + event.text)
        else:
            parts.append(Refusal(event.text))
    elif isinstance(event, of.MediaDelta):
        parts.append(event.media)
    elif event.redacted:
        parts.append(Thinking("", redacted=event.redacted, signer=event.signer))
    elif isinstance(last, Thinking) and not (last.signature or last.redacted):
        parts[-1] = Thinking(last.text + event.text, event.signature, event.signer)
    else:
        parts.append(Thinking(event.text, event.signature, event.signer))
