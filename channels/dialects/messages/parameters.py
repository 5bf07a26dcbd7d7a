"""The parameters of a messages request, for the call log."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from channels.dialects.messages.schema import LenientBody, MessagesBody, Tool
from channels.dialects.parameters import counts, names_of, settings

_SETTINGS = frozenset(
    (
        "stream",
        "max_tokens",
        "temperature",
        "top_p",
        "top_k",
        "stop_sequences",
        "thinking",
        "tool_choice",
        "service_tier",
    )
)


def parameters(raw: Mapping[str, msgspec.Raw], read: MessagesBody | LenientBody) -> dict[str, str]:
    """What was asked, by the names of the protocol; `messages` and `images` are numbers of them.

    Tools and images are told of a body as documented.
    """
    shown = settings(raw, _SETTINGS)
    if isinstance(read, LenientBody):
        return shown | counts(messages=len(read.messages))
    if read.thinking is not None and isinstance(read.thinking.budget_tokens, int):
        shown["thinking.budget_tokens"] = str(read.thinking.budget_tokens)
    if "output_config" in raw:
        shown |= _effort(raw["output_config"])
    if read.tools:
        shown["tools"] = names_of([_name(tool) for tool in read.tools])
    return shown | counts(messages=len(read.messages), images=_images(read))


def _effort(raw: msgspec.Raw) -> dict[str, str]:
    try:
        config = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    except msgspec.ValidationError:
        return {}  # no object: the upstream will say so
    return settings(config, ("effort",), within="output_config.")


def _name(tool: Tool) -> str:
    return (tool.type or "") if tool.name is msgspec.UNSET else tool.name


def _images(read: MessagesBody) -> int:
    found = 0
    for message in read.messages:
        if isinstance(message.content, list):
            found += [block.type for block in message.content].count("image")
    return found
