"""The parameters of a responses request, for the call log."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from channels.dialects.parameters import counts, names_of, setting, settings
from channels.dialects.responses.schema import LenientBody, ResponsesBody, Tool

_SETTINGS = frozenset(
    (
        "stream",
        "max_output_tokens",
        "temperature",
        "top_p",
        "frequency_penalty",
        "presence_penalty",
        "top_logprobs",
        "tool_choice",
        "parallel_tool_calls",
        "max_tool_calls",
        "truncation",
        "service_tier",
        "store",
    )
)


def parameters(raw: Mapping[str, msgspec.Raw], read: ResponsesBody | LenientBody) -> dict[str, str]:
    """What was asked, by the names of the protocol; `input` and `images` are numbers of items.

    Tools and images are told of a body as documented.
    """
    shown = settings(raw, _SETTINGS)
    if isinstance(read, LenientBody):
        return shown | counts(input=len(read.input))
    if read.reasoning is not None:
        for name in ("effort", "summary"):
            value = getattr(read.reasoning, name)
            if isinstance(value, str):
                shown[f"reasoning.{name}"] = setting(value)
    if "text" in raw:
        shown |= _text(raw["text"])
    if read.tools:
        shown["tools"] = names_of([_name(tool) for tool in read.tools])
    if isinstance(read.input, str):
        return shown | {"input": "a string"}
    return shown | counts(input=len(read.input), images=_images(read))


def _text(raw: msgspec.Raw) -> dict[str, str]:
    try:
        config = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    except msgspec.ValidationError:
        return {}  # no object: the upstream will say so
    return settings(config, ("format", "verbosity"), within="text.")


def _name(tool: Tool) -> str:
    return tool.type if tool.name is msgspec.UNSET else tool.name


def _images(read: ResponsesBody) -> int:
    found = 0
    for item in read.input:
        if not isinstance(item, str) and isinstance(item.content, list):
            found += [part.type for part in item.content].count("input_image")
    return found
