"""The programs `prometheus` and `promtool`: those on the path, else of the distribution's packages.

Packages are downloaded and unpacked into the environment's cache, once: nothing is installed, no
service is started, and no other user than the one who runs the tests is needed.
"""

from __future__ import annotations

import fcntl
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

# Each is the package of its own name, or part of the first one's.
PROGRAMS = ("prometheus", "promtool")
HELP = "put `prometheus` and `promtool` on the path (Debian and Ubuntu: apt install prometheus)"


class NoPrograms(AssertionError):
    """Prometheus is not here, and the distribution does not give it."""


def programs(cache: Path = Path(sys.prefix) / "cache" / "prometheus") -> Mapping[str, str]:
    """Where each program is. Raises NoPrograms."""
    found = {name: shutil.which(name) for name in PROGRAMS}
    missing = [name for name, path in found.items() if path is None]
    if not missing:
        return {name: path for name, path in found.items() if path}
    cache.parent.mkdir(parents=True, exist_ok=True)
    with cache.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one of several at once fetches them
        if not cache.exists():
            _fetch(cache)
    return {name: str(cache / "usr" / "bin" / name) for name in PROGRAMS}


def _fetch(cache: Path) -> None:
    for name in ("apt-get", "dpkg-deb"):
        if shutil.which(name) is None:
            raise NoPrograms(f"no {name}: {HELP}")
    with tempfile.TemporaryDirectory(dir=cache.parent) as name:
        folder = Path(name)
        unpacked = folder / "unpacked"
        for program in PROGRAMS:
            if not (unpacked / "usr" / "bin" / program).exists():
                _unpack(program, folder, unpacked)
        unpacked.rename(cache)


def _unpack(package: str, folder: Path, unpacked: Path) -> None:
    lists, packages = folder / "lists", folder / "packages"
    (lists / "partial").mkdir(parents=True, exist_ok=True)
    (packages / "archives" / "partial").mkdir(parents=True, exist_ok=True)
    # Of its own user: it could not write here as its other one.
    own = ["-o", "APT::Sandbox::User=", "-o", f"Dir::Cache={packages}"]
    said = _apt([*own, "download", package], folder)
    if said:
        # Lists that were never read, as on a fresh machine, or that are too old.
        own += ["-o", f"Dir::State::Lists={lists}"]
        said = _apt([*own, "update"], folder) or _apt([*own, "download", package], folder)
    files = sorted(folder.glob(f"{package}_*.deb"))
    if not files:
        raise NoPrograms(f"{said}\n{HELP}")
    subprocess.run(["dpkg-deb", "--extract", files[0], unpacked], check=True)


def _apt(arguments: Sequence[str], folder: Path) -> str:
    """Run apt-get; what it said when it failed, else nothing."""
    done = subprocess.run(
        ["apt-get", "--quiet", *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr if done.returncode else ""
