"""The release of the gateway that runs."""

from __future__ import annotations

from importlib import metadata
from typing import Final

DISTRIBUTION: Final = "model-gateway"


def release() -> str:
    """Return its version; "0" for one that runs from a folder and was never installed."""
    try:
        return metadata.version(DISTRIBUTION)
    except metadata.PackageNotFoundError:
        return "0"
