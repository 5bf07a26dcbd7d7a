"""Which file is the configuration: `--config`, else `$GW_CONFIG`, else `gw.yaml` (contract §1)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from gw.config.faults import ConfigFaults, Fault

DEFAULT_NAME = "gw.yaml"
VARIABLE = "GW_CONFIG"


def find(path_argument: str | None, environ: Mapping[str, str], cwd: Path) -> Path:
    """Return the path of the configuration file, absolute when `cwd` is.

    An empty argument or variable counts as absent. Raises ConfigFaults when no file is there; what
    is in it is not looked at.
    """
    if path_argument:
        named, by = path_argument, "--config"
    elif environ.get(VARIABLE):
        named, by = environ[VARIABLE], f"${VARIABLE}"
    else:
        named, by = DEFAULT_NAME, ""
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
