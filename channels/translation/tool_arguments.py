"""The arguments of a call as they come in pieces, and whether they are an object already.

What is looked at once is not looked at again, however small the pieces are.
"""

from __future__ import annotations

import re

from channels.json.text import NO_ARGUMENTS_CHARACTERS_MAX, may_say_no_arguments, object_in

# What can open or close an object or a text; the rest is stepped over.
_MARK = re.compile(r'["{}\[\]]|\\.?', re.S)
_TEXT_MARK = re.compile(r'"|\\.?', re.S)


class Arguments:
    """The pieces of one call's arguments."""

    __slots__ = ("_depth", "_is_done", "_is_in_text", "_pieces", "_seen", "_tail")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._seen = 0  # pieces that have been looked at
        self._depth = 0  # brackets that are open
        self._is_in_text = False
        self._tail = ""  # a backslash at the end of a piece
        self._is_done: bool | None = None  # whether what has been closed is an object

    def __repr__(self) -> str:
        return f"<Arguments in {len(self._pieces)} pieces>"

    def add(self, piece: str) -> None:
        """More of them."""
        self._pieces.append(piece)

    def text(self) -> str:
        """All of them."""
        return "".join(self._pieces)

    def is_whole(self) -> bool:
        """Whether they are one object: nothing can follow then."""
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
        """Follow the brackets; whether the last of them has been closed."""
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
                self._tail = mark  # what it stands before is in the next piece
            elif mark in "{[":
                self._depth += 1
            elif mark in "}]":
                self._depth -= 1
                if self._depth <= 0:
                    return True


class WaitingArguments:
    """Pieces of a call's arguments that came before the call's name, or may say there are none."""

    __slots__ = ("_pieces", "_size")

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._size = 0

    def __repr__(self) -> str:
        return f"<WaitingArguments {self._size} characters>"

    def __bool__(self) -> bool:
        return self._size > 0

    def add(self, piece: str) -> None:
        """More of them."""
        self._pieces.append(piece)
        self._size += len(piece)

    def text(self) -> str:
        """All that wait."""
        return "".join(self._pieces)

    def take(self) -> str | None:
        """All that wait, once; None while they still may say that there are none."""
        if self._size <= NO_ARGUMENTS_CHARACTERS_MAX and may_say_no_arguments(self.text()):
            return None
        text = self.text()
        self._pieces.clear()
        self._size = 0
        return text
