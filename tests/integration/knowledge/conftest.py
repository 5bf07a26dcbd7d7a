"""`gw`, as tests of the command line have it."""

from tests.integration.cli.conftest import gw

__all__ = ["gw"]
