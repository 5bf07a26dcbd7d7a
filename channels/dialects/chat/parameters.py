"""The parameters of a chat-completions request, for the call log."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from channels.dialects.chat.schema import ChatBody, LenientBody, ToolSpec
from channels.dialects.parameters import counts, names_of, settings

_SETTINGS = frozenset(
    (
        "stream",
        "max_tokens",
        "max_completion_tokens",
        "temperature",
        "top_p",
        "n",
        "stop",
        "seed",
        "frequency_penalty",
        "presence_penalty",
        "logprobs",
        "top_logprobs",
        "reasoning_effort",
        "verbosity",
        "response_format",
        "tool_choice",
        "parallel_tool_calls",
        "service_tier",
        "modalities",
    )
)


def parameters(raw: Mapping[str, msgspec.Raw], chat: ChatBody | LenientBody) -> dict[str, str]:
    """What was asked, by the names of the protocol; `messages` and `images` are numbers of them.

    Tools and images are told of a body as documented.
    """
    shown = settings(raw, _SETTINGS)
    if chat.stream_options is not None and chat.stream_options.include_usage:
        shown["stream_options.include_usage"] = "true"
    if isinstance(chat, LenientBody):
        return shown | counts(messages=len(chat.messages))
    if chat.tools:
        shown["tools"] = names_of([_name(tool) for tool in chat.tools])
    return shown | counts(messages=len(chat.messages), images=_images(chat))


def _name(tool: ToolSpec) -> str:
    return tool.type if tool.function is msgspec.UNSET else tool.function.name


def _images(chat: ChatBody) -> int:
    found = 0
    for message in chat.messages:
        if isinstance(message.content, list):
            found += [part.type for part in message.content].count("image_url")
    return found
