"""The text of a key: how one is made, recognised and shown in part (reference 1.1).

Knows nothing of secrets at rest (`sealing.py`) or of who owns a key (`store.py`).
"""

from __future__ import annotations

import re
import secrets

PREFIX = "sk-platform-"
RANDOM_BYTES = 32
LENGTH = len(PREFIX) + 2 * RANDOM_BYTES
# How much of the random part is shown in lists: enough to distinguish keys, far too little to
# guess.
SHOWN_DIGITS = 8

_KEY = re.compile(PREFIX + r"[0-9a-f]{64}")


def new_key_text() -> str:
    """Make a key from the operating system's randomness: 76 characters."""
    return PREFIX + secrets.token_hex(RANDOM_BYTES)


def is_key_text(text: str) -> bool:
    """Whether `text` is written like a key. Upper-case hex is not (reference 1.1)."""
    return len(text) == LENGTH and _KEY.fullmatch(text) is not None


def shown_prefix(key_text: str) -> str:
    """The part of a key that lists and log lines may show."""
    return key_text[: len(PREFIX) + SHOWN_DIGITS]
