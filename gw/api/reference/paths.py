"""The paths of an endpoint as OpenAPI writes them, made from the expression of its row."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from gw.api.reference.schemas import Undescribed

_OPTIONAL = re.compile(r"\(\?:([\w/]+)\)\?")
_COLON = "(?::|%3[Aa])"
_VERBS = re.compile(r"\((\w+(?:\|\w+)*)\)")
_PART = re.compile(r"\((?:\[\^/\]\+|\.\+)\)")
_READABLE = re.compile(r"[\w/{}:.-]+", re.ASCII)


class ShownPath(NamedTuple):
    """One path of an endpoint, and the verb at its end, if it has several."""

    path: str
    verb: str


def shown_paths(expression: str, parts: Sequence[str]) -> list[ShownPath]:
    """Return every path of an expression, with these names of its parts; the main one first.

    Raises Undescribed for an expression of another form, and for parts without a name.
    """
    found = []
    for path in _expanded(expression.replace(_COLON, ":")):
        verbs = _VERBS.search(path)
        for verb in verbs[1].split("|") if verbs else ("",):
            one = path if verbs is None else path.replace(verbs[0], verb)
            found.append(ShownPath(_named(one, parts), verb))
    return found


def _expanded(path: str) -> Iterator[str]:
    """Yield a path with its optional piece, and without."""
    piece = _OPTIONAL.search(path)
    if piece is None:
        yield path
    else:
        yield path.replace(piece[0], piece[1])
        yield path.replace(piece[0], "")


def _named(path: str, parts: Sequence[str]) -> str:
    for name in parts:
        path = _PART.sub(lambda _, name=name: f"{{{name}}}", path, count=1)  # type: ignore[misc]
    if not _READABLE.fullmatch(path):
        raise Undescribed(f"{path}: its parts are {', '.join(parts) or 'without names'}")
    return path
