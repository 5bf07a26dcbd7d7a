"""Builds the package as `setup.cfg` has it, and writes into it which commit it is made of.

The commit is $GW_COMMIT where that is set, as for an image, whose build sees no repository; else
git is asked, else the file that a source distribution has. Where none knows, no file is written and
`gw --version` shows the version alone.
"""

import os
import subprocess
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

FOLDER = Path(__file__).resolve().parent
NAME = "metrics/commit.txt"  # read by `metrics/version.py`


class BuildWithCommit(build_py):
    """Copies the packages, and adds the commit."""

    def run(self) -> None:
        super().run()
        if not self.editable_mode:  # one that is edited has no commit of its own
            _write(Path(self.build_lib))


class SourcesWithCommit(sdist):
    """Collects the sources, and adds the commit, which no repository beside them will know."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, files)
        _write(Path(base_dir))


def _write(folder: Path) -> None:
    if commit := os.environ.get("GW_COMMIT", "") or _of_git() or _of_sources():
        (folder / NAME).write_text(f"{commit}\n", encoding="ascii")


def _of_git() -> str:
    if not (FOLDER / ".git").exists():  # another project's may lie above
        return ""
    command = ["git", "-C", str(FOLDER), "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def _of_sources() -> str:
    try:
        return (FOLDER / NAME).read_text(encoding="ascii").strip()
    except FileNotFoundError:
        return ""


setup(cmdclass={"build_py": BuildWithCommit, "sdist": SourcesWithCommit})
