"""Prints what stops a request, at every door, with its status:

python -m tests.unit.api.matrix > ops/endpoints.md
"""

import sys

from tests.unit.api import admin_guards, guards, socket_guards
from tests.unit.console import guards as console_guards

HEADING = """# What stops a request to each endpoint

Made by `python -m tests.unit.api.matrix` from the tables of each listener. The refusals stand in
the order in which they are judged, each with its status.
"""


def page() -> str:
    """The whole page."""
    doors = (guards, socket_guards, console_guards, admin_guards)
    return "\n".join([HEADING, *(door.section() for door in doors)])


if __name__ == "__main__":
    sys.stdout.write(page())
