"""The dumps beside this file: a database of each release, with data of every kind."""

import gzip
import os
import subprocess
from pathlib import Path

from actors.store.embedded.binaries import find_binaries

FOLDER = Path(__file__).parent
# By their names, the oldest first: all were made by the program of that release.
DUMPS = sorted(FOLDER.glob("*.dump.gz"))
# The calls that were cut when it was made; the film is polled hours later.
CUT_CALLS = "SELECT FROM holds WHERE job_id IS NULL"


def dump(url: str, file: Path) -> None:
    """Write the database into the file."""
    written = _run("pg_dump", "--format", "custom", "--compress", "0", "--no-owner", url)
    file.write_bytes(gzip.compress(written, mtime=0))


def restore(file: Path, url: str) -> None:
    """Bring the database of the file into an empty one."""
    read = gzip.decompress(file.read_bytes())
    _run("pg_restore", "--no-owner", "--exit-on-error", "--dbname", url, given=read)


def _run(name: str, *arguments: str, given: bytes = b"") -> bytes:
    """Run a program of PostgreSQL's own and return what it printed."""
    done = subprocess.run(
        [find_binaries(os.environ).path(name), *arguments],
        input=given,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout
