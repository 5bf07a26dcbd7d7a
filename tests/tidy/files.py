"""Which files of the project the tidy tests read."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from textwrap import dedent

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ("gw", "actors", "channels", "metrics")
FOLDERS = (*SOURCES, "loadtests", "tests", "ops", ".ci", ".github")
TEXTS = {".py", ".sql", ".sh", ".cfg", ".toml", ".md", ".yaml", ".yml", ".txt", ".json", ""}

IMPORT = re.compile(r"^ *(?:import \w.*|from [\w.]+ import (?:\([^)]*\)|\w.*))$", re.M)


def files(*folders: str, suffix: str | None = None) -> Iterator[Path]:
    """Yield the files below the given folders of the project, in a stable order."""
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*")):
            is_made = any(part == "__pycache__" or part.startswith(".mypy") for part in path.parts)
            if path.is_file() and not is_made and suffix in (None, path.suffix):
                yield path


@cache
def texts() -> tuple[tuple[str, str], ...]:
    """Return name and text of every text file that belongs to the project."""
    # In a worktree of git `.git` is a file, which names the folder of the repository.
    top = (path for path in sorted(ROOT.iterdir()) if path.is_file() and path.name != ".git")
    paths = (path for path in (*top, *files(*FOLDERS)) if path.suffix in TEXTS)
    return tuple((name_of(path), path.read_text(encoding="utf-8")) for path in paths)


def name_of(path: Path) -> str:
    """Return the path as a reader of a report wants it."""
    return path.relative_to(ROOT).as_posix()


@cache
def tree(path: Path) -> ast.Module:
    """Return the parsed module."""
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def imports(text: str) -> Iterator[ast.stmt]:
    """Yield the statements that import, as ruff writes them: all of a file takes long to parse."""
    for found in IMPORT.finditer(text):
        yield from ast.parse(dedent(found[0])).body


def module_of(path: Path) -> str:
    """Return the dotted name of a module's file."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@cache
def imports_of(path: Path) -> tuple[str, ...]:
    """Return every module, or name in a module, that a file imports, also those it looks up."""
    return tuple(_imports_of(path))


def _imports_of(path: Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)) if "import_module(" in text else imports(text):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "import_module":
            yield from _looked_up(node.args[0])


def _looked_up(name: ast.expr) -> Iterator[str]:
    """The modules that a name with gaps may mean: `f"channels.dialects.{family}.dialect"`."""
    if not isinstance(name, ast.JoinedStr):
        return
    parts = (
        re.escape(str(part.value)) if isinstance(part, ast.Constant) else r"\w+"
        for part in name.values
    )
    pattern = re.compile("".join(parts))
    modules = map(module_of, files(*SOURCES, suffix=".py"))
    yield from (module for module in modules if pattern.fullmatch(module))
