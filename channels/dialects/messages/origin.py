"""What a client of messages calls the members of a request: for telling what was dropped.

Left the field of `channels/translation/model.py`, right this protocol's word, dotted and without
indices. A field that it has no word for cannot have come from it.
"""

from __future__ import annotations

from channels.families import MESSAGES
from channels.translation.model import ClientProtocol

_NAMES = {
    "parallel_tools": "tool_choice.disable_parallel_tool_use",
    "stop": "stop_sequences",
    "format": "output_config.format",
    "format.is_strict": "output_config.format",
    "format.schema": "output_config.format.schema",
    "reasoning.effort": "output_config.effort",
    "reasoning.budget_tokens": "thinking.budget_tokens",
    "reasoning.is_enabled": "thinking",
    "reasoning.shows_thoughts": "thinking.display",
    "user": "metadata.user_id",
    "tools.name": "tools.name",
    "tools.description": "tools.description",
    "tools.parameters": "tools.input_schema",
    "tools.is_strict": "tools.strict",
    "turn.role": "messages.role",
    "system": "system",
    "thinking": "messages.thinking",
    "call.arguments": "messages.tool_use.input",
    "image": "messages.image",
    "document": "messages.document",
    "media.name": "messages.document.title",
    "is_error": "messages.tool_result.is_error",
}

# Values that say no more than leaving the member out does.
_NEUTRAL = {
    "service_tier": "auto",
    "speed": "standard",
    "mcp_servers": [],
    "tools.type": "custom",
    "tools.defer_loading": False,
    "tools.allowed_callers": ["direct"],
    "tools.eager_input_streaming": False,
    "tools.input_examples": [],
    "messages.citations": [],
    "messages.caller": {"type": "direct"},
}

ORIGIN = ClientProtocol(
    protocol=MESSAGES.protocol,
    names=_NAMES,
    neutral=_NEUTRAL,
    system="system.",
    shows_thoughts=True,
)
