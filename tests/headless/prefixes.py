"""How much of what an agent sends again a provider's cache can find: prefixes of upstream bodies.

A prompt is its blocks in the order in which providers read them: tools, instructions, turns. Marks
of the cache are no part of it, nor is the order of a block's members, which are read by name; that
of its values is. Lengths are of its JSON, in place of tokens.
"""

import json
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from hashlib import blake2b
from itertools import pairwise
from typing import Any

# A mark also finds what was written at one of so many blocks before it (Anthropic's lookback).
LOOKBACK_BLOCKS = 20
INSTRUCTIONS = ("system", "instructions", "systemInstruction")
TURNS = ("messages", "input", "contents")


def blocks_of(body: dict[str, Any]) -> list[tuple[str, bool]]:
    """The blocks of a body of any chat protocol as text, and whether each is marked."""
    parts = [*_listed(body.get("tools"))]
    for name in INSTRUCTIONS:
        parts += map(_as_part, _listed(body.get(name)))
    for name in TURNS:
        for turn in _listed(body.get(name)):
            parts += _parts(turn)
    return [_unmarked(part) for part in parts]


def identical_share(conversations: Sequence[Sequence[dict[str, Any]]]) -> float:
    """The share of each prompt that is the beginning of the next one, byte for byte."""
    pairs: list[tuple[str, str]] = []
    for bodies in conversations:
        pairs += pairwise("\n".join(text for text, _ in blocks_of(body)) for body in bodies)
    same = sum(_common(*pair) for pair in pairs)
    return same / (sum(len(before) for before, _ in pairs) or 1)


def hits_by_marks(bodies: Sequence[dict[str, Any]]) -> float:
    """The share of what was sent before, at its beginning, that an upstream finds by its marks."""
    seen: set[bytes] = set()
    written: set[bytes] = set()
    possible = found = 0
    for body in bodies:
        blocks = blocks_of(body)
        prefixes = list(_prefixes(blocks))
        marked = [index for index, (_, is_marked) in enumerate(blocks) if is_marked]
        looked_at = {
            index
            for last in marked
            for index in range(max(0, last - LOOKBACK_BLOCKS + 1), last + 1)
        }
        possible += max((size for digest, size in prefixes if digest in seen), default=0)
        reached = (prefixes[index] for index in looked_at)
        found += max((size for digest, size in reached if digest in written), default=0)
        seen.update(digest for digest, _ in prefixes)
        written.update(prefixes[index][0] for index in marked)
    return found / (possible or 1)


def _prefixes(blocks: Sequence[tuple[str, bool]]) -> Iterator[tuple[bytes, int]]:
    """A digest and the length of what ends with each block."""
    hashed, size = blake2b(digest_size=16), 0
    for text, _ in blocks:
        hashed.update(text.encode() + b"\n")
        size += len(text)
        yield hashed.digest(), size


def _common(one: str, two: str) -> int:
    """The length of what both begin with."""
    lengths = range(min(len(one), len(two)))
    return bisect_left(lengths, True, key=lambda length: one[: length + 1] != two[: length + 1])


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def _parts(turn: Any) -> Iterator[Any]:
    """The parts of a turn with its role, then its other members."""
    if not isinstance(turn, dict):
        yield turn
        return
    rest = dict(turn)
    role = rest.pop("role", None)
    for name in ("content", "parts"):
        for part in _listed(rest.pop(name, None)):
            yield {"role": role, **_as_part(part)}
    if rest:
        yield rest


def _as_part(part: Any) -> Any:
    return {"type": "text", "text": part} if isinstance(part, str) else part


def _unmarked(part: Any) -> tuple[str, bool]:
    marks: list[Any] = []

    def plain(members: dict[str, Any]) -> dict[str, Any]:
        marks.extend(mark for name, mark in members.items() if name == "cache_control" and mark)
        return {name: one for name, one in members.items() if name != "cache_control"}

    block = json.loads(json.dumps(part), object_hook=plain)
    if isinstance(block, dict):
        block = dict(sorted(block.items()))
    return json.dumps(block), bool(marks)
