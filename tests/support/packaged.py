"""Programs that no wheel has: those on the path, else of the distribution's packages.

Packages are downloaded and unpacked into the environment's cache, once: nothing is installed, no
service is started, and no other user than the one who runs the tests is needed.
"""

import fcntl
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

CACHE = Path(sys.prefix) / "cache"


class NoPrograms(AssertionError):
    """The programs are not here, and the distribution does not give them."""


@dataclass(frozen=True)
class Packaged:
    """Programs and where they come from.

    `packages` are unpacked in this order until every program is there; `libraries` are packages of
    what a bare system may lack, those that the distribution knows by this name.
    """

    name: str
    programs: tuple[str, ...]
    packages: tuple[str, ...]
    libraries: tuple[str, ...] = ()

    @property
    def help(self) -> str:
        """What puts them on the path."""
        names = " and ".join(f"`{name}`" for name in self.programs)
        return f"put {names} on the path (Debian and Ubuntu: apt install {self.packages[0]})"


PROMETHEUS = Packaged("prometheus", ("prometheus", "promtool"), ("prometheus", "promtool"))
ALERTMANAGER = Packaged("alertmanager", ("amtool",), ("prometheus-alertmanager",))
PGBOUNCER = Packaged(
    "pgbouncer",
    ("pgbouncer",),
    ("pgbouncer",),
    ("libc-ares2", "libcares2", "libevent-2.1-7", "libevent-2.1-7t64"),
)


def programs(of: Packaged, cache: Path = CACHE) -> Mapping[str, str]:
    """Where each program is. Raises NoPrograms."""
    found = {name: shutil.which(name) for name in of.programs}
    missing = [name for name, path in found.items() if path is None]
    if not missing:
        return {name: path for name, path in found.items() if path}
    folder = cache / of.name
    cache.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # one of several at once fetches them
        if not folder.exists():
            _fetch(of, folder)
    return {name: str(path) for name in of.programs if (path := _path(folder, name))}


def libraries(of: Packaged, cache: Path = CACHE) -> str:
    """The folders of unpacked libraries, as LD_LIBRARY_PATH has them; empty for none."""
    folders = sorted({path.parent for path in (cache / of.name / "usr" / "lib").glob("*/*.so.*")})
    return ":".join(map(str, folders))


def _path(folder: Path, program: str) -> Path | None:
    paths = [folder / "usr" / place / program for place in ("bin", "sbin")]
    return next((path for path in paths if path.exists()), None)


def _fetch(of: Packaged, cache: Path) -> None:
    for name in ("apt-get", "dpkg-deb"):
        if shutil.which(name) is None:
            raise NoPrograms(f"no {name}: {of.help}")
    with tempfile.TemporaryDirectory(dir=cache.parent) as name:
        folder = Path(name)
        unpacked = folder / "unpacked"
        for package in of.packages:
            if any(_path(unpacked, program) is None for program in of.programs):
                message = _unpack(package, folder, unpacked)
                if message is not None:
                    raise NoPrograms(f"{message}\n{of.help}")
        for package in of.libraries:
            _unpack(package, folder, unpacked)
        unpacked.rename(cache)


def _unpack(package: str, folder: Path, unpacked: Path) -> str | None:
    """Unpack a package; what apt-get wrote when it has none, else None."""
    lists, packages = folder / "lists", folder / "packages"
    (lists / "partial").mkdir(parents=True, exist_ok=True)
    (packages / "archives" / "partial").mkdir(parents=True, exist_ok=True)
    # Of its own user: it could not write here as its other one.
    own = ["-o", "APT::Sandbox::User=", "-o", f"Dir::Cache={packages}"]
    message = _apt([*own, "download", package], folder)
    if message:
        # Lists that were never read, as on a fresh machine, or that are too old.
        own += ["-o", f"Dir::State::Lists={lists}"]
        message = _apt([*own, "update"], folder) or _apt([*own, "download", package], folder)
    files = sorted(folder.glob(f"{package}_*.deb"))
    if not files:
        return message
    subprocess.run(["dpkg-deb", "--extract", files[0], unpacked], check=True)
    return None


def _apt(arguments: Sequence[str], folder: Path) -> str:
    """Run apt-get; what it said when it failed, else nothing."""
    done = subprocess.run(
        ["apt-get", "--quiet", *arguments], cwd=folder, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr if done.returncode else ""
