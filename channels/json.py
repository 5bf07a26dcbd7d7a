"""Top-level members of a JSON object as slices of the body: the rest is forwarded unchanged.

The body is validated once, strictly, and never decoded to Python objects: a megabyte of base64
costs one scan. The dialects interpret the members (`channels/dialects`).
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from channels.errors import InvalidRequest

# The outline of a JSON body: the body without the middle of its long strings.
#
# A request with an image is one string of a megabyte and a few hundred bytes of other members. Once
# the whole body was validated, its types and short values are decoded from the outline, at no cost
# that grows with the image.

# The middle of a run of this length without a quotation mark is dropped.
RUN_BYTES = 64 * 1024
# Kept at either end of a run: longer than any string whose length or content is checked.
KEPT_BYTES = 2 * 1024
# Marks that base64 does not contain.
_NOT_ENCODED = (b"\\", b" ", b"[", b"{", b"%")


def outline(body: bytes) -> bytes:
    """Return well-formed JSON with the middle of its long strings dropped.

    Types, names and strings of less than RUN_BYTES are unchanged, and long ones keep their ends;
    strings with a space or an escape, as in texts, stay whole, and so do those with brackets of
    JSON or an escape of a URL, which cost more to decode than their bytes. Most bodies are returned
    unchanged.
    """
    if len(body) < RUN_BYTES:
        return body
    view = memoryview(body)
    pieces: list[memoryview] = []
    taken = 0
    probe = RUN_BYTES  # each run of that length contains a probe
    while (end := body.find(b'"', probe)) >= 0:
        start = body.rfind(b'"', taken, probe) + 1
        if end - start >= RUN_BYTES and _is_encoded(body, start, end):
            cut = _character_at(body, start + KEPT_BYTES)
            pieces.append(view[taken:cut])
            taken = _character_at(body, end - KEPT_BYTES)
        probe = end - end % RUN_BYTES + RUN_BYTES
    if not pieces:
        return body
    pieces.append(view[taken:])
    return b"".join(pieces)


def _is_encoded(body: bytes, start: int, end: int) -> bool:
    """Whether a run without quotation marks is part of a string of encoded bytes.

    Outside strings there is no "d": neither numbers nor true, false and null have one. Any image
    contains one.
    """
    return body.find(b"d", start, end) >= 0 and all(
        body.find(mark, start, end) < 0 for mark in _NOT_ENCODED
    )


def _character_at(body: bytes, position: int) -> int:
    """Return the first position from `position` on where a character begins."""
    while body[position] & 0xC0 == 0x80:
        position += 1
    return position


_decode = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode

_SPACE = ord(" ")  # no byte below it can be between tokens except white space
_SPACES = re.compile(rb"[ \t\r\n]*")
# Possessive, so that a name of a million escapes needs no memory for backtracking.
_NAME = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.S)
_AT_BYTE = re.compile(r"JSON is malformed: (.*) \(byte (\d+)\)")
_SURROGATE_FAULT = re.compile("surrogate|end of hex escape")
_HIGH_SURROGATE = re.compile(rb"\\u[dD][89abAB]")

# Offsets of a member's name, quotes included, and of its value.
_Span = tuple[int, int, int, int]

# Far more than any dialect documents; each member costs a step below.
MEMBERS_MAX = 1000


class InvalidJson(InvalidRequest):
    """A body that is not a single well-formed JSON object."""


class JsonObject(Struct, eq=False, gc=False):
    """A JSON object as received; the offsets of its members are found on demand."""

    body: bytes
    raw: dict[str, msgspec.Raw]
    outline: bytes  # the body without the middle of its long strings
    _members: dict[str, _Span] | None = None

    def __repr__(self) -> str:
        return f"<JsonObject {len(self.body)} bytes: {', '.join(self.raw)}>"

    @classmethod
    def parse(cls, body: bytes) -> JsonObject:
        """Validate `body` and find its members. Raises InvalidJson, with the position if known.

        Besides malformed JSON it refuses: data after the object, NaN and Infinity, lone surrogates,
        invalid UTF-8, too deep nesting, and two members of the same name: billing uses the one that
        we read, and an upstream may read the other.
        """
        try:
            raw = _decode(body)
            if not body.isascii():
                body.decode()
        except msgspec.ValidationError:
            raise InvalidJson("The request body must be a JSON object.") from None
        except msgspec.DecodeError as error:
            raise InvalidJson(_fault(body, str(error))) from None
        except UnicodeDecodeError:
            raise InvalidJson(_undecodable(body)) from None
        except RecursionError:
            raise InvalidJson("The request body is nested too deeply.") from None
        if len(raw) > MEMBERS_MAX:
            raise InvalidJson(f"The request body has more than {MEMBERS_MAX} members.")
        # One member per name makes up the whole of a compact body: no name occurs twice, since the
        # second member's bytes would be left over. Only a body with white space needs the walk.
        shortest = 1 + 4 * len(raw) + len("".join(raw)) + sum(map(len, raw.values()))
        short = body if len(body) < RUN_BYTES else outline(body)
        return cls(body, raw, short, None if shortest == len(body) else _locate(body, raw))

    def forget(self) -> None:
        """Release the body when it is no longer needed; an empty object remains."""
        self.body = self.outline = b"{}"
        self.raw = {}
        self._members = None

    def span(self, name: str) -> tuple[int, int]:
        """Return the byte offsets of a member's value. Raises KeyError without such a member."""
        _, _, start, end = self._located()[name]
        return start, end

    def edited(
        self,
        *,
        replace: Mapping[str, bytes],
        add: Mapping[str, bytes],
        rename: Mapping[str, str] | None = None,
    ) -> bytes:
        """Return the body with values replaced, members added at the end, and members renamed.

        Values are JSON text. Everything else is unchanged, including white space; without changes
        the same object is returned. `rename` maps a present name to an absent one.
        """
        edits: list[tuple[int, int, bytes]] = []
        for name, value in replace.items():
            start, end = self.span(name)
            if self.body[start:end] != value:
                edits.append((start, end, value))
        if rename:
            for old, new in rename.items():
                assert new not in self.raw, new
                start, end, _, _ = self._located()[old]
                edits.append((start, end, msgspec.json.encode(new)))
        edits.sort()
        if add:
            assert self.raw.keys().isdisjoint(add), add
            text = b",".join([b'"%b":%b' % (name.encode(), add[name]) for name in add])
            end = self.body.rindex(b"}")
            edits.append((end, end, b"," + text if self.raw else text))
        if not edits:
            return self.body
        view = memoryview(self.body)  # a large value is copied once, by the join
        pieces: list[bytes | memoryview] = []
        position = 0
        for start, end, text in edits:
            pieces += (view[position:start], text)
            position = end
        pieces.append(view[position:])
        return b"".join(pieces)

    def _located(self) -> dict[str, _Span]:
        if self._members is None:
            self._members = _locate(self.body, self.raw)
        return self._members


def _locate(body: bytes, raw: dict[str, msgspec.Raw]) -> dict[str, _Span]:
    """Walk the object with the decoded members, so that skipping a value is a comparison.

    Names are in the order of their first occurrence, and `raw` has the last value of each. So the
    walk fails exactly if a name occurs twice: its first value is not the decoded one, or members
    are left over at the end.
    """
    spans: dict[str, _Span] = {}
    name = ""
    after = body.index(b"{")
    for name, value in raw.items():
        position = after + 1
        # One space is skipped inline: Python writes JSON with it.
        if body[position] <= _SPACE and body[position := position + 1] <= _SPACE:
            position = _past_space(body, position)
        quoted = b'"%b"' % name.encode()
        if name.isidentifier() and body.startswith(quoted, position):
            name_end = position + len(quoted)
        else:
            found, name_end = _name_at(body, position)
            if found != name:  # not the next name, which may be written with escapes
                raise _twice(found)
        start = name_end + 1
        if body[name_end] <= _SPACE:
            start = _past_space(body, name_end) + 1
        if body[start] <= _SPACE and body[start := start + 1] <= _SPACE:
            start = _past_space(body, start)
        end = after = start + len(value)
        if body[after] <= _SPACE:
            after = _past_space(body, after)
        # A number can be a prefix of another one, 1 of 12: then no separator follows.
        if not body.startswith(value, start) or body[after] not in b",}":
            raise _twice(name)
        spans[name] = (position, name_end, start, end)
    if raw and body[after] != ord("}"):
        raise _twice(_name_at(body, _past_space(body, after + 1))[0])
    return spans


def _past_space(body: bytes, position: int) -> int:
    found = _SPACES.match(body, position)
    assert found is not None
    return found.end()


def _name_at(body: bytes, position: int) -> tuple[str, int]:
    """Return the quoted name at `position`, which may have escapes, and its end."""
    found = _NAME.match(body, position)
    assert found is not None, body[position : position + 20]
    return msgspec.json.decode(found[0], type=str), found.end()


def _twice(name: str) -> InvalidJson:
    shown = name if len(name) <= 64 else name[:63] + "…"
    return InvalidJson(f"The member {shown!r} is there more than once.", param=shown)


def _undecodable(body: bytes) -> str:
    try:
        body.decode()
    except UnicodeDecodeError as error:
        return f"The request body is not valid UTF-8: byte {error.start} cannot be decoded."
    raise AssertionError("every byte can be decoded")


def _fault(body: bytes, reason: str) -> str:
    """Describe the error and its position; `reason` is the decoder's message."""
    if not body.strip(b" \t\r\n"):
        return "The request body is empty; a JSON object is expected."
    if body.startswith(b"\xef\xbb\xbf"):
        return "The request body is not valid JSON: it starts with a byte order mark."
    if found := _AT_BYTE.fullmatch(reason):
        fault = "lone surrogate" if _SURROGATE_FAULT.search(found[1]) else found[1]
        return f"The request body is not valid JSON: {fault} at byte {found[2]}."
    # The decoder expects six bytes after a high surrogate and reports their absence as a
    # truncation.
    if body.rstrip().endswith(b"}") and _HIGH_SURROGATE.search(body, max(0, len(body) - 16)):
        return f"The request body is not valid JSON: lone surrogate before byte {len(body)}."
    return f"The request body is not valid JSON: it breaks off at byte {len(body)}."


# Replaces an object whose bytes are elsewhere.
NOTHING = JsonObject(b"{}", {}, b"{}")


# Decodes JSON leniently, for responses that deviate from their dialect.
#
# The meters decode strictly first, which is fast, and use this on failure. Requests are never
# decoded leniently but refused.

NULL = msgspec.Raw(b"null")

# Skips strings, counts brackets.
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\]]', re.S)
_CLOSER = {"{": "}", "[": "]"}
# Longer events contain media, and are not repaired.
_REPAIRED_CHARACTERS_MAX = 4 * 1024 * 1024
# No response nests deeper, and its reader may recurse to this depth.
DEPTH_MAX = 200
# Members that hold text, or parts with text.
_TEXT_MEMBERS = ("text", "refusal", "thinking", "content")


def read_loosely(
    data: bytes, *, mends: bool = True, numbers: Callable[[str], Any] | None = None
) -> Any:
    """Decode some JSON text; None if that fails, or if it nests too deeply.

    It accepts control characters, lone surrogates, invalid UTF-8, and NaN (as null); and with
    `mends`, missing closing brackets at the end. `numbers` converts the characters of a number;
    without it they are int and float.
    """
    text = data.decode("utf-8", "replace")
    value = _read(text, numbers)
    if value is None and mends and (tail := _missing_tail(text)):
        value = _read(text + tail, numbers)
    return None if _is_too_deep(value) else value


def text_of(value: Any) -> str | None:
    """Return a string; None for anything else."""
    return value if isinstance(value, str) else None


def is_stated(raw: msgspec.Raw) -> bool:
    """Whether a member is present and not null."""
    # The default is shared, so an absent member costs no comparison of bytes.
    return raw is not NULL and bytes(raw) != b"null"


def raw_of(value: Any) -> msgspec.Raw:
    """Encode a value as JSON, lone surrogates replaced; null if it nests too deeply."""
    if value is None:
        return NULL
    try:
        return msgspec.Raw(msgspec.json.encode(value))
    except (UnicodeEncodeError, OverflowError):  # a lone surrogate, or a huge integer
        pass
    except RecursionError:
        return NULL
    try:
        return msgspec.Raw(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    except RecursionError:
        return NULL


def characters_of(value: Any) -> int:
    """Count the characters of a string, or of the text in nested parts and arrays."""
    count = 0
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, str):
            count += len(one)
        elif isinstance(one, list):
            left += one
        elif isinstance(one, dict):
            left += [one[name] for name in _TEXT_MEMBERS if name in one]
    return count


def length_of(raw: msgspec.Raw) -> int:
    """Count the characters of a string, or of another value's JSON text without white space.

    Null and `{}` count as nothing: both are placeholders before content.
    """
    if raw is NULL:
        return 0
    try:
        if bytes(memoryview(raw)[:1]) == b'"':
            return len(msgspec.json.decode(raw, type=str))
        text = msgspec.json.format(bytes(raw), indent=-1)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return 0
    except RecursionError:
        text = bytes(raw)  # too deep to be decoded, and counted as is
    return 0 if text in (b"null", b"{}") else len(text.decode("utf-8", "replace"))


def _read(text: str, numbers: Callable[[str], Any] | None) -> Any:
    try:
        return json.loads(
            text,
            strict=False,
            parse_constant=lambda _: None,
            parse_int=numbers,
            parse_float=numbers,
        )
    except (ValueError, RecursionError):
        return None


def _is_too_deep(value: Any) -> bool:
    """Whether it nests deeper than DEPTH_MAX; checked level by level."""
    level = [value]
    for _ in range(DEPTH_MAX):
        below: list[Any] = []
        for one in level:
            if isinstance(one, dict):
                below += one.values()
            elif isinstance(one, list):
                below += one
        if not below:
            return False
        level = below
    return True


def _missing_tail(text: str) -> str:
    """Return the missing closing brackets; empty if they would not help."""
    if len(text) > _REPAIRED_CHARACTERS_MAX or text[:1] not in _CLOSER:
        return ""
    tail: list[str] = []
    for token in _TOKEN.findall(text):
        if token in _CLOSER:
            tail.append(_CLOSER[token])
        elif token in ("}", "]") and (not tail or tail.pop() != token):
            return ""
    return "".join(reversed(tail))


# JSON as the translations encode it, and the JSON text of a call's arguments.
#
# A lone surrogate, half of a character that an upstream split, must not end a stream: it is encoded
# as the same escape.

_ENCODER = msgspec.json.Encoder()
_OBJECT = msgspec.json.Decoder(dict[str, Any])

# Limit of white space around a null, which is searched in every piece of a stream.
NO_ARGUMENTS_CHARACTERS_MAX = 16

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def dumps(value: Any) -> bytes:
    """Encode as compact JSON. Raises RecursionError for a value that nests too deeply."""
    try:
        return _ENCODER.encode(value)
    except (UnicodeEncodeError, OverflowError):  # a lone surrogate, or a huge integer
        return json.dumps(value, separators=(",", ":")).encode("ascii")


def read_json(data: bytes) -> Any:
    """Decode JSON text, leniently if the strict way fails; None on failure."""
    try:
        return msgspec.json.decode(data)
    except UNREADABLE:
        return read_loosely(data)


def call_arguments(text: str) -> str:
    """Return a call's arguments unchanged; `{}` if they mean no arguments."""
    return "{}" if is_no_arguments(text) or text.isspace() else text


def is_no_arguments(text: str) -> bool:
    """Whether a call's arguments are blank or null, which models write for none."""
    return len(text) <= NO_ARGUMENTS_CHARACTERS_MAX and text.strip() in ("", "null")


def may_say_no_arguments(text: str) -> bool:
    """Whether arguments with this beginning may still turn out to mean none."""
    return len(text) <= NO_ARGUMENTS_CHARACTERS_MAX and "null".startswith(text.strip())


def object_in(text: str) -> dict[str, Any] | None:
    """Decode JSON text that must be one object; None otherwise.

    Text that means no arguments is `{}`.
    """
    if is_no_arguments(text) or text.isspace():
        return {}
    try:
        return _OBJECT.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeEncodeError):
        pass
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def arguments_object(text: str) -> dict[str, Any]:
    """Return a call's arguments as an object, for protocols that require one.

    Models sometimes write invalid JSON; that is kept under its own name.
    """
    value = object_in(text)
    return raw_arguments(text) if value is None else value


def raw_arguments(text: str) -> dict[str, Any]:
    """Return the object for arguments that are not an object."""
    return {"raw_arguments": text}


# Estimates cheaply how long the event loop would be blocked by a body.
#
# A text or an image of a megabyte is decoded in a millisecond; a megabyte of brackets is half a
# million values, and takes a hundred times as long. So everything that may be a value is counted.

# Bodies up to this size are light whatever they contain, and are not counted.
LIGHT_BYTES_MAX = 16 * 1024
# Beyond this size merely copying and scanning a body takes too long.
COUNTED_BYTES_MAX = 2 * 1024 * 1024
# Values that are decoded within a few milliseconds, and that are translated in some ten.
READ_VALUES_MAX = 10_000
TRANSLATED_VALUES_MAX = 3_000
# The cost of a reference in a schema, which is resolved and expanded, in values.
REFERENCE_VALUES = 4
# Escaped bytes of a URL that are decoded in the time of one value.
ESCAPES_A_VALUE = 10
# Prefixes of JSON escapes of `"`, `%`, `,`, `[` and `{`, which hide values or escapes.
_HIDING = (b"\\u002", b"\\u005", b"\\u007")
# A long event of a stream is an image, or a long text. No model sends one with more values than
# these; it is not decoded, because that would block the loop.
LONG_EVENT_BYTES = 64 * 1024
EVENT_VALUES_MAX = 50_000


def weight_of(body: bytes) -> int:
    """Return an upper bound of the values in a JSON body; 0 for a small one.

    Long strings without spaces, such as images, do not count; brackets and commas within texts do,
    because they may be the arguments of a call. References of schemas and escapes in URLs are added
    as the number of values that take as long. One scan of the body.
    """
    if len(body) <= LIGHT_BYTES_MAX:
        return 0
    if len(body) > COUNTED_BYTES_MAX:
        return sys.maxsize
    text = outline(body)
    weight = _marks_in(text)
    if b"$ref" in text:
        weight += REFERENCE_VALUES * text.count(b"$ref")
    if b"%" in text:
        weight += text.count(b"%") // ESCAPES_A_VALUE
    if b"\\u00" in text:
        weight += sum(text.count(escape) for escape in _HIDING)
    return weight


def values_in(body: bytes) -> int:
    """Count the values of a body of any size."""
    return _marks_in(outline(body))


def _marks_in(text: bytes) -> int:
    return text.count(b",") + text.count(b"{") + text.count(b"[")


def is_heavy_event(data: bytes) -> bool:
    """Whether an event of a stream has more values than are decoded."""
    return len(data) > LONG_EVENT_BYTES and values_in(data) > EVENT_VALUES_MAX
