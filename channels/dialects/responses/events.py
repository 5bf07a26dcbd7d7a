"""The members of a response of the responses protocol that are read, as types; and its meter.

`Event` is one event of a stream, `Response` a whole response, which some events include. One type
is decoded once for the meter and a translation. A documented event is decoded into the types, which
is fast; any other is decoded loosely. `stream.py` makes canonical events of it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any, ClassVar

import msgspec
from msgspec import Struct

from channels.dialects.meter import (
    TOOL_CALLS_MAX,
    InputDetails,
    OutputDetails,
    PartialUsage,
    ResponseMeter,
    Tokens,
    ToolUsage,
    Usage,
    UsageParts,
    fit_name,
    loosely,
    search_size,
    served_tier,
)
from channels.dialects.usage import Counts, RunningUsage, UsageType
from channels.errors import UpstreamMalformed
from channels.json.lenient import (
    NULL,
    UNREADABLE,
    characters_of,
    is_stated,
    length_of,
    raw_of,
    read_json,
    read_loosely,
    text_of,
)
from channels.json.weight import is_heavy_event


class Event(Struct, gc=False):
    """One event of a stream. `code` and `message` are those of an `error` event."""

    type: str = ""
    delta: str | None = None
    output_index: int | None = None
    content_index: int | None = None
    summary_index: int | None = None
    item_id: str | None = None
    text: str | None = None
    refusal: str | None = None
    arguments: str | None = None
    annotation: msgspec.Raw = NULL
    part: msgspec.Raw = NULL
    item: msgspec.Raw = NULL
    response: msgspec.Raw = NULL
    error: msgspec.Raw = NULL
    code: str | None = None
    message: str | None = None


class Details(Struct, gc=False):
    """Why a response is incomplete."""

    reason: str | None = None


class Response(Struct, gc=False):
    """A whole response, or its members known so far."""

    id: str | None = None
    model: str | None = None
    status: str | None = None
    incomplete_details: Details | None = None
    output: msgspec.Raw = NULL
    usage: msgspec.Raw = NULL
    error: msgspec.Raw = NULL
    service_tier: str | None = None
    tools: msgspec.Raw = NULL


class _Item(Struct, gc=False):
    """Members of an output item that count as output, without an image's `result`."""

    type: msgspec.Raw = NULL
    content: msgspec.Raw = NULL
    summary: msgspec.Raw = NULL
    name: msgspec.Raw = NULL
    arguments: msgspec.Raw = NULL
    input: msgspec.Raw = NULL
    code: msgspec.Raw = NULL


# Decodes a documented event; raises the errors in UNREADABLE.
decode_event = msgspec.json.Decoder(Event).decode
_RESPONSE = msgspec.json.Decoder(Response)
_ITEM = msgspec.json.Decoder(_Item)
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
# Events that end a stream; each has the whole response.
ENDS = frozenset(("response.completed", "response.incomplete", "response.failed"))
# Some upstreams end this protocol's streams as in chat-completions.
_FOREIGN_TERMINATOR = b"[DONE]"


def read_event(data: bytes) -> Event | None:
    """Decode an event as far as possible; None if it is not a JSON object. Never raises.

    A terminator of another dialect is an event without type, which states nothing.
    """
    try:
        return decode_event(data)
    except UNREADABLE:
        value = None if is_heavy_event(data) else read_loosely(data)
    return Event() if data.strip() == _FOREIGN_TERMINATOR else loosely(Event, value)


def read_response(data: bytes | msgspec.Raw, *, mends: bool = True) -> Response | None:
    """Decode a response, also an undocumented one if `mends`; None on failure."""
    try:
        return _RESPONSE.decode(data)
    except UNREADABLE:
        return loosely(Response, read_loosely(bytes(data))) if mends else None


def object_of(raw: msgspec.Raw) -> dict[str, Any]:
    """Return the object in a member; empty without one."""
    value = None if raw is NULL else read_json(bytes(raw))
    return value if isinstance(value, dict) else {}


def item_characters(item: msgspec.Raw, tools: ToolCounter | None) -> int:
    """Count an output item's characters: text, refusal, thinking, a call's name and arguments.

    A call of a tool that the provider ran is counted in `tools`, if that is given.
    """
    try:
        fields = _ITEM.decode(item)
    except (msgspec.DecodeError, RecursionError):
        return 0
    if tools is not None:
        tools.take(fields.type, item)
    count = sum(map(length_of, (fields.name, fields.arguments, fields.input, fields.code)))
    for parts in (fields.content, fields.summary):
        if parts is not NULL:
            count += characters_of(read_loosely(bytes(parts)))
    return count


def _items_in(output: msgspec.Raw) -> list[msgspec.Raw]:
    try:
        return _ITEMS.decode(output)
    except (msgspec.DecodeError, RecursionError):
        return []


def tools_in(output: msgspec.Raw) -> ToolCounter:
    """Count the provider's tools in the output of a whole response."""
    tools = ToolCounter()
    for item in _items_in(output):
        tools.take_item(item)
    return tools


# Token counts of the responses protocol, for billing and for responses.
#
# `input_tokens` is the whole input, cached parts included; `output_tokens` includes reasoning.


class _Usage(ToolUsage, gc=False):
    """A usage with the parts that may have their own prices."""

    input_tokens: Tokens | None = None
    output_tokens: Tokens | None = None
    total_tokens: Tokens | None = None
    input_tokens_details: InputDetails | None = None
    output_tokens_details: OutputDetails | None = None


class _Action(Struct, gc=False):
    type: str | None = None


class _Environment(Struct, gc=False):
    container_id: str | None = None


class ToolItem(Struct, gc=False):
    """An output item of a tool that the provider ran."""

    type: str = ""
    status: str | None = None
    action: _Action | None = None
    container_id: str | None = None
    environment: _Environment | None = None


class _Tool(Struct, gc=False):
    type: str = ""
    search_context_size: str | None = None


_USAGE = UsageType(_Usage)
_TOOL_ITEM = msgspec.json.Decoder(ToolItem)
_TOOLS = msgspec.json.Decoder(list[_Tool])
_WEB, _FILES = b'"web_search_call"', b'"file_search_call"'
_CODE = (b'"code_interpreter_call"', b'"shell_call"')


class ToolCounter:
    """Counts the calls of the provider's tools in one list of output items.

    A web search counts if it searches: opening a page of its results is free. Code is counted by
    its containers, which are billed.
    """

    __slots__ = ("_containers", "files", "web")

    def __init__(self) -> None:
        self.web = 0
        self.files = 0
        self._containers: set[str] = set()

    def __repr__(self) -> str:
        return (
            f"<ToolCounter {self.web} of the web, {self.files} of files, {self.sessions} of code>"
        )

    @property
    def sessions(self) -> int:
        """The number of containers that code ran in."""
        return len(self._containers)

    def take_item(self, item: msgspec.Raw) -> None:
        """Count an item of any type."""
        with suppress(msgspec.DecodeError, RecursionError):
            self.take(_ITEM.decode(item).type, item)

    def take(self, kind: msgspec.Raw, item: msgspec.Raw) -> None:
        """Count an item of this type."""
        word = bytes(kind)
        if not word.endswith(b'_call"') or not (word in (_WEB, _FILES) or word in _CODE):
            return
        try:
            stated = _TOOL_ITEM.decode(item)
        except UNREADABLE:
            return
        if stated.status == "failed":
            return
        if word == _FILES:
            self.files += 1
        elif word == _WEB:
            self.web += stated.action is None or stated.action.type in (None, "search")
        else:
            run = stated.environment
            container = stated.container_id or (None if run is None else run.container_id)
            if container is not None and len(self._containers) < TOOL_CALLS_MAX:
                self._containers.add(container)


class UsageReader(RunningUsage):
    """The usage of one response so far.

    `counter` counts the tools in a stream's items until the whole response lists them.
    """

    __slots__ = ("_listed", "_size", "_tier", "counter")

    def __init__(self) -> None:
        super().__init__()
        self.counter = ToolCounter()
        self._listed: ToolCounter | None = None
        self._tier: str | None = None
        self._size: str | None = None

    @property
    def usage(self) -> Usage | None:
        """The usage; None while it is incomplete."""
        return self.usage_with(self._parts())

    @property
    def partial(self) -> PartialUsage | None:
        """What is known while the usage is incomplete."""
        return self.partial_with(self._parts())

    def take(
        self, response: Response, listed: ToolCounter | None = None, characters: int = 0
    ) -> bool:
        """Take the usage of a response, stated after so many characters, its tier, and the tools
        in its output. False if a part of the usage is unreadable.
        """
        self._listed = listed or self._listed
        self._tier = response.service_tier or self._tier
        self._size = _size_in(response.tools) or self._size
        if not is_stated(response.usage):
            return True
        counts, is_whole = read_usage(response.usage)
        if counts is None:
            return False
        self.add(counts, characters)
        return is_whole

    def _parts(self) -> UsageParts | None:
        """Return the tier, and the tools of items if the usage itself counts none."""
        tier = served_tier(self._tier)
        stated = None if self.counts is None else self.counts.parts
        is_counted = stated is not None and (
            stated.web_searches or stated.file_searches or stated.code_sessions
        )
        listed, counted = self._listed or _NO_TOOLS, self.counter
        web, files = max(listed.web, counted.web), max(listed.files, counted.files)
        sessions = max(listed.sessions, counted.sessions)
        if is_counted:
            web = files = sessions = 0
        if tier is None and not (is_counted or web or files or sessions):
            return None
        return UsageParts(
            web_searches=web,
            file_searches=files,
            code_sessions=sessions,
            web_search_size=self._size,
            service_tier=tier,
        )


_NO_TOOLS = ToolCounter()


def _size_in(tools: msgspec.Raw) -> str | None:
    """Return the context size of the web search among the tools that a response repeats."""
    try:
        stated = _TOOLS.decode(tools) if tools is not NULL else []
    except UNREADABLE:
        return None
    sizes = (one.search_context_size for one in stated if one.type.startswith("web_search"))
    return search_size(next(sizes, None))


def read_usage(usage: msgspec.Raw) -> tuple[Counts | None, bool]:
    """Parse a `usage` member: its counts, and whether all of it was read.

    None if it counts neither input nor output nor both.
    """
    stated, is_whole = _USAGE.read(usage)
    if stated is None:
        return None, False
    details, output_details = stated.input_tokens_details, stated.output_tokens_details
    counts = Counts(
        input_tokens=stated.input_tokens,
        output_tokens=stated.output_tokens,
        total_tokens=stated.total_tokens,
        cached_tokens=(details.cached_tokens if details else None) or 0,
        cache_write_tokens=(details.cache_write_tokens if details else None) or 0,
        reasoning_tokens=(output_details.reasoning_tokens if output_details else None) or 0,
        parts=stated.parts(details, output_details),
    )
    return (None, False) if counts.states_nothing else (counts, is_whole)


# Meters a response of the responses protocol as it is passed on: usage, characters, its end.
#
# The caller passes on the bytes; nothing here changes or delays them. An unreadable event is passed
# on and counted in `malformed_events`: it must not end a stream.
#
# The content of an item is repeated: in deltas, in the `done` events of its parts, in the item when
# it is done, and in the whole response at the end. Deltas are counted as they are passed on; the
# item and the response only add what no delta had, because some upstreams send whole items.

# Deltas are text, except these.
_SOUND = frozenset(("response.audio.delta", "response.output_audio.delta"))


class ResponsesMeter(ResponseMeter[Event]):
    """Meters one response. `finished`: its last event was received, or it is whole.

    `finish_reason` is the status of the response, or why it is incomplete.
    """

    _error_names: ClassVar[tuple[str, ...]] = ("code", "type")
    # The last event repeats the response with its tools and the probabilities of its tokens: the
    # charged counts are read, and its texts are skipped if it has too many values.
    reads_any_size: ClassVar[bool] = True

    def __init__(self) -> None:
        # Characters counted of each unfinished item, by its index in the output.
        self._counted: dict[int | None, int] = {}
        self._stated = UsageReader()

    @property
    def usage(self) -> Usage | None:
        return self._stated.usage

    @property
    def partial_usage(self) -> PartialUsage | None:
        return None if self.usage is not None else self._stated.partial

    @property
    def unstated_characters(self) -> int:
        return self.characters - self._stated.covered

    read = staticmethod(read_event)

    def body(self, body: bytes) -> None:
        """Meter a whole response. Raises UpstreamMalformed if it is not a JSON object."""
        response = read_response(body)
        if response is None:
            raise UpstreamMalformed("not a JSON object")
        self._end(response)

    def take(self, event: Event | None) -> bool:
        """Meter a decoded event. True: every client gets it."""
        if event is None:
            self.malformed_events += 1
            return True
        if event.delta is not None and event.type not in _SOUND:
            counted, index = self._counted, event.output_index
            characters = len(event.delta)
            self.characters += characters
            counted[index] = counted.get(index, 0) + characters
        else:
            self._take_whole(event)
        return True

    def _take_whole(self, event: Event) -> None:
        """Meter an event without a delta: an item, an error, or the response."""
        if event.item is not NULL:
            self.has_choice = True
            self._take_item(event)
        if event.error is not NULL:
            self._note_error(event.error)
        elif event.type == "error":
            self._note_error(raw_of({"code": event.code, "message": event.message}))
        is_end = event.type in ENDS
        if event.response is not NULL and (is_end or self.response_id is None):
            is_heavy = is_heavy_event(bytes(event.response))
            response = read_response(event.response, mends=not is_heavy)
            if response is None:
                self.malformed_events += 1
            else:
                if is_heavy:
                    response.output = NULL
                if is_end:
                    self._end(response)
                else:
                    self._take_response(response)
        if is_end:
            self.finished = True
            if event.type == "response.failed" and self.error_seen is None:
                self._note_error(raw_of({"code": "failed"}))

    def _take_item(self, event: Event) -> None:
        is_done = event.type == "response.output_item.done"
        tools = self._stated.counter if is_done else None
        if is_heavy_event(bytes(event.item)):
            count = 0
            if tools is not None:
                tools.take_item(event.item)
        else:
            count = item_characters(event.item, tools)
        if is_done:
            count -= self._counted.pop(event.output_index, 0)
            self.characters += max(0, count)
        else:
            self.characters += count
            self._counted[event.output_index] = self._counted.get(event.output_index, 0) + count

    def _take_response(self, response: Response, listed: ToolCounter | None = None) -> None:
        self._note_names(response.id, response.model)
        self._note_error(response.error)
        if not self._stated.take(response, listed, self.characters):
            self.malformed_events += 1

    def _end(self, response: Response) -> None:
        self.finished = True
        listed = ToolCounter()
        items = _items_in(response.output)
        self.has_choice = self.has_choice or bool(items)
        characters = sum(item_characters(item, listed) for item in items)
        self.characters = max(self.characters, characters)
        self._take_response(response, listed)
        details = response.incomplete_details
        reason = (details.reason if details else None) or response.status
        if reason is not None:
            self.finish_reason = fit_name(reason)
        if response.status == "failed" and self.error_seen is None:
            self._note_error(raw_of({"code": "failed"}))


def ends(data: bytes) -> bool:
    """Whether an event without its final blank line ends the stream."""
    value = read_loosely(data, mends=False)
    return isinstance(value, dict) and text_of(value.get("type")) in ENDS
