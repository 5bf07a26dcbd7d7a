"""Code lines by room: no comments, docstrings or blanks. Printed by `ops/weigh`."""

import ast
import tokenize
from collections import Counter
from pathlib import Path

from tests.tidy.files import SOURCES, files, name_of, tree

ROOMS = (*SOURCES, "loadtests", "tests")
_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
    tokenize.ENCODING,
}


def code_lines(path: Path) -> int:
    """How many lines of a file are code."""
    with path.open("rb") as text:
        found = {
            line
            for token in tokenize.tokenize(text.readline)
            if token.type not in _NO_CODE
            for line in range(token.start[0], token.end[0] + 1)
        }
    for node in ast.walk(tree(path)):
        # A docstring, of a field, too: a text that is a statement of its own.
        if isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str):
            found -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(found)


def main() -> None:
    """Print each room of each package, and the sums."""
    lines: Counter[str] = Counter()
    for package in ROOMS:
        for path in files(package, suffix=".py"):
            room, count = name_of(path).split("/")[1], code_lines(path)
            lines[package] += count
            lines[f"{package}/{room}"] += count
    for name in ROOMS:
        print(f"{lines.pop(name):7,} {name}")
        for room in sorted(one for one in lines if one.startswith(f"{name}/")):
            if not room.endswith(".py"):
                print(f"{lines[room]:15,} {room}")


if __name__ == "__main__":
    main()
