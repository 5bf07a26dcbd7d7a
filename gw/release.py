"""Which version this is, as the distribution that was installed says."""

from __future__ import annotations

from importlib.metadata import version
from typing import Final

DISTRIBUTION: Final = "model-gateway"


def release() -> str:
    """The version's number."""
    return version(DISTRIBUTION)
