"""The members of a gemini response that the gateway parses, as types.

A stream's chunk and a whole response have the same form, and the meter and translations share one
decoding. A documented chunk is decoded by the types, which is fast; any other loosely, part by
part. `stream_decoder.py` and `response.py` make canonical events of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

import msgspec
from msgspec import Struct
from msgspec.structs import fields, replace

from channels.dialects.meter import (
    TOOL_CALLS_MAX,
    PartialUsage,
    ResponseMeter,
    Tokens,
    Usage,
    UsageParts,
    fit_name,
    loosely,
    served_tier,
)
from channels.dialects.usage import Counts, RunningUsage, UsageType, less_of
from channels.errors import UpstreamMalformed
from channels.json.lenient import (
    NULL,
    UNREADABLE,
    length_of,
    raw_of,
    read_json,
    read_loosely,
    text_of,
)
from channels.json.weight import is_heavy_event

# Some upstreams end this protocol's streams like those of chat-completions.
_FOREIGN_TERMINATOR = b"[DONE]"


class PartialArgument(Struct, rename="camel", gc=False):
    """A piece of an argument: its path, and its value or the next piece of its text."""

    json_path: str | None = None
    string_value: str | None = None
    number_value: msgspec.Raw = NULL
    bool_value: msgspec.Raw = NULL
    will_continue: bool | None = None


class Call(Struct, rename="camel", gc=False):
    """A function call, or a piece of one."""

    id: str | None = None
    name: str | None = None
    args: msgspec.Raw = NULL
    partial_args: list[PartialArgument] | None = None
    will_continue: bool | None = None


class Part(Struct, rename="camel", gc=False):
    """One part of the content: text or a thought, a call, media, code and its outcome."""

    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: Call | None = None
    inline_data: msgspec.Raw = NULL
    file_data: msgspec.Raw = NULL
    executable_code: msgspec.Raw = NULL
    code_execution_result: msgspec.Raw = NULL

    def characters(self) -> int:
        """Characters of text, thinking, calls and code (contract §7: Cost of a cut call)."""
        count = 0 if self.text is None else len(self.text)
        call = self.function_call
        if call is not None:
            count += len(call.name or "") + length_of(call.args)
            for piece in call.partial_args or ():
                count += len(piece.string_value or "")
                count += length_of(piece.number_value) + length_of(piece.bool_value)
        if self.executable_code is not NULL:
            code = object_of(self.executable_code)
            count += len((None if code is None else text_of(code.get("code"))) or "")
        return count


class Content(Struct, gc=False):
    """The content of a candidate, or an addition to it."""

    parts: list[Part] | None = None


class Candidate(Struct, rename="camel", gc=False):
    """One of the responses requested."""

    content: Content | None = None
    finish_reason: str | None = None
    finish_message: str | None = None
    index: int | None = None
    grounding_metadata: msgspec.Raw = NULL


class Feedback(Struct, rename="camel", gc=False):
    """The feedback on the prompt."""

    block_reason: str | None = None
    block_reason_message: str | None = None


class UsageMetadata(Struct, rename="camel", gc=False):
    """Token counts so far; zeros may be omitted. The details are by modality."""

    prompt_token_count: Tokens | None = None
    candidates_token_count: Tokens | None = None
    total_token_count: Tokens | None = None
    thoughts_token_count: Tokens | None = None
    tool_use_prompt_token_count: Tokens | None = None
    cached_content_token_count: Tokens | None = None
    prompt_tokens_details: msgspec.Raw = NULL
    tool_use_prompt_tokens_details: msgspec.Raw = NULL
    cache_tokens_details: msgspec.Raw = NULL
    candidates_tokens_details: msgspec.Raw = NULL
    traffic_type: str | None = None  # of Vertex AI
    service_tier: str | None = None

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
        """Return the counts (contract §3)."""
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

    def parts(self) -> UsageParts | None:
        """Return the parts that it states; None if there are none, the common case."""
        prompt, made = _modal(self.prompt_tokens_details), _modal(self.candidates_tokens_details)
        tool = _modal(self.tool_use_prompt_tokens_details)
        tier = served_tier(self.traffic_type) or served_tier(self.service_tier)
        if prompt is None and made is None and tool is None and tier is None:
            return None
        prompt, tool, made = prompt or _NONE, tool or _NONE, made or _NONE
        cached = _modal(self.cache_tokens_details) or _NONE
        return UsageParts(
            audio_input_tokens=prompt["AUDIO"] + tool["AUDIO"],
            cached_audio_tokens=cached["AUDIO"],
            image_input_tokens=prompt["IMAGE"] + tool["IMAGE"],
            cached_image_tokens=cached["IMAGE"],
            audio_output_tokens=made["AUDIO"],
            # Generated video has a price of its own like images, and no other name.
            image_output_tokens=made["IMAGE"] + made["VIDEO"],
            service_tier=tier,
        )


class _ModalCount(Struct, rename="camel", gc=False):
    modality: str | None = None
    token_count: Tokens | None = None


class _Grounding(Struct, rename="camel", gc=False):
    web_search_queries: list[str] | None = None
    image_search_queries: list[str] | None = None


_MODAL = msgspec.json.Decoder(list[_ModalCount])
_GROUNDING = msgspec.json.Decoder(_Grounding)
_NONE: Mapping[str, int] = MappingProxyType({"AUDIO": 0, "IMAGE": 0, "VIDEO": 0})
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


class Chunk(Struct, rename="camel", gc=False):
    """A stream's event, or a whole response."""

    candidates: list[Candidate] | None = None
    usage_metadata: UsageMetadata | None = None
    prompt_feedback: Feedback | None = None
    error: msgspec.Raw = NULL
    response_id: str | None = None
    model_version: str | None = None


class LooseChunk(Chunk, gc=False):
    """An undocumented chunk, as far as its members can be decoded.

    `is_usage_unreadable`: a part of the usage is.
    """

    is_usage_unreadable: bool = False


# The members that add up, those of them that state the output, and the rest.
_RUNNING = tuple(one.name for one in fields(UsageMetadata) if one.name.endswith("_count"))
_MADE = frozenset(("candidates_token_count", "thoughts_token_count", "total_token_count"))
_NAMED = tuple((one.name, one.default) for one in fields(UsageMetadata) if one.name not in _RUNNING)
# Decodes a documented chunk; raises the errors in UNREADABLE.
decode_chunk = msgspec.json.Decoder(Chunk).decode
_USAGE = UsageType(UsageMetadata)


def read_chunks(data: bytes, *, mends: bool = True) -> Sequence[Chunk] | None:
    """Return the chunk, or those of an array, as far as they can be decoded.

    Empty for a terminator; None for anything else. Never raises.
    """
    try:
        return (decode_chunk(data),)
    except UNREADABLE:
        value = read_loosely(data, mends=mends)
    values = value if isinstance(value, list) else [value]
    chunks = [_loose_chunk(one) for one in values if isinstance(one, dict)]
    return chunks if chunks or data.strip() == _FOREIGN_TERMINATOR else None


def object_of(raw: msgspec.Raw) -> dict[str, Any] | None:
    """Return the object in a member; None if there is none."""
    value = None if raw is NULL else read_json(bytes(raw))
    return value if isinstance(value, dict) else None


def _loose_chunk(value: dict[str, Any]) -> Chunk:
    try:
        return decode_chunk(raw_of(value))
    except UNREADABLE:
        pass
    stated = value.get("usageMetadata")
    chunk = loosely(LooseChunk, {**value, "usageMetadata": None})
    assert chunk is not None
    if stated is not None:
        chunk.usage_metadata, is_whole = _USAGE.read(raw_of(stated))
        chunk.is_usage_unreadable = not is_whole
    return chunk


# Token counts of the gemini protocol, parsed once for billing and for translations.
#
# The prompt's count includes cached tokens. Thoughts are counted apart from the candidates, and a
# count of zero is written, because clients take a missing one for unknown.


class UsageReader(RunningUsage):
    """The usage of one response so far, which every chunk of a stream states anew.

    Its members are added up, and only become counts on request. `model`: the response's.
    """

    __slots__ = ("_queries", "_running", "model")

    def __init__(self) -> None:
        super().__init__()
        self._running: UsageMetadata | None = None
        self._queries: set[int] | None = None  # hashes of the searched queries
        self.model: str | None = None

    def __repr__(self) -> str:
        return f"<UsageReader {self._running}>"

    def ground(self, stated: msgspec.Raw) -> None:
        """Add the queries of a candidate's grounding; empty ones are free of charge."""
        try:
            grounding = _GROUNDING.decode(stated)
        except UNREADABLE:
            return
        for queries in (grounding.web_search_queries, grounding.image_search_queries):
            for query in queries or ():
                self._queries = self._queries or set()
                if query.strip() and len(self._queries) < TOOL_CALLS_MAX:
                    self._queries.add(hash(query))

    def take(self, stated: UsageMetadata, characters: int = 0) -> None:
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

    def usage(self, *, is_empty: bool) -> Usage | None:
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

    def partial(self) -> PartialUsage | None:
        """Return what is known while the usage is incomplete."""
        self.counts = None if self._running is None else self._running.counts()
        return self.partial_with(self._searched())

    def _searched(self) -> UsageParts | None:
        if not self._queries:
            return None
        is_by_prompt = self.model is not None and self.model.startswith(_BY_PROMPT)
        return UsageParts(web_searches=1 if is_by_prompt else len(self._queries))


def write_usage(usage: Usage) -> dict[str, Any]:
    """Return the `usageMetadata` member."""
    written: dict[str, Any] = {
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


def _write_modal(text: int, audio: int, image: int) -> list[dict[str, Any]]:
    counts = {"TEXT": text, "AUDIO": audio, "IMAGE": image}
    return [{"modality": name, "tokenCount": count} for name, count in counts.items() if count]


# Meters a gemini response: usage, characters, its end.
#
# It neither changes nor delays the bytes. A chunk that cannot be decoded is forwarded, and counted
# in `malformed_events`: it must not end a stream.
#
# A stream has no terminator. It is read until the upstream ends it, and is complete (`finished`) if
# every candidate has stated a finish reason, or the prompt was refused. More may follow a finish
# reason, such as the usage, so `finished` does not end the reading.


class GeminiMeter(ResponseMeter[Sequence[Chunk]]):
    """Meters one response. `finished`: it is complete if it ends here."""

    _error_names: ClassVar[tuple[str, ...]] = ("status", "code")
    begins_at_once = False

    def __init__(self) -> None:
        self._has_ended: dict[int, bool] = {}  # by candidate
        self._unended = 0  # candidates that have not ended
        self._stated = UsageReader()

    @property
    def usage(self) -> Usage | None:
        return self._stated.usage(is_empty=self.finished and not self.characters)

    @property
    def partial_usage(self) -> PartialUsage | None:
        return self._stated.partial() if self.usage is None else None

    @property
    def unstated_characters(self) -> int:
        return self.characters - self._stated.covered

    @staticmethod
    def read(data: bytes) -> Sequence[Chunk] | None:
        try:
            return (decode_chunk(data),)
        except UNREADABLE:
            return None if is_heavy_event(data) else read_chunks(data)

    def take(self, read: Sequence[Chunk] | None) -> bool:
        """Meter what was read of an event. True, as every event is forwarded."""
        if read is None:
            self.malformed_events += 1
            return True
        for chunk in read:
            self._take(chunk)
        return True

    def body(self, body: bytes) -> None:
        """Meter a whole response. Raises UpstreamMalformed if it is no JSON object."""
        chunks = read_chunks(body)
        if not chunks:
            raise UpstreamMalformed("not a JSON object")
        self.take(chunks)
        self.finished = True

    def _take(self, chunk: Chunk) -> None:
        if chunk.candidates:
            self.has_choice = True
            for candidate in chunk.candidates:
                self._take_candidate(candidate)
        feedback = chunk.prompt_feedback
        if feedback is not None and feedback.block_reason is not None:
            self.finish_reason = fit_name(feedback.block_reason)
            self.finished = True
        if chunk.usage_metadata is not None:
            self._stated.take(chunk.usage_metadata, self.characters)
        if isinstance(chunk, LooseChunk) and chunk.is_usage_unreadable:
            self.malformed_events += 1
        if self.response_id is None or self.response_model is None:
            self._note_names(chunk.response_id, chunk.model_version)
            self._stated.model = self.response_model
        if chunk.error is not NULL:
            self._note_error(chunk.error)

    def _take_candidate(self, candidate: Candidate) -> None:
        content = candidate.content
        if content is not None and content.parts:
            for part in content.parts:
                self.characters += part.characters()
        if candidate.grounding_metadata is not NULL:
            self._stated.ground(candidate.grounding_metadata)
        ended = self._has_ended
        index = candidate.index or 0
        if candidate.finish_reason is not None:
            self.finish_reason = fit_name(candidate.finish_reason)
            if ended.get(index) is False:
                self._unended -= 1
            ended[index] = True
            self.finished = not self._unended
        elif index not in ended:
            ended[index] = False
            self._unended += 1
            self.finished = False


def ends(data: bytes) -> bool:
    """Whether an event without its blank line counts at the end of the stream.

    There is no terminator; a complete chunk with a finish reason, or with usage only, counts as the
    last one.
    """
    return any(
        any(candidate.finish_reason for candidate in chunk.candidates or ())
        or (chunk.prompt_feedback is not None and chunk.prompt_feedback.block_reason is not None)
        or (not chunk.candidates and chunk.usage_metadata is not None)
        for chunk in read_chunks(data, mends=False) or ()
    )
