"""Token counts as the native-content protocol writes them; reading is `channels/dialects/gemini`.

The prompt's count includes what came from a cache. Thoughts are counted beside the candidates, and
a count of zero is written: clients take a missing one for unknown.
"""

from __future__ import annotations

import msgspec

from channels.dialects.gemini.chunk import UsageMetadata
from channels.json.text import UNREADABLE
from channels.usage import Usage

_DECODER = msgspec.json.Decoder(UsageMetadata)


def read_usage(raw: bytes) -> UsageMetadata | None:
    """The counts in a `usageMetadata` member; None where it does not tell the input."""
    try:
        stated = _DECODER.decode(raw)
    except UNREADABLE:
        return None
    return None if stated.prompt_token_count is None else stated


def write_usage(usage: Usage) -> dict[str, int]:
    """The `usageMetadata` member."""
    return {
        "promptTokenCount": usage.input_tokens,
        "candidatesTokenCount": usage.output_tokens - usage.reasoning_tokens,
        "totalTokenCount": usage.input_tokens + usage.output_tokens,
        "thoughtsTokenCount": usage.reasoning_tokens,
        "cachedContentTokenCount": usage.cached_tokens,
    }
