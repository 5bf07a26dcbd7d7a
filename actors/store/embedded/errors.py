"""The one error of the embedded PostgreSQL."""

from __future__ import annotations


class EmbeddedFault(Exception):
    """The embedded PostgreSQL cannot run here; the message gives the reason and a remedy."""
