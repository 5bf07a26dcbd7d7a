"""How many files this process may open: every client takes one, and so does every channel's
response.

The limit that a process starts with (often 1,024, and 20,000 in a container) is a default rather
than anybody's decision, and a stream takes two files for as long as it lasts.
"""

from __future__ import annotations

import resource

# Enough for 10,000 open streams three times over.
WANTED = 65_536


def raise_open_files() -> None:
    """Take what the system allows, and no less than is WANTED where this user may ask for it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard == resource.RLIM_INFINITY:
        if soft != hard and soft < WANTED:
            resource.setrlimit(resource.RLIMIT_NOFILE, (WANTED, hard))
        return
    if hard < WANTED:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (WANTED, WANTED))
        except (OSError, ValueError):
            pass  # not a privileged user; all there is below
        else:
            return
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
