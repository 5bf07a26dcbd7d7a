"""Where a file names a chat dialect: by its folder, its family's row or its literal."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

# A family's row, by its folder; and the literals that stand for the dialect.
ROWS = {"chat": "CHAT", "messages": "MESSAGES", "responses": "RESPONSES", "gemini": "GEMINI"}
LITERALS = {"chat": "chat", "messages": "messages", "responses": "responses", "native": "gemini"}
PACKAGE = "channels.dialects"
FAMILIES = "channels.families"
# Any of it; a file without is not parsed, which takes long.
NAMED = re.compile(rf"""families|channels\W+dialects|["'](?:{"|".join(LITERALS)})["']""")


def mentions(path: Path) -> Iterator[tuple[str, str]]:
    """The dialects that a Python file names, each with how: `import`, `row` or `literal`."""
    text = path.read_text(encoding="utf-8")
    if not NAMED.search(text):
        return
    tree = ast.parse(text)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield from _of_module(name.name)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from _of_module(node.module)
            for name in node.names:
                yield from _of_module(f"{node.module}.{name.name}")
                if node.module == FAMILIES:
                    yield from ((folder, "row") for folder, row in ROWS.items() if row == name.name)
        elif isinstance(node, ast.Attribute) and ast.unparse(node.value) == "families":
            yield from ((folder, "row") for folder, row in ROWS.items() if row == node.attr)
        elif isinstance(node, ast.Constant) and id(node) not in docstrings:
            literal = node.value if isinstance(node.value, str) else ""
            yield from ((folder, "literal") for name, folder in LITERALS.items() if name == literal)


def _of_module(module: str) -> Iterator[tuple[str, str]]:
    folder = module.removeprefix(f"{PACKAGE}.").partition(".")[0]
    if module.startswith(f"{PACKAGE}.") and folder in ROWS:
        yield folder, "import"
