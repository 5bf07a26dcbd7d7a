"""What a client of chat-completions calls the members of a request: for telling what was dropped.

Left the field of `channels/translation/model.py`, right this protocol's word, dotted and without
indices. A field that it has no word for cannot have come from it.
"""

from __future__ import annotations

from channels.families import CHAT
from channels.translation.model import ClientProtocol

_NAMES = {
    "parallel_tools": "parallel_tool_calls",
    "stop": "stop",
    "count": "n",
    "format": "response_format",
    "format.name": "response_format.json_schema.name",
    "format.description": "response_format.json_schema.description",
    "format.schema": "response_format.json_schema.schema",
    "format.is_strict": "response_format.json_schema.strict",
    "reasoning.effort": "reasoning_effort",
    "reasoning.budget_tokens": "reasoning_effort",
    "reasoning.is_enabled": "reasoning_effort",
    "reasoning.shows_thoughts": "reasoning_effort",
    "tools.name": "tools.function.name",
    "tools.description": "tools.function.description",
    "tools.parameters": "tools.function.parameters",
    "tools.is_strict": "tools.function.strict",
    "tool_choice.allowed": "tool_choice.allowed_tools",
    "turn.role": "messages.role",
    "turn.name": "messages.name",
    "system": "messages",
    "thinking": "messages.reasoning_content",
    "call.arguments": "messages.tool_calls.function.arguments",
    "call.signature": "messages.tool_calls.extra_content",
    "image": "messages.image_url",
    "document": "messages.file",
    "audio": "messages.input_audio",
    "video": "messages.video_url",
    "media.detail": "messages.image_url.detail",
    "media.name": "messages.file.filename",
}

# Values that say no more than leaving the member out does.
_NEUTRAL = {
    "store": False,
    "logprobs": False,
    "top_logprobs": 0,
    "logit_bias": {},
    "metadata": {},
    "modalities": ["text"],
    "verbosity": "medium",
    "service_tier": "auto",
    "stream_options.include_obfuscation": False,
}

ORIGIN = ClientProtocol(
    protocol=CHAT.protocol,
    names=_NAMES,
    neutral=_NEUTRAL,
    modalities="modalities",
)
