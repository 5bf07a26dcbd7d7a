"""Try each defect in a copy of the tree and report those that no test finds.

Exits with 1 when one survives, or when its tests fail without it. The tree itself is not changed.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

from tests.mutations.rows import MUTATIONS, ROOT, Mutation

# A mutated call may wait for ever; the slowest selection takes a tenth of this.
TIMEOUT_SECONDS = 300.0
_TEST_FAILED = 1  # pytest's exit code, and that of the simulation
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.M)


class Found(NamedTuple):
    """What came of one defect: `caught`, `survived`, or why its tests say nothing."""

    mutation: Mutation
    verdict: str
    by: str  # the first test that failed
    seconds: float


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="mutations", description=__doc__)
    parser.add_argument("--only", action="append", metavar="NAME", help="this one (repeatable)")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="so many at a time")
    options = parser.parse_args()
    chosen = [one for one in MUTATIONS if options.only is None or one.name in options.only]
    if not chosen:
        parser.error(f"no such mutation; there are {', '.join(one.name for one in MUTATIONS)}")
    with tempfile.TemporaryDirectory(prefix="mutations") as folder:
        trees: SimpleQueue[Path] = SimpleQueue()
        for number in range(options.jobs):
            trees.put(_copy(Path(folder) / str(number)))
        if not _pass_without_any(chosen, trees):
            return 1
        with ThreadPoolExecutor(options.jobs) as pool:
            found = []
            for one in pool.map(lambda mutation: _tried(mutation, trees), chosen):
                found.append(one)
                print(f"{one.mutation.name:30} {one.verdict:10} {one.seconds:4.0f} s  {one.by}")
    left = [one.mutation.name for one in found if one.verdict != "caught"]
    print(f"{len(found) - len(left)} of {len(found)} caught", *left)
    return 1 if left else 0


def _copy(folder: Path) -> Path:
    """The files that git knows, as they are now, below this folder."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    for name in listed.stdout.split("\0"):
        source = ROOT / name
        if name and source.is_file():
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    return folder


def _pass_without_any(chosen: Sequence[Mutation], trees: SimpleQueue[Path]) -> bool:
    """Whether the tests pass in the tree as it is; where they do not, a failure proves nothing."""
    tree = trees.get()
    trees.put(tree)
    named = dict.fromkeys(one.tests for one in chosen)
    tests = [one for one in named if one.startswith("tests/")]
    for selection in (" ".join(tests), *(one for one in named if one not in tests)):
        done = _run_tests(selection, tree) if selection else None
        if done is not None and done.returncode:
            print(f"fails without a mutation: {selection}", (done.stdout + done.stderr)[-2000:])
            return False
    return True


def _tried(mutation: Mutation, trees: SimpleQueue[Path]) -> Found:
    """Run the tests of one mutation in a tree that is free, which is then as it was."""
    tree = trees.get()
    path = mutation.path(tree)
    text = path.read_text(encoding="utf-8")
    began = time.monotonic()
    try:
        _write(path, text.replace(mutation.source, mutation.replacement))
        verdict, by = _run(mutation, tree)
    finally:
        _write(path, text)
        trees.put(tree)
    return Found(mutation, verdict, by, time.monotonic() - began)


def _write(path: Path, text: str) -> None:
    """Write a file whose compiled form is then stale, however soon after the last time."""
    before = path.stat().st_mtime
    path.write_text(text, encoding="utf-8")
    os.utime(path, (before + 2, before + 2))


def _run_tests(selection: str, tree: Path) -> subprocess.CompletedProcess[str]:
    arguments = selection.split()
    if arguments[0].startswith("tests/"):
        arguments = ["pytest", "-x", "-q", "--no-header", *arguments]
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )


def _run(mutation: Mutation, tree: Path) -> tuple[str, str]:
    try:
        done = _run_tests(mutation.tests, tree)
    except subprocess.TimeoutExpired:
        return "caught", "(a test that does not end)"
    first = _FAILED.search(done.stdout)
    if done.returncode == 0:
        return "survived", mutation.tests
    if done.returncode != _TEST_FAILED:
        return "not run", (done.stdout + done.stderr)[-300:]
    return "caught", first[1] if first else mutation.tests


if __name__ == "__main__":
    sys.exit(main())
