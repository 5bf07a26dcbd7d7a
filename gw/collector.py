"""When Python's collector of cycles looks for them: often among what is new, hardly ever elsewhere.

What a call leaves behind is freed as soon as nothing refers to it; the collector only finds what
refers to itself, which no call makes. But it walks through whatever was made since its last look,
and an open stream is some 130 objects. A small first generation is walked while it is still in the
processor's cache. The second holds all that has stayed, and with ten thousand open streams a look
at it stops the process for a third of a second: it is looked at in quiet times (`allocator.py`),
and else only after some twenty million objects more were made than freed.
"""

from __future__ import annotations

import gc

NEW_OBJECTS_MAX = 20_000
LOOKS_AT_NEW = 1_000  # for each at what has stayed
LOOKS_AT_OLD = 50  # for each at everything


def begin() -> None:
    """Once everything that lives as long as the process has been made: it is never walked again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS_MAX, LOOKS_AT_NEW, LOOKS_AT_OLD)
