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
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


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
        if isinstance(node, _DOCUMENTED) and ast.get_docstring(node, clean=False) is not None:
            docstring = node.body[0]
            found -= set(range(docstring.lineno, (docstring.end_lineno or docstring.lineno) + 1))
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
