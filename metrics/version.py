"""The release of the gateway that runs, and the commit that it was built from."""

from __future__ import annotations

import json
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Final

DISTRIBUTION: Final = "model-gateway"
# Written beside this file by `setup.py`, into what is built and never into the sources.
COMMIT_FILE: Final = "commit.txt"
GIT_SECONDS: Final = 2.0


def release() -> str:
    """Return its version; "0" for one that runs from a folder and was never installed."""
    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return "0"


def commit(package: Path = Path(__file__).parent) -> str:
    """Return the commit's name in hex; "" where nothing knows it. Never raises.

    Of a built package it is in a file; pip notes the commit of one that it has got by git; and in
    a checkout git is asked, which must be the folder above `package`.
    """
    try:
        return (package / COMMIT_FILE).read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        pass
    if (package.parent / ".git").exists():
        return _of_checkout(package.parent)
    try:
        text = metadata.distribution(DISTRIBUTION).read_text("direct_url.json")
        return str(json.loads(text or "")["vcs_info"]["commit_id"])
    except (metadata.PackageNotFoundError, ValueError, KeyError, TypeError):
        return ""


def _of_checkout(folder: Path) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", folder, "rev-parse", "HEAD"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
            timeout=GIT_SECONDS,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
