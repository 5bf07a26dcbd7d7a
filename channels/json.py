"""Top-level members of a JSON object as slices of the body: the rest is forwarded untouched.

The body is checked once, strictly, and never built into Python objects: a megabyte of base64 costs
one scan. What the members mean is the protocols' business (`channels/dialects`).
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from channels.errors import InvalidRequest

# A JSON body without the insides of its long strings: all that a reader of its shape needs.
#
# A request with an image in it is one string of a megabyte among a few hundred bytes that state
# something. Once the whole has been checked, its types and its short values are read
# from the outline, at no cost that grows with the image.

# A run without a quotation mark that is at least so long loses its middle.
RUN_BYTES = 64 * 1024
# What is left of it at either end: longer than any string whose length or content is looked at.
KEPT_BYTES = 2 * 1024
# What base64 has none of.
_NOT_ENCODED = (b"\\", b" ", b"[", b"{", b"%")


def outline(body: bytes) -> bytes:
    """`body`, which is well-formed JSON, with the middle of its long strings left out.

    Types, names and strings of less than RUN_BYTES are the same, and long ones begin and end as
    they did; those with a space or an escape in them, as texts have, stay whole, and so do those
    with the bracket of JSON or the escape of a URL, which cost more than their bytes where they are
    read. Most bodies are their own outline.
    """
    if len(body) < RUN_BYTES:
        return body
    view = memoryview(body)
    pieces: list[memoryview] = []
    taken = 0
    probe = RUN_BYTES  # no run that is long enough lies between two probes
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
    """Whether a run without quotation marks lies within a string of encoded bytes.

    Outside of strings no "d" can be: neither in numbers nor in true, false and null. Within an
    image there is one.
    """
    return body.find(b"d", start, end) >= 0 and all(
        body.find(mark, start, end) < 0 for mark in _NOT_ENCODED
    )


def _character_at(body: bytes, position: int) -> int:
    """Where the first character begins that is not before `position`."""
    while body[position] & 0xC0 == 0x80:
        position += 1
    return position


_DECODER = msgspec.json.Decoder(dict[str, msgspec.Raw])

_SPACE = ord(" ")  # no byte below it can be between tokens but white space
_SPACES = re.compile(rb"[ \t\r\n]*")
# Without a way back, so that a name of a million escapes takes no room.
_NAME = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.S)
_AT_BYTE = re.compile(r"JSON is malformed: (.*) \(byte (\d+)\)")
_SURROGATE_FAULT = re.compile("surrogate|end of hex escape")
_HIGH_SURROGATE = re.compile(rb"\\u[dD][89abAB]")

# Offsets of a member's name, quotes included, and of its value.
_Span = tuple[int, int, int, int]

# Far above what any dialect documents; each member costs a step below.
MEMBERS_MAX = 1000


class InvalidJson(InvalidRequest):
    """A body that is not one well-formed JSON object."""


class JsonObject:
    """A JSON object as received; where its members are is found on demand."""

    __slots__ = ("_members", "_outline", "body", "raw")

    def __init__(self, body: bytes, raw: dict[str, msgspec.Raw]) -> None:
        self.body = body
        self.raw = raw
        self._members: dict[str, _Span] | None = None
        self._outline: bytes | None = None

    def __repr__(self) -> str:
        return f"<JsonObject {len(self.body)} bytes: {', '.join(self.raw)}>"

    @classmethod
    def parse(cls, body: bytes) -> JsonObject:
        """Check `body` and find its members. Raises InvalidJson, with the position where it can.

        Refused besides broken JSON: anything after the object, NaN and Infinity, lone surrogates,
        invalid UTF-8, nesting too deep to read, and two members of one name: we bill by the one
        we read, and an upstream may read the other.
        """
        try:
            raw = _DECODER.decode(body)
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
        parsed = cls(body, raw)
        if not _is_every_byte_accounted_for(body, raw):
            parsed._members = _locate(body, raw)
        return parsed

    @property
    def outline(self) -> bytes:
        """The body without the insides of its long strings."""
        if self._outline is None:
            self._outline = outline(self.body)
        return self._outline

    def forget(self) -> None:
        """Let go of the text, of which nothing is needed any more; an empty object is left."""
        self.body = b"{}"
        self.raw = {}
        self._members = None
        self._outline = None

    def span(self, name: str) -> tuple[int, int]:
        """Byte offsets of a member's value. Raises KeyError when there is no such member."""
        _, _, start, end = self._located()[name]
        return start, end

    def edited(
        self,
        *,
        replace: Mapping[str, bytes],
        add: Mapping[str, bytes],
        rename: Mapping[str, str] | None = None,
    ) -> bytes:
        """The body with some values replaced, members added at the end, and members renamed.

        Values are JSON text. Everything else stays byte for byte, white space included; the same
        body comes back when nothing changes. `rename` maps a present name to one that is not.
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


def _is_every_byte_accounted_for(body: bytes, raw: dict[str, msgspec.Raw]) -> bool:
    """Whether one member per name makes up the whole body, without white space between.

    Then no name is there twice: the second member's bytes would be left over. The usual, compact
    body needs no walk.
    """
    size = 2 + sum([4 + len(value) for value in raw.values()]) - bool(raw)
    return size + len("".join(raw)) == len(body)


def _locate(body: bytes, raw: dict[str, msgspec.Raw]) -> dict[str, _Span]:
    """Walk the object with the members in hand, so that stepping over one is a comparison.

    Names come in the order of their first appearance, and `raw` keeps the last value of each. So
    the walk goes wrong only where a name is there twice: its first value is not the one in hand,
    or members are left over at the end.
    """
    spans: dict[str, _Span] = {}
    name = ""
    after = body.index(b"{")
    for name, value in raw.items():
        position = after + 1
        # One space is stepped over by hand: that is how Python writes JSON.
        if body[position] <= _SPACE and body[position := position + 1] <= _SPACE:
            position = _past_space(body, position)
        quoted = b'"%b"' % name.encode()
        if name.isidentifier() and body.startswith(quoted, position):
            name_end = position + len(quoted)
        else:
            found, name_end = _name_at(body, position)
            if found != name:  # not the next new name, which may be spelled with escapes
                raise _twice(found)
        start = name_end + 1
        if body[name_end] <= _SPACE:
            start = _past_space(body, name_end) + 1
        if body[start] <= _SPACE and body[start := start + 1] <= _SPACE:
            start = _past_space(body, start)
        end = after = start + len(value)
        if body[after] <= _SPACE:
            after = _past_space(body, after)
        # A number can be the beginning of another one, 1 of 12: then no separator follows.
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
    """A quoted name, which may be spelled with escapes, and its end."""
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
    """Describe what is broken and where; `reason` is the reader's own wording."""
    if not body.strip(b" \t\r\n"):
        return "The request body is empty; a JSON object is expected."
    if body.startswith(b"\xef\xbb\xbf"):
        return "The request body is not valid JSON: it starts with a byte order mark."
    if found := _AT_BYTE.fullmatch(reason):
        fault = "lone surrogate" if _SURROGATE_FAULT.search(found[1]) else found[1]
        return f"The request body is not valid JSON: {fault} at byte {found[2]}."
    # The reader wants six bytes after the first half of a pair and calls their lack a truncation.
    if body.rstrip().endswith(b"}") and _HIGH_SURROGATE.search(body, max(0, len(body) - 16)):
        return f"The request body is not valid JSON: lone surrogate before byte {len(body)}."
    return f"The request body is not valid JSON: it breaks off at byte {len(body)}."


# What stands for an object whose bytes are elsewhere.
NOTHING = JsonObject(b"{}", {})


# Read JSON by the most forgiving rules, for responses that are not as their dialect documents them.
#
# The meters read strictly first, which is fast; what they cannot read comes here. Requests never
# do: what a client sends is refused instead.

NULL = msgspec.Raw(b"null")

# Strings are stepped over, brackets are counted.
_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\]]', re.S)
_CLOSER = {"{": "}", "[": "]"}
# Events this long hold media, and are worth no repair.
_REPAIRED_CHARACTERS_MAX = 4 * 1024 * 1024
# No response nests like this, and its reader may recurse as deep as it does.
DEPTH_MAX = 200
# Members that hold text, or parts that do.
_TEXT_MEMBERS = ("text", "refusal", "thinking", "content")


def read_loosely(
    data: bytes, *, mends: bool = True, numbers: Callable[[str], Any] | None = None
) -> Any:
    """The value of some JSON text; None when there is none to be had, or one nested too deeply.

    Control characters, lone surrogates, bytes that are no UTF-8, and NaN (read as null) are put up
    with; and if it `mends`, closing brackets that are missing at the end. `numbers` makes a value
    of a number's characters; without it they are int and float.
    """
    text = data.decode("utf-8", "replace")
    value = _read(text, numbers)
    if value is None and mends and (tail := _missing_tail(text)):
        value = _read(text + tail, numbers)
    return None if _is_too_deep(value) else value


def text_of(value: Any) -> str | None:
    """A string; None for anything else."""
    return value if isinstance(value, str) else None


def is_stated(raw: msgspec.Raw) -> bool:
    """Whether a member is there and not null."""
    # The default is shared, so an absent member costs no comparison of bytes.
    return raw is not NULL and bytes(raw) != b"null"


def raw_of(value: Any) -> msgspec.Raw:
    """A value as JSON text again, lone surrogates replaced; nothing for one that is too deep."""
    if value is None:
        return NULL
    try:
        return msgspec.Raw(msgspec.json.encode(value))
    except (UnicodeEncodeError, OverflowError):  # msgspec has no surrogates and no huge integers
        pass
    except RecursionError:
        return NULL
    try:
        return msgspec.Raw(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    except RecursionError:
        return NULL


def characters_of(value: Any) -> int:
    """Characters of a string, or of the text in parts and arrays of them, however deep."""
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
    """Characters of a string's value, or of any other value's JSON text without white space.

    Null and `{}` count as nothing: both stand where something may follow.
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
        text = bytes(raw)  # too deep to be read, and counted as it is
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
    """Whether it nests deeper than DEPTH_MAX; looked at level by level."""
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
    """The brackets that are open at the end; empty when closing them would not help."""
    if len(text) > _REPAIRED_CHARACTERS_MAX or text[:1] not in _CLOSER:
        return ""
    tail: list[str] = []
    for token in _TOKEN.findall(text):
        if token in _CLOSER:
            tail.append(_CLOSER[token])
        elif token in ("}", "]") and (not tail or tail.pop() != token):
            return ""
    return "".join(reversed(tail))


# JSON as the translators write it, and the JSON text that a call's arguments are.
#
# A lone surrogate, half of a character that an upstream cut in two, is no reason to end a stream:
# it is written back as the same escape.

_ENCODER = msgspec.json.Encoder()
_OBJECT = msgspec.json.Decoder(dict[str, Any])

# Blanks around a null, while it is looked for in every piece of a stream.
NO_ARGUMENTS_CHARACTERS_MAX = 16

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def dumps(value: Any) -> bytes:
    """Compact JSON. Raises RecursionError for a value that is nested too deeply."""
    try:
        return _ENCODER.encode(value)
    except (UnicodeEncodeError, OverflowError):  # half a character, or a huge integer
        return json.dumps(value, separators=(",", ":")).encode("ascii")


def read_json(data: bytes) -> Any:
    """The value of JSON text, by forgiving rules where the strict ones fail; None when none."""
    try:
        return msgspec.json.decode(data)
    except UNREADABLE:
        return read_loosely(data)


def call_arguments(text: str) -> str:
    """A call's arguments as they were written; `{}` where they state that there are none."""
    return "{}" if is_no_arguments(text) or text.isspace() else text


def is_no_arguments(text: str) -> bool:
    """Whether a call's arguments are blank or null, as models write them for want of any."""
    return len(text) <= NO_ARGUMENTS_CHARACTERS_MAX and text.strip() in ("", "null")


def may_say_no_arguments(text: str) -> bool:
    """Whether arguments that begin like this may still turn out to be none."""
    return len(text) <= NO_ARGUMENTS_CHARACTERS_MAX and "null".startswith(text.strip())


def object_in(text: str) -> dict[str, Any] | None:
    """The object that JSON text holds; None when it is not one object.

    Text that states that there are no arguments is `{}`.
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
    """A call's arguments as the object that some protocols want.

    Models write what is not JSON at times; that is kept under a name of its own.
    """
    value = object_in(text)
    return raw_arguments(text) if value is None else value


def raw_arguments(text: str) -> dict[str, Any]:
    """The object for arguments that hold none."""
    return {"raw_arguments": text}


# How long the event loop would be busy with a body, estimated in advance and cheaply.
#
# A text or an image of a megabyte is read in a millisecond; a megabyte of brackets is half a
# million values, and takes a hundred times as long. So what is counted is what may be a value.

# Bodies up to this size are light whatever is in them: nothing of them is counted.
LIGHT_BYTES_MAX = 16 * 1024
# Beyond this size merely copying and stepping over a body takes too long.
COUNTED_BYTES_MAX = 2 * 1024 * 1024
# Values that are read within a few milliseconds, and that are translated in some ten.
READ_VALUES_MAX = 10_000
TRANSLATED_VALUES_MAX = 3_000
# A reference of a schema is followed and what it leads to written out: as much as so many values.
REFERENCE_VALUES = 4
# So many escaped bytes of a URL are read in the time of one value.
ESCAPES_A_VALUE = 10
# `"`, `%`, `,`, `[` and `{` as JSON texts escape them that hide what they hold: the first digits.
_HIDING = (b"\\u002", b"\\u005", b"\\u007")
# A long event of a stream is an image, or a long text. One of more values than these is nothing
# that a model sends, and is not read: that would hold up the loop.
LONG_EVENT_BYTES = 64 * 1024
EVENT_VALUES_MAX = 50_000


def weight_of(body: bytes) -> int:
    """The most values that a JSON body may hold; 0 for one that is small.

    What is in long strings without spaces, as images are, does not count; what is in texts does,
    as brackets and commas: they may be the arguments of a call. References of schemas and escapes
    in URLs count besides, as the values that would take as long. One walk over the body.
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
    """Whether an event of a stream has more values than are read of one."""
    return len(data) > LONG_EVENT_BYTES and values_in(data) > EVENT_VALUES_MAX
