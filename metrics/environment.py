"""The environment of the programs that a process starts: no secret of its own.

The gateway's environment has its secret, its database's password and its channels' keys. Whoever
may read a program's environment, or a core file of it, would have them. So a program inherits by
name what it needs to run. A worker of `gw serve` is the gateway itself, and has
all of it.
"""

from __future__ import annotations

import os

# To find programs and libraries, for temporary files, for texts and times.
_NAMES = frozenset(
    {
        *("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "HOME", "USER", "LOGNAME"),
        *("TMPDIR", "TEMP", "TMP", "TZ", "LANG", "LANGUAGE", "VIRTUAL_ENV", "SYSTEMROOT"),
    }
)
_PREFIXES = ("PYTHON", "LC_", "MALLOC_")


def inherited(**more: str) -> dict[str, str]:
    """Return the environment of a program: what it inherits, and what it is given."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in _NAMES or name.startswith(_PREFIXES)
    }
    return {**kept, **more}
