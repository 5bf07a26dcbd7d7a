"""Top-level members of a JSON object as slices of the body: the rest is forwarded unchanged.

The body is validated once, strictly, and never decoded to Python objects: a megabyte of base64
costs one scan. The dialects interpret the members (`channels/dialects`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from channels.errors import InvalidRequest
from channels.json.outline import RUN_BYTES, outline

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
