"""An estimate of a request's input tokens, without a vocabulary.

It counts letters, words, digits and marks of everything that a model reads, in a few passes over
the bytes, and adds the tokens of turns, images and tools. Its weights are fitted to responses of
providers that report their input tokens (`tests/unit/channels/test_counting.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from channels.dialects.table import counting_of
from channels.errors import InvalidRequest

# The kinds of bytes, by a representative: a letter, a digit, the end of a line, a mark, a byte of a
# longer character; all others are between.
_LETTER, _DIGIT, _LINE, _MARK, _WIDE, _BETWEEN = b"a", b"0", b"n", b".", b"u", b" "


def _kind(byte: int) -> int:
    character = chr(byte)
    if byte >= 0x80:
        return _WIDE[0]
    if character.isalpha():
        return _LETTER[0]
    if character.isdigit():
        return _DIGIT[0]
    if character in "\r\n":
        return _LINE[0]
    return _BETWEEN[0] if character in " \t" else _MARK[0]


_KINDS = bytes(map(_kind, range(256)))
# Runs of these kinds are counted, each by a table that maps all others to between.
_WORDS = bytes(kind if kind == _LETTER[0] else _BETWEEN[0] for kind in _KINDS)
_RUNS = bytes(kind if kind == _MARK[0] else _BETWEEN[0] for kind in _KINDS)

# Tokens for each word, letter, digit, run of marks, mark, end of a line, and byte of a longer
# character.
A_WORD, A_LETTER, A_DIGIT, A_RUN, A_MARK, A_LINE, A_WIDE = 0.75, 0.09, 0.5, 0.35, 0.35, 0.5, 0.3

# Tokens for the marks around each name in a client's own value.
A_NAME = 1.0


def tokens_of_text(text: bytes) -> float:
    """Estimate the tokens of a text in UTF-8, in a few passes over it."""
    kinds = text.translate(_KINDS)
    words = (_BETWEEN + text.translate(_WORDS)).count(_BETWEEN + _LETTER)
    runs = (_BETWEEN + text.translate(_RUNS)).count(_BETWEEN + _MARK)
    return (
        A_WORD * words
        + A_LETTER * kinds.count(_LETTER)
        + A_DIGIT * kinds.count(_DIGIT)
        + A_RUN * runs
        + A_MARK * kinds.count(_MARK)
        + A_LINE * kinds.count(_LINE)
        + A_WIDE * kinds.count(_WIDE)
    )


# The member in which native-content may have the whole request that is to be counted.
INNER = "generateContentRequest"


# Members of a body that a model reads, in all dialects.
_READ = ("system", "instructions", "systemInstruction", "system_instruction")
TURNS = ("messages", "input", "contents")
_TOOLS = "tools"
# Members that name or mark something; they are not text for the model.
_MARKS = frozenset(
    (
        "type",
        "role",
        "id",
        "model",
        "status",
        "detail",
        "object",
        "index",
        "cache_control",
        "tool_use_id",
        "tool_call_id",
        "call_id",
        "signature",
        "thoughtSignature",
        "thought_signature",
        "encrypted_content",
        "mimeType",
        "mime_type",
    )
)
# Members with values of the client's own, whose names the model reads too.
_VALUES = frozenset(
    (
        "input",
        "arguments",
        "args",
        "response",
        "parameters",
        "input_schema",
        "parametersJsonSchema",
        "parameters_json_schema",
        "function",
        "functionCall",
        "functionResponse",
        "functionDeclarations",
    )
)
_IMAGES = frozenset(("image", "input_image", "image_url"))
_FILES = frozenset(("document", "input_file", "file"))
_INLINE = ("inlineData", "inline_data", "fileData", "file_data")
_CALLS = frozenset(("tool_use", "function_call", "tool_calls"))
# Characters of a file's base64 for one token: some 60 KB for a page of 1,500.
FILE_CHARACTERS = 50


class _Found(NamedTuple):
    """The result of a walk: texts, and the numbers of turns, calls, images and the like."""

    texts: list[str]
    counts: dict[str, float]

    def add(self, name: str, count: float = 1) -> None:
        self.counts[name] = self.counts.get(name, 0) + count


def _walk(value: object, found: _Found, *, with_names: bool) -> None:
    """Collect what a model reads of a value, iteratively and in linear time."""
    left: list[tuple[object, bool]] = [(value, with_names)]
    while left:
        one, names = left.pop()
        if isinstance(one, str):
            found.texts.append(one)
        elif isinstance(one, list):
            left.extend((each, names) for each in one)
        elif isinstance(one, dict):
            if names:
                found.texts.extend(one)
                found.add("names", len(one))
                left.extend((each, True) for each in one.values())
            elif not _is_enclosed(one, found):
                _open(one, found, left)
        elif names and one is not None:
            found.texts.append(str(one))


def _open(one: dict[str, object], found: _Found, left: list[tuple[object, bool]]) -> None:
    """Count a turn or a part of one, and queue its members."""
    if "role" in one or "parts" in one:
        found.add("turns")
    if str(one.get("type")) in _CALLS or "functionCall" in one:
        found.add("calls")
    for name, each in one.items():
        if name in _VALUES and not isinstance(each, str):
            left.append((each, True))
        elif name not in _MARKS:
            left.append((each, False))


def _is_enclosed(part: dict[str, object], found: _Found) -> bool:
    """Count a part that is an image or a file, which is not read as text; False for any other."""
    inline = next((one for name in _INLINE if isinstance(one := part.get(name), dict)), None)
    if inline is not None:
        kind = str(inline.get("mimeType") or inline.get("mime_type") or "")
        is_image, holder = kind.startswith("image/"), inline
    else:
        kind = str(part.get("type"))
        if kind not in _IMAGES and kind not in _FILES:
            return False
        is_image, holder = kind in _IMAGES, part
    if is_image:
        found.add("images")
        return True
    inside = holder.get("source")
    source = inside if isinstance(inside, dict) else holder
    data = source.get("data") or source.get("file_data")
    if isinstance(data, str) and source.get("type") == "text":
        found.texts.append(data)
    else:
        found.add("files", len(data if isinstance(data, str) else str(source)) / FILE_CHARACTERS)
    return True


def estimate(body: bytes, protocol: str) -> tuple[int, None]:
    """Estimate the input tokens of a request of this protocol, at least 1. Raises InvalidRequest.

    A job like those of `channels/offload`, for the loop or a helper process.
    """
    counting = counting_of(protocol)
    members = _members(body)
    found = _Found([], {})
    for name in _READ:
        _walk(members.get(name), found, with_names=False)
    for name in TURNS:
        turns = members.get(name)
        if isinstance(turns, str):
            found.add("turns")
        _walk(turns, found, with_names=False)
    tools = members.get(_TOOLS)
    if isinstance(tools, list) and tools:
        found.add("tools", counting.any_tools + counting.a_tool * len(tools))
        _walk(tools, found, with_names=True)
    text = " ".join(found.texts).encode("utf-8", "replace")
    counts = found.counts
    tokens = (
        counting.a_text * tokens_of_text(text)
        + counting.a_turn * counts.get("turns", 0)
        + A_NAME * counts.get("names", 0)
        + counting.a_call * counts.get("calls", 0)
        + counting.an_image * counts.get("images", 0)
        + counts.get("files", 0)
        + counts.get("tools", 0)
    )
    return max(1, math.ceil(tokens)), None


def _members(body: bytes) -> Mapping[str, object]:
    """Return the members of the request that is counted. Raises InvalidRequest."""
    try:
        members: dict[str, object] = msgspec.json.decode(body, type=dict[str, object])
    except (msgspec.DecodeError, RecursionError) as error:
        raise InvalidRequest("The request body cannot be read.") from error
    inner = members.get(INNER)
    return inner if isinstance(inner, dict) else members
