"""Marks for the prompt's cache, of clients whose own protocol has others or needs none.

Providers of this protocol keep what is marked and nothing else. To write it costs more than plain
input (1.25 times), to read it a tenth: of a conversation with two calls more is a loss, of three
and more a gain. So it takes tools, and the sign of an agent: a name of its conversation, calls of
tools in two turns already, or tools and instructions that are long, which every request of its
sessions begins with, or that were sent minutes ago (`gw/calls/openings.py`). Of a conversation
that is only known by these the turns are marked once the model has answered, since a single
question may be longer than all of them.

A `prompt_cache_breakpoint` of a client becomes a mark. As in the client's protocol the latest are
kept, and unless the client's mode is explicit, one is implicit: the user's last turn. A mark has
this protocol's default lifetime, because longer ones cost more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

from channels.conversation import SESSIONS
from channels.json.lenient import dumps
from channels.json.written import Written
from channels.translation.losses import LossReport
from channels.translation.model import Request, ToolCall

BREAKPOINT: Final = "prompt_cache_breakpoint"
# A mark that is not in the words of the client, identified as this object.
_MARK: Final = {"type": "ephemeral"}
_MARKS_MAX = 4  # more are refused
_MARKED_TURNS = 2  # the user's last, which writes, and the one before, which was written
_CALLING_TURNS_MIN = 2
# Bytes of tools and instructions that are long: some 4,000 tokens, the least that models cache.
LONG_BYTES_MIN = 16 * 1024


def split_mark(extras: Mapping[str, object], *, takes_breakpoint: bool) -> tuple[object, Written]:
    """Return the mark that the extras of another protocol's client state, and the other extras."""
    rest = dict(extras)
    mark = rest.pop("cache_control", None)
    stated = rest.get(BREAKPOINT)
    if takes_breakpoint and isinstance(stated, Mapping):
        del rest[BREAKPOINT]
        rest |= {f"{BREAKPOINT}.{name}": one for name, one in stated.items() if name != "mode"}
        mark = _MARK if mark is None else mark
    return mark, rest


def mark_cache(
    request: Request,
    body: Written,
    report: LossReport,
    *,
    is_session: bool,
    is_repeated: bool,
) -> None:
    """Mark the prefixes of later calls, unless the client did; drop breakpoints above the bound."""
    marked = list(_marked_in(body))
    may_mark = "tools" in body and not _is_explicit(request)
    is_agent = may_mark and _goes_on(request, is_session=is_session)
    if is_agent or (may_mark and not marked and (is_repeated or _is_long(request, body))):
        if not marked:
            body["tools"] = _marked(body["tools"])
            if "system" in body:
                body["system"] = _marked(body["system"])
            if is_agent or any(turn.role == "assistant" for turn in request.turns):
                _mark_turns(body, _MARKED_TURNS)
        elif all(block["cache_control"] is _MARK for block in marked):
            _mark_turns(body, 1)
            marked = list(_marked_in(body))
    breakpoints = [block for block in marked if block["cache_control"] is _MARK]
    for block in breakpoints[: max(0, len(marked) - _MARKS_MAX)]:
        del block["cache_control"]
        report.drop(request.origin.parts + BREAKPOINT)


def bound_marks(body: Written, report: LossReport, name: str) -> None:
    """Drop a client's own marks above the bound, of the turns and the earliest first.

    What they mark begins with what the later ones mark. `name` is the member's in the report.
    """
    count = len(list(_marked_in(body)))
    if count <= _MARKS_MAX:
        return
    if "tools" in body:  # they are kept for other requests
        body["tools"] = [dict(tool) for tool in body["tools"]]
    before = len(list(_marked_in({**body, "messages": []})))
    marked = list(_marked_in(body))
    for block in (marked[before:] + marked[:before])[: count - _MARKS_MAX]:
        del block["cache_control"]
        report.drop(name)


def _marked_in(body: Written) -> Iterator[Written]:
    """Return the marked blocks, in the order of the prompt."""
    contents = (message["content"] for message in body["messages"])
    for content in (body.get("tools"), body.get("system"), *contents):
        for block in content if isinstance(content, list) else ():
            inner = block.get("content")
            for one in (*(inner if isinstance(inner, list) else ()), block):
                if "cache_control" in one:
                    yield one


def _is_long(request: Request, body: Mapping[str, object]) -> bool:
    """Whether tools and instructions are long enough to be kept for any later request."""
    instructions = sum(len(text.text) for text in request.system)
    if instructions >= LONG_BYTES_MIN:
        return True
    return instructions + len(dumps(body["tools"])) >= LONG_BYTES_MIN


def _is_explicit(request: Request) -> bool:
    """Whether the client wants no marks but its own."""
    options = request.extras.get("prompt_cache_options")
    return isinstance(options, Mapping) and options.get("mode") == "explicit"


def _goes_on(request: Request, *, is_session: bool) -> bool:
    """Whether the conversation is likely to have further requests."""
    extras = request.extras
    metadata = extras.get("metadata")
    if is_session or extras.get("prompt_cache_key"):
        return True
    if isinstance(metadata, Mapping) and any(metadata.get(name) for name in SESSIONS):
        return True
    calling = (
        turn
        for turn in request.turns
        if turn.role == "assistant" and any(isinstance(part, ToolCall) for part in turn.parts)
    )
    return len(list(islice(calling, _CALLING_TURNS_MIN))) == _CALLING_TURNS_MIN


def _mark_turns(body: Written, count: int) -> None:
    """Mark the ends of the user's last turns."""
    users = (message for message in reversed(body["messages"]) if message["role"] == "user")
    for message in islice(users, count):
        message["content"] = _marked(message["content"])


def _marked(blocks: str | list[Written]) -> list[Written]:
    if isinstance(blocks, str):
        return [{"type": "text", "text": blocks, "cache_control": _MARK}]
    return [*blocks[:-1], {**blocks[-1], "cache_control": _MARK}]
