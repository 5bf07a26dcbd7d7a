"""Token counts of the gemini protocol: read once, for money and display.

The prompt's count includes what came from a cache. Thoughts are counted beside the candidates, and
a count of zero is written: clients take a missing one for unknown.
"""

from __future__ import annotations

from channels.dialects.gemini.chunk import UsageMetadata
from channels.usage import PartialUsage, Usage


class UsageReader:
    """The usage of one response so far: running counts, of which each replaces the one before.

    Counts become a usage only when they are asked for, as every chunk of a stream has some.
    """

    __slots__ = ("_running", "_stated")

    def __init__(self) -> None:
        self._stated: UsageMetadata | None = None  # the counts stated last
        self._running: UsageMetadata | None = None  # likewise, where they tell the input only

    def __repr__(self) -> str:
        return f"<UsageReader {self._stated or self._running}>"

    def take(self, stated: UsageMetadata) -> bool:
        """Take a chunk's counts. False where they do not tell the output."""
        if stated.prompt_token_count is None:
            return False
        if not stated.states_output():
            self._running = stated
            return False
        self._stated = stated
        return True

    def usage(self, *, is_empty: bool) -> Usage | None:
        """The usage stated last; None while none was stated whole.

        Counts that tell the input only are whole where the response is complete and empty, as zeros
        may be left out on the wire; where text has passed they are not.
        """
        if self._stated is not None:
            return self._stated.usage()
        return self._running.usage() if self._running is not None and is_empty else None

    def partial(self) -> PartialUsage | None:
        """The input, where nothing more was stated."""
        if self._running is None or self._stated is not None:
            return None
        return PartialUsage(input=self._running.usage(), output_tokens=None)


def write_usage(usage: Usage) -> dict[str, int]:
    """The `usageMetadata` member."""
    return {
        "promptTokenCount": usage.input_tokens,
        "candidatesTokenCount": usage.output_tokens - usage.reasoning_tokens,
        "totalTokenCount": usage.input_tokens + usage.output_tokens,
        "thoughtsTokenCount": usage.reasoning_tokens,
        "cachedContentTokenCount": usage.cached_tokens,
    }
