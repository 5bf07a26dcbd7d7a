"""Token counts as the chat-completions protocol states them, for billing and for responses.

`prompt_tokens` is the whole input, cached parts included; `completion_tokens` includes reasoning.
"""

from __future__ import annotations

import msgspec

from channels.dialects import token_counts, usage_details
from channels.dialects.chat.events import GroqMember
from channels.dialects.usage import RunningUsage
from channels.json.lenient import NULL

# Part of the names of OpenAI's models that search for every response without stating a count.
_SEARCHING = "-search-"


class ChatUsageReader(RunningUsage):
    """The usage of one response so far.

    `tier` is the last service tier stated, `model` the model of the response. `is_own`: the usage
    was stated in the protocol's own member, after which no other counts.
    """

    __slots__ = ("is_own", "model", "tier")

    def __init__(self) -> None:
        super().__init__()
        self.is_own = False
        self.tier: str | None = None
        self.model: str | None = None

    @property
    def usage(self) -> token_counts.Usage | None:
        """The usage; None while it is incomplete."""
        return self.usage_with(self._parts())

    @property
    def partial(self) -> token_counts.PartialUsage | None:
        """What is known while the usage is incomplete."""
        return self.partial_with(self._parts())

    def take_usage(self, stated: msgspec.Raw, characters: int = 0) -> bool:
        """Take a `usage` member, stated after so many characters. False if a part is unreadable."""
        counts, is_whole = usage_details.read_usage(stated, is_chat=True)
        if counts is None:
            return False
        self.is_own = True
        self.add(counts, characters)
        return is_whole

    def take_spare(
        self, groq: GroqMember | None, *of_choices: msgspec.Raw, characters: int = 0
    ) -> bool:
        """Take usage stated elsewhere. False if it is empty, or the protocol's own was stated."""
        if self.is_own:
            return False
        stated = () if groq is None else (groq.usage,)
        for usage in (*stated, *of_choices):
            counts = None if usage is NULL else usage_details.read_usage(usage, is_chat=True)[0]
            if counts is not None:
                self.add(counts, characters)
                return True
        return False

    def _parts(self) -> token_counts.UsageParts | None:
        """Return tier and searches, which are stated elsewhere."""
        tier = None if self.tier is None else token_counts.served_tier(self.tier)
        is_searching = self.model is not None and _SEARCHING in self.model
        if tier is None and not is_searching:
            return None
        return token_counts.UsageParts(service_tier=tier, web_searches=int(is_searching))


def write_usage(usage: token_counts.Usage) -> dict[str, object]:
    """Encode the `usage` member."""
    details: dict[str, object] = {"cached_tokens": usage.cached_tokens}
    if usage.cache_write_tokens:
        details["cache_write_tokens"] = usage.cache_write_tokens
    output_details: dict[str, object] = {"reasoning_tokens": usage.reasoning_tokens}
    written = {
        "prompt_tokens": usage.input_tokens,
        "completion_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "prompt_tokens_details": details,
        "completion_tokens_details": output_details,
    }
    if usage.parts is not None:
        usage_details.add_parts(usage, details, output_details)
        written.update(usage_details.tools_member(usage.parts))
    return written
