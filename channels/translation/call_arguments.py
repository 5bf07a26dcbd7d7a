"""The arguments of a tool call: JSON text, whole or in pieces.

Models also write none, null, or text that is no JSON. Each piece is scanned once, however
small the pieces are.
"""

from __future__ import annotations

import json
import re

import msgspec

_OBJECT = msgspec.json.Decoder(dict[str, object])

# Limit of white space around a null, which is searched in every piece of a stream.
NO_ARGUMENTS_CHARACTERS_MAX = 16


def call_arguments(text: str) -> str:
    """Return a call's arguments unchanged; `{}` if they mean no arguments."""
    return "{}" if is_no_arguments(text) or text.isspace() else text


def is_no_arguments(text: str) -> bool:
    """Whether a call's arguments are blank or null, which models write for none."""
    return len(text) <= NO_ARGUMENTS_CHARACTERS_MAX and text.strip() in ("", "null")


def may_say_no_arguments(text: str) -> bool:
    """Whether arguments with this beginning may still turn out to mean none."""
    return len(text) <= NO_ARGUMENTS_CHARACTERS_MAX and "null".startswith(text.strip())


def object_in(text: str) -> dict[str, object] | None:
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


def arguments_object(text: str) -> dict[str, object]:
    """Return a call's arguments as an object, for protocols that require one.

    Models sometimes write invalid JSON; that is kept under its own name.
    """
    value = object_in(text)
    return raw_arguments(text) if value is None else value


def raw_arguments(text: str) -> dict[str, object]:
    """Return the object for arguments that are not an object."""
    return {"raw_arguments": text}


# Characters that open or close an object or a text; others are skipped.
_MARK = re.compile(r'["{}\[\]]|\\.?', re.S)
_TEXT_MARK = re.compile(r'"|\\.?', re.S)


class Arguments:
    """The arguments of one call, in pieces."""

    __slots__ = ("_depth", "_is_done", "_is_in_text", "_pieces", "_seen", "_tail")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._seen = 0  # pieces already scanned
        self._depth = 0  # open brackets
        self._is_in_text = False
        self._tail = ""  # a backslash at the end of a piece
        self._is_done: bool | None = None  # whether the closed value is an object

    def add(self, piece: str) -> None:
        """Add a piece."""
        self._pieces.append(piece)

    def text(self) -> str:
        """Return all pieces."""
        return "".join(self._pieces)

    def is_whole(self) -> bool:
        """Whether they are one complete object, which nothing can follow."""
        while self._seen < len(self._pieces):
            piece = self._pieces[self._seen]
            self._seen += 1
            if self._is_done is not None:
                self._is_done = self._is_done and not piece.strip()
            elif self._look_at(self._tail + piece):
                self._is_done = object_in(self.text()) is not None
                self._seen = len(self._pieces)
        return self._is_done is True

    def _look_at(self, text: str) -> bool:
        """Count the brackets; return whether the last one was closed."""
        self._tail = ""
        position = 0
        while True:
            found = (_TEXT_MARK if self._is_in_text else _MARK).search(text, position)
            if found is None:
                return False
            position = found.end()
            mark = found[0]
            if mark == '"':
                self._is_in_text = not self._is_in_text
            elif mark == "\\":
                self._tail = mark  # the escaped character is in the next piece
            elif mark in "{[":
                self._depth += 1
            elif mark in "}]":
                self._depth -= 1
                if self._depth <= 0:
                    return True


class WaitingArguments:
    """Arguments of a call kept before its name, or because they may mean no arguments."""

    __slots__ = ("_pieces", "_size")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._size = 0

    def __bool__(self) -> bool:
        return self._size > 0

    def add(self, piece: str) -> None:
        """Add a piece."""
        self._pieces.append(piece)
        self._size += len(piece)

    def text(self) -> str:
        """Return all that is kept."""
        return "".join(self._pieces)

    def take(self) -> str | None:
        """Take all that is kept; None while it may still mean no arguments."""
        if self._size <= NO_ARGUMENTS_CHARACTERS_MAX and may_say_no_arguments(self.text()):
            return None
        text = self.text()
        self._pieces.clear()
        self._size = 0
        return text
