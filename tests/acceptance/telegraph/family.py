"""The row of `channels/families.py`."""

from __future__ import annotations

from channels.family import Family

TELEGRAPH = Family(protocol="telegraph", dialect="telegraph", streams=True)
