"""The row of `channels/families.py`."""

from __future__ import annotations

from channels import family

TELEGRAPH = family.Family(protocol="telegraph", dialect="telegraph", streams=True)
