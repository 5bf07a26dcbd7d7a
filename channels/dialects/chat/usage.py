"""Token counts as the chat-completions protocol writes them; reading is `channels/dialects/chat`.

`prompt_tokens` is the whole input, cached parts included; `completion_tokens` includes reasoning.
"""

from __future__ import annotations

from typing import Any

from channels.usage import Usage


def write_usage(usage: Usage) -> dict[str, Any]:
    """The `usage` member."""
    details = {"cached_tokens": usage.cached_tokens}
    if usage.cache_write_tokens:
        details["cache_write_tokens"] = usage.cache_write_tokens
    return {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": details,
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
    }
