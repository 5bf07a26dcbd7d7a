"""The release of the running gateway, and the commit that it was built from."""

from __future__ import annotations

import json
import subprocess
from importlib import metadata
from pathlib import Path
from typing import Final

from metrics.environment import inherited

DISTRIBUTION: Final = "model-gateway"
# Written beside this file by `setup.py`, in the build only.
COMMIT_FILE: Final = "commit.txt"
GIT_SECONDS: Final = 2.0


def release() -> str:
    """Return the version; "0" without an installed distribution."""
    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return "0"


def commit(package: Path = Path(__file__).parent) -> str:
    """Return the commit's hash in hex; "" if it is unknown. Never raises.

    A built package has it in a file, a checkout (the folder above `package`) in git, and pip
    records it for a package installed from git.
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
            env=inherited(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
            timeout=GIT_SECONDS,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
