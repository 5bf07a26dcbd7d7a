"""Builds the package as `setup.cfg` has it, and writes into it which commit it is made of.

The commit is $GW_COMMIT where that is set, as for an image, whose build sees no repository; else
git is asked. Where neither knows, no file is written and `gw --version` shows the version alone.
"""

import os
import subprocess
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py


class BuildWithCommit(build_py):
    """Copies the packages, and adds `metrics/commit.txt`, which `metrics/version.py` reads."""

    def run(self) -> None:
        super().run()
        commit = os.environ.get("GW_COMMIT", "") or _of_git()
        if commit and not self.editable_mode:  # one that is edited has no commit of its own
            path = Path(self.build_lib) / "metrics" / "commit.txt"
            path.write_text(f"{commit}\n", encoding="ascii")


def _of_git() -> str:
    folder = Path(__file__).resolve().parent
    if not (folder / ".git").exists():  # another project's may lie above
        return ""
    command = ["git", "-C", str(folder), "rev-parse", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


setup(cmdclass={"build_py": BuildWithCommit})
