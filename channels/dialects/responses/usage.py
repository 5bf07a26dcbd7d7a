"""Token counts of the responses protocol, for billing and for responses.

`input_tokens` is the whole input, cached parts included; `output_tokens` includes reasoning.
"""

from __future__ import annotations

from contextlib import suppress

import msgspec
from msgspec import Struct

from channels.dialects import token_counts, usage_details
from channels.dialects.responses.events import ITEM, StatedResponse, items_in
from channels.dialects.usage import RunningUsage
from channels.json.lenient import NULL, UNREADABLE, is_stated


def write_usage(usage: token_counts.Usage | None) -> dict[str, object] | None:
    """Return the `usage` member; None if it is unknown."""
    if usage is None:
        return None
    details: dict[str, object] = {"cached_tokens": usage.cached_tokens}
    if usage.cache_write_tokens:
        details["cache_write_tokens"] = usage.cache_write_tokens
    output_details: dict[str, object] = {"reasoning_tokens": usage.reasoning_tokens}
    written: dict[str, object] = {
        "input_tokens": usage.input_tokens,
        "input_tokens_details": details,
        "output_tokens": usage.output_tokens,
        "output_tokens_details": output_details,
        "total_tokens": usage.input_tokens + usage.output_tokens,
    }
    if usage.parts is not None:
        usage_details.add_parts(usage, details, output_details)
        written.update(usage_details.tools_member(usage.parts))
    return written


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

    @property
    def sessions(self) -> int:
        """The number of containers that code ran in."""
        return len(self._containers)

    def take_item(self, item: msgspec.Raw) -> None:
        """Count an item of any type."""
        with suppress(msgspec.DecodeError, RecursionError):
            self.take(ITEM.decode(item).type, item)

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
            if container is not None and len(self._containers) < token_counts.TOOL_CALLS_MAX:
                self._containers.add(container)


class ResponsesUsageReader(RunningUsage):
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
    def usage(self) -> token_counts.Usage | None:
        """The usage; None while it is incomplete."""
        return self.usage_with(self._parts())

    @property
    def partial(self) -> token_counts.PartialUsage | None:
        """What is known while the usage is incomplete."""
        return self.partial_with(self._parts())

    def take_usage(
        self, response: StatedResponse, listed: ToolCounter | None = None, characters: int = 0
    ) -> bool:
        """Take the usage of a response, stated after so many characters, its tier, and the tools
        in its output. False if a part of the usage is unreadable.
        """
        self._listed = listed or self._listed
        self._tier = response.service_tier or self._tier
        self._size = _size_in(response.tools) or self._size
        if not is_stated(response.usage):
            return True
        counts, is_whole = usage_details.read_usage(response.usage, is_chat=False)
        if counts is None:
            return False
        self.add(counts, characters)
        return is_whole

    def _parts(self) -> token_counts.UsageParts | None:
        """Return the tier, and the tools of items if the usage itself counts none."""
        tier = token_counts.served_tier(self._tier)
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
        return token_counts.UsageParts(
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
    return token_counts.search_size(next(sizes, None))


def tools_in(output: msgspec.Raw) -> ToolCounter:
    """Count the provider's tools in the output of a whole response."""
    tools = ToolCounter()
    for item in items_in(output):
        tools.take_item(item)
    return tools
