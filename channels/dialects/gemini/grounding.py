"""The sources of a native-content upstream's text, as canonical events.

`groundingMetadata` lists the sources and, apart from them, which of the text they support. A
segment's offsets count bytes of UTF-8 in its part; those of a stream, in the text of all chunks.
"""

from __future__ import annotations

import msgspec
from msgspec import Struct

from channels.dialects import token_counts
from channels.json.lenient import UNREADABLE
from channels.translation.events import CITATIONS_MAX, Citation, source_of


class _Source(Struct, gc=False):
    uri: str | None = None
    title: str | None = None


class _Chunk(Struct, rename="camel", gc=False):
    web: _Source | None = None
    retrieved_context: _Source | None = None
    maps: _Source | None = None


class _Segment(Struct, rename="camel", gc=False):
    part_index: token_counts.Tokens | None = None
    start_index: token_counts.Tokens | None = None
    end_index: token_counts.Tokens | None = None


class _Support(Struct, rename="camel", gc=False):
    segment: _Segment | None = None
    grounding_chunk_indices: list[int] | None = None


class _Grounding(Struct, rename="camel", gc=False):
    grounding_chunks: list[_Chunk] | None = None
    grounding_supports: list[_Support] | None = None


_GROUNDING = msgspec.json.Decoder(_Grounding)

# Text beyond is not kept, and sources have no place in it. An upstream decides how much there is.
_KEPT_CHARACTERS_MAX = 1 << 20
# The bytes of a character of UTF-8 after its first one.
_FOLLOWING = bytes(range(0x80, 0xC0))

_Named = tuple[str, str]  # a source's URL and title


class GroundingReader:
    """The sources of one response, and the text that they refer to.

    While all of the text is ASCII, a byte is a character, and only their number is kept. The
    offsets of all sources are counted at the end, in one pass over the text.
    """

    __slots__ = ("_bytes", "_characters", "_kept", "_named", "_part_starts", "_places", "_plain")

    def __init__(self) -> None:
        self._characters = 0
        self._bytes = 0
        self._plain = 0  # characters before the first piece of text that is not ASCII
        self._kept: list[str] = []  # the text from there on
        self._part_starts: dict[int, int] = {}  # of a whole response, in bytes
        self._places: dict[tuple[_Named, int, int | None], None] = {}  # in bytes
        self._named: dict[_Named, None] = {}

    def begin_part(self, index: int) -> None:
        """Note that a part of a whole response begins."""
        self._part_starts[index] = self._bytes

    def add(self, text: str) -> None:
        """Note text of the response."""
        is_plain = text.isascii()
        if is_plain and self._plain == self._characters:
            self._plain += len(text)
        elif self._characters - self._plain + len(text) <= _KEPT_CHARACTERS_MAX:
            self._kept.append(text)
        self._characters += len(text)
        self._bytes += len(text) if is_plain else len(text.encode(errors="replace"))

    def note(self, stated: msgspec.Raw) -> None:
        """Note the sources of a candidate; some streams repeat them all in every chunk."""
        try:
            grounding = _GROUNDING.decode(stated)
        except UNREADABLE:
            return
        sources = [_named(chunk) for chunk in grounding.grounding_chunks or ()]
        for source in sources:
            if source is not None and len(self._named) < CITATIONS_MAX:
                self._named[source] = None
        for support in grounding.grounding_supports or ():
            segment = support.segment or _Segment()
            begin = self._part_starts.get(segment.part_index or 0, 0)
            start, end = begin + (segment.start_index or 0), segment.end_index
            for index in support.grounding_chunk_indices or ():
                found = sources[index] if 0 <= index < len(sources) else None
                if found is not None and len(self._places) < CITATIONS_MAX:
                    self._places[found, start, None if end is None else begin + end] = None

    def citations(self) -> list[Citation]:
        """Return the sources of the text; those that support no segment are of all of it."""
        if not self._named:
            return []
        at = self._characters_at(
            {place for _, *places in self._places for place in places if place is not None}
        )
        found = [
            Citation(*source, at[start], self._characters if end is None else at[end])
            for source, start, end in self._places
        ]
        supported = {source for source, _, _ in self._places}
        rest = [Citation(*one, 0, self._characters) for one in self._named if one not in supported]
        return [*found, *rest]

    def _characters_at(self, offsets: set[int]) -> dict[int, int | None]:
        """Return for offsets in bytes those in characters; None where the text was not kept."""
        kept = "".join(self._kept).encode(errors="replace")
        is_whole = self._plain + len(kept) == self._bytes
        found: dict[int, int | None] = {}
        before, characters = 0, self._plain
        for offset in sorted(offsets):
            if offset <= self._plain:
                found[offset] = offset
                continue
            behind = offset - self._plain
            if behind > len(kept):
                found[offset] = self._characters if is_whole else None
                continue
            characters += len(kept[before:behind].translate(None, _FOLLOWING))
            found[offset], before = characters, behind
        return found


def _named(chunk: _Chunk) -> _Named | None:
    source = chunk.web or chunk.retrieved_context or chunk.maps
    return None if source is None else source_of(source.uri, source.title)
