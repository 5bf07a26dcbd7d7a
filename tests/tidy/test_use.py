"""Nothing dead: every module is imported, every query is run; and imports follow the one arrow."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from actors.store.queries import HEADER
from tests.tidy.files import ROOT, SOURCES, files, imports_of, module_of, name_of, texts


def unused(candidates: Iterator[Path], users: list[Path]) -> list[str]:
    """Return the candidates that no user imports and no file names as a program to be run."""
    importers: dict[str, set[Path]] = {}
    for user in users:
        for module in imports_of(user):
            importers.setdefault(module, set()).add(user)
    named = {name: text for name, text in texts() if not name.endswith(".md")}
    dead = []
    for path in candidates:
        module = module_of(path)
        if importers.get(module, set()) - {path}:
            continue
        is_run = re.compile(rf"(?<![\w.]){re.escape(module)}(?![\w.])(?! import)")
        others = (text for name, text in named.items() if name != name_of(path) and module in text)
        if not any(map(is_run.search, others)):
            dead.append(name_of(path))
    return dead


def modules(*folders: str) -> Iterator[Path]:
    for path in files(*folders, suffix=".py"):
        if path.name not in {"__init__.py", "__main__.py"}:
            yield path


def test_every_source_module_is_imported_by_a_source_module() -> None:
    assert not unused(modules(*SOURCES), list(files(*SOURCES, "loadtests", suffix=".py")))


def test_every_helper_of_tests_and_loads_is_used() -> None:
    helpers = (path for path in modules("tests", "loadtests") if not _is_collected(path))
    assert not unused(helpers, list(files("tests", "loadtests", suffix=".py")))


def _is_collected(path: Path) -> bool:
    return path.name.startswith("test_") or path.name == "conftest.py"


def test_every_query_is_run() -> None:
    code = "\n".join(path.read_text(encoding="utf-8") for path in files(*SOURCES, suffix=".py"))
    idle = [
        f"{name_of(path)}: {query}"
        for path in files(*SOURCES, suffix=".sql")
        for query in HEADER.findall(path.read_text(encoding="utf-8"))
        if f'"{query}"' not in code
    ]
    assert not idle


def test_imports_follow_the_one_arrow() -> None:
    program = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [program, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
