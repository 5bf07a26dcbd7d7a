"""Random answers, and the events they come in, in pieces of any size and any order."""

from __future__ import annotations

import json

from hypothesis import strategies as st

from channels.dialects.meter import Usage
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
    Part,
    Refusal,
    RefusalDelta,
    Response,
    Text,
    TextDelta,
    Thinking,
    ThinkingDelta,
    ToolCall,
    UsageStated,
)
from tests.unit.translators.json_strategies import ids, names, objects, words

usages = st.builds(
    lambda fresh, read, written, output, thought: Usage(
        input_tokens=fresh + read + written,
        output_tokens=output,
        cached_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=min(thought, output),
    ),
    *[st.integers(0, 500)] * 5,
)


@st.composite
def answers(draw: st.DrawFn) -> Response:
    """An answer as either protocol may give it: thinking, text, refusal, calls, in this order."""
    signed = st.builds(lambda text, sign: Thinking(text, sign, "messages"), words, names)
    hidden = names.map(lambda data: Thinking("", redacted=data, signer="messages"))
    parts: list[Part] = list(draw(st.lists(st.one_of(signed, hidden), max_size=2)))
    parts += draw(st.lists(words.map(Text), max_size=1))
    parts += draw(st.lists(words.map(Refusal), max_size=1))
    made = draw(st.lists(st.tuples(ids, names, objects), max_size=3, unique_by=lambda c: c[0]))
    parts += [ToolCall(call_id, name, json.dumps(given)) for call_id, name, given in made]
    reasons: list[FinishReason] = ["stop", "length", "refusal"]
    reason: FinishReason = "tool_calls" if made else draw(st.sampled_from(reasons))
    return Response(
        id="up-1", model="up", parts=tuple(parts), finish=reason, usage=draw(st.none() | usages)
    )


@st.composite
def events_of(draw: st.DrawFn, answer: Response) -> list[Event]:
    """The answer as events: in pieces of any size, its calls interleaved in any way."""
    events: list[Event] = [Began(answer.id, answer.model)]
    calls: list[list[Event]] = []
    for part in answer.parts:
        if isinstance(part, ToolCall):
            index = len(calls)
            pieces = draw(_pieces(part.arguments))
            deltas: list[Event] = [CallDelta(index, piece) for piece in pieces]
            calls.append([CallBegan(index, part.id, part.name), *deltas])
        else:
            events.extend(draw(_part_events(part)))
    if draw(st.booleans()):
        events.extend(event for call in calls for event in call)
    else:
        while any(calls):
            # A call may begin only when those before it have.
            ready = [
                at
                for at, call in enumerate(calls)
                if call
                and (
                    not isinstance(call[0], CallBegan)
                    or all(not c or not isinstance(c[0], CallBegan) for c in calls[:at])
                )
            ]
            events.append(calls[draw(st.sampled_from(ready))].pop(0))
    assert answer.finish is not None
    ending: list[Event] = [Finished(answer.finish, answer.stop_sequence, answer.explanation)]
    if answer.usage is not None:
        ending.insert(draw(st.integers(0, 1)), UsageStated(answer.usage))
    return [*events, *ending, Ended()]


def _part_events(part: Part) -> st.SearchStrategy[list[Event]]:
    if isinstance(part, Text):
        return _pieces(part.text).map(lambda pieces: [TextDelta(piece) for piece in pieces])
    if isinstance(part, Refusal):
        return _pieces(part.text).map(lambda pieces: [RefusalDelta(piece) for piece in pieces])
    if isinstance(part, Media):
        return st.just([MediaDelta(part)])
    assert isinstance(part, Thinking), part
    last: Event = ThinkingDelta(
        signature=part.signature, redacted=part.redacted, signer=part.signer
    )
    return _pieces(part.text).map(
        lambda pieces: [*(ThinkingDelta(piece) for piece in pieces), last]
    )


def _pieces(text: str) -> st.SearchStrategy[list[str]]:
    """The text in pieces; none of them empty."""
    cuts = st.sets(st.integers(1, max(1, len(text) - 1)), max_size=3).map(sorted)
    return cuts.map(
        lambda at: [
            text[start:end]
            for start, end in zip([0, *at], [*at, len(text)], strict=True)
            if text[start:end]
        ]
    )
