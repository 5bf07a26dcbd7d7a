"""The path of the configuration (running.md: Commands).

It is `--config`, else `$GW_CONFIG`, else `gw.yaml`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gw.config.faults import ConfigFaults, Fault

DEFAULT_NAME = "gw.yaml"
VARIABLE = "GW_CONFIG"


def name_of_file(path_argument: str | None, environ: Mapping[str, str]) -> tuple[str, str]:
    """Return the name of the configuration file, and by what it is named, "" for the default.

    An empty argument or variable counts as absent.
    """
    if path_argument:
        return path_argument, "--config"
    if environ.get(VARIABLE):
        return environ[VARIABLE], f"${VARIABLE}"
    return DEFAULT_NAME, ""


def find_path(path_argument: str | None, environ: Mapping[str, str], cwd: Path) -> Path:
    """Return the path of the configuration file, absolute when `cwd` is.

    Raises ConfigFaults when the file does not exist; its content is not read.
    """
    named, by = name_of_file(path_argument, environ)
    path = cwd / named
    try:
        path.stat()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        found = (reason or str(error)).lower() + (f", named by {by}" if by else "")
        hint = "" if by else f"name one with --config FILE or ${VARIABLE}, or try gw demo"
        fault = Fault(str(path), "", found, "a configuration file", hint)
        raise ConfigFaults([fault]) from None
    return path
