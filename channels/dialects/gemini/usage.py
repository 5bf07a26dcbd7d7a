"""Token counts of the gemini protocol, parsed once for billing and for translations.

The prompt's count includes cached tokens. Thoughts are counted apart from the candidates, and a
count of zero is written, because clients take a missing one for unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

import msgspec
from msgspec import Struct
from msgspec.structs import fields, replace

from channels.dialects import token_counts
from channels.dialects.usage import Counts, RunningUsage, less_of, usage_of
from channels.dialects.usage_details import read_usage
from channels.json.lenient import NULL, UNREADABLE


class _ModalCount(Struct, rename="camel", gc=False):
    modality: str | None = None
    token_count: token_counts.Tokens | None = None


class _Grounding(Struct, rename="camel", gc=False):
    web_search_queries: list[str] | None = None
    image_search_queries: list[str] | None = None


_MODAL = msgspec.json.Decoder(list[_ModalCount])
_GROUNDING = msgspec.json.Decoder(_Grounding)
_NONE: Mapping[str, int] = MappingProxyType({"AUDIO": 0, "IMAGE": 0, "VIDEO": 0})


class UsageMetadata(Struct, rename="camel", gc=False):
    """Token counts so far; zeros may be omitted. The details are by modality."""

    prompt_token_count: token_counts.Tokens | None = None
    candidates_token_count: token_counts.Tokens | None = None
    total_token_count: token_counts.Tokens | None = None
    thoughts_token_count: token_counts.Tokens | None = None
    tool_use_prompt_token_count: token_counts.Tokens | None = None
    cached_content_token_count: token_counts.Tokens | None = None
    prompt_tokens_details: msgspec.Raw = NULL
    tool_use_prompt_tokens_details: msgspec.Raw = NULL
    cache_tokens_details: msgspec.Raw = NULL
    candidates_tokens_details: msgspec.Raw = NULL
    traffic_type: str | None = None  # of Vertex AI
    service_tier: str | None = None

    def counts_anything(self) -> bool:
        """Whether a count of the prompt, of the output or of both is stated."""
        return (self.prompt_token_count or self.total_token_count) is not None or (
            self.states_output()
        )

    def states_output(self) -> bool:
        """Whether it states the output, by a count of its own or within the total."""
        if self.candidates_token_count is not None:
            return True
        return bool(self.thoughts_token_count) or (self.total_token_count or 0) > self.taken()

    def taken(self) -> int:
        """Return the input tokens: the prompt, and the results of the provider's tools."""
        return (self.prompt_token_count or 0) + (self.tool_use_prompt_token_count or 0)

    def made(self) -> int | None:
        """Return the output tokens, thoughts included; None if they are not stated."""
        if not self.states_output():
            return None
        taken, total = self.taken(), self.total_token_count
        candidates, thoughts = self.candidates_token_count, self.thoughts_token_count or 0
        if candidates is None:
            return max(thoughts, (total or 0) - taken)
        if total in (taken + candidates, (self.prompt_token_count or 0) + candidates):
            return candidates  # the count includes the thoughts
        return candidates + thoughts

    def counts(self) -> Counts:
        """Return the counts (reference 5.7)."""
        made = self.made()
        return Counts(
            input_tokens=None if self.prompt_token_count is None else self.taken(),
            output_tokens=made,
            # Without the output it would be taken for the rest of the total.
            total_tokens=None if made is None else self.total_token_count,
            cached_tokens=self.cached_content_token_count or 0,
            reasoning_tokens=self.thoughts_token_count or 0,
            parts=self.parts(),
            is_reasoning_placed=True,
        )

    def parts(self) -> token_counts.UsageParts | None:
        """Return the parts that it states; None if there are none, the common case."""
        prompt, made = _modal(self.prompt_tokens_details), _modal(self.candidates_tokens_details)
        tool = _modal(self.tool_use_prompt_tokens_details)
        tier = token_counts.served_tier(self.traffic_type) or token_counts.served_tier(
            self.service_tier
        )
        if prompt is None and made is None and tool is None and tier is None:
            return None
        prompt, tool, made = prompt or _NONE, tool or _NONE, made or _NONE
        cached = _modal(self.cache_tokens_details) or _NONE
        return token_counts.UsageParts(
            audio_input_tokens=prompt["AUDIO"] + tool["AUDIO"],
            cached_audio_tokens=cached["AUDIO"],
            image_input_tokens=prompt["IMAGE"] + tool["IMAGE"],
            cached_image_tokens=cached["IMAGE"],
            audio_output_tokens=made["AUDIO"],
            # Generated video has a price of its own like images, and no other name.
            image_output_tokens=made["IMAGE"] + made["VIDEO"],
            service_tier=tier,
        )


def named_otherwise(usage: msgspec.Raw) -> UsageMetadata | None:
    """Return a usage that is stated by the names of OpenAI's protocols; None without counts."""
    counts, _ = read_usage(usage, is_chat=True)
    stated = None if counts is None else usage_of(counts)
    if stated is None:
        return None
    return UsageMetadata(
        prompt_token_count=stated.input_tokens,
        candidates_token_count=stated.output_tokens,
        total_token_count=stated.input_tokens + stated.output_tokens,
        thoughts_token_count=stated.reasoning_tokens,
        cached_content_token_count=stated.cached_tokens,
    )


# Models of these generations are billed per grounded prompt, later ones per query.
_BY_PROMPT = ("gemini-1", "gemini-2")


def _modal(details: msgspec.Raw) -> Mapping[str, int] | None:
    """Return tokens by modality; None if all are of text."""
    if details is NULL:
        return None
    stated = bytes(details)
    if b"AUDIO" not in stated and b"IMAGE" not in stated and b"VIDEO" not in stated:
        return None
    try:
        counts = _MODAL.decode(stated)
    except UNREADABLE:
        return None
    found = dict(_NONE)
    for one in counts:
        if one.modality in found:
            found[one.modality] += one.token_count or 0
    return found


# The members that add up, those of them that state the output, and the rest.
_RUNNING = tuple(one.name for one in fields(UsageMetadata) if one.name.endswith("_count"))
_MADE = frozenset(("candidates_token_count", "thoughts_token_count", "total_token_count"))
_NAMED = tuple((one.name, one.default) for one in fields(UsageMetadata) if one.name not in _RUNNING)


class GeminiUsageReader(RunningUsage):
    """The usage of one response so far, which every chunk of a stream states anew.

    Its members are added up, and only become counts on request. `model`: the response's.
    """

    __slots__ = ("_queries", "_running", "model")

    def __init__(self) -> None:
        super().__init__()
        self._running: UsageMetadata | None = None
        self._queries: set[int] | None = None  # hashes of the searched queries
        self.model: str | None = None

    def ground(self, stated: msgspec.Raw) -> None:
        """Add the queries of a candidate's grounding; empty ones are free of charge."""
        try:
            grounding = _GROUNDING.decode(stated)
        except UNREADABLE:
            return
        for queries in (grounding.web_search_queries, grounding.image_search_queries):
            for query in queries or ():
                self._queries = self._queries or set()
                if query.strip() and len(self._queries) < token_counts.TOOL_CALLS_MAX:
                    self._queries.add(hash(query))

    def take_usage(self, stated: UsageMetadata, characters: int = 0) -> None:
        """Add a chunk's counts, stated after so many characters."""
        known = self._running
        fallen = {} if known is None else less_of(known, stated, _RUNNING)
        if known is not None:
            for name, missing in _NAMED:
                if getattr(stated, name) is missing is not (value := getattr(known, name)):
                    fallen[name] = value
        self._running = replace(stated, **fallen) if fallen else stated
        self.counts = None
        if stated.made() and not _MADE & fallen.keys():
            self.covered = characters

    def usage(self, *, is_empty: bool) -> token_counts.Usage | None:
        """Return the last complete usage; None without one.

        Counts without output are complete if the response is complete and empty (`is_empty`), since
        zeros may be omitted.
        """
        running = self._running
        if running is None or running.prompt_token_count is None:
            return None
        counts = running.counts()
        if counts.output_tokens is None:
            if not is_empty:
                return None
            counts = replace(counts, output_tokens=0)
        self.counts = counts
        return self.usage_with(self._searched())

    def partial(self) -> token_counts.PartialUsage | None:
        """Return what is known while the usage is incomplete."""
        self.counts = None if self._running is None else self._running.counts()
        return self.partial_with(self._searched())

    def _searched(self) -> token_counts.UsageParts | None:
        if not self._queries:
            return None
        is_by_prompt = self.model is not None and self.model.startswith(_BY_PROMPT)
        return token_counts.UsageParts(web_searches=1 if is_by_prompt else len(self._queries))


def write_usage(usage: token_counts.Usage) -> dict[str, object]:
    """Return the `usageMetadata` member."""
    written: dict[str, object] = {
        "promptTokenCount": usage.input_tokens,
        "candidatesTokenCount": usage.output_tokens - usage.reasoning_tokens,
        "totalTokenCount": usage.input_tokens + usage.output_tokens,
        "thoughtsTokenCount": usage.reasoning_tokens,
        "cachedContentTokenCount": usage.cached_tokens,
    }
    if (parts := usage.parts) is not None:
        details = {
            "promptTokensDetails": (
                usage.input_tokens,
                parts.audio_input_tokens,
                parts.image_input_tokens,
            ),
            "cacheTokensDetails": (
                usage.cached_tokens,
                parts.cached_audio_tokens,
                parts.cached_image_tokens,
            ),
            "candidatesTokensDetails": (
                usage.output_tokens - usage.reasoning_tokens,
                parts.audio_output_tokens,
                parts.image_output_tokens,
            ),
        }
        for name, (whole, audio, image) in details.items():
            if audio or image:
                written[name] = _write_modal(whole - audio - image, audio, image)
        if parts.service_tier in ("priority", "flex"):
            written["trafficType"] = f"ON_DEMAND_{parts.service_tier.upper()}"
    return written


def _write_modal(text: int, audio: int, image: int) -> list[dict[str, object]]:
    counts = {"TEXT": text, "AUDIO": audio, "IMAGE": image}
    return [{"modality": name, "tokenCount": count} for name, count in counts.items() if count]
