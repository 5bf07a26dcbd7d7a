"""Text of an upstream made fit to be stored and shown: bounded, and without what breaks a sink.

PostgreSQL refuses NUL in text and nothing can encode a lone surrogate, so one odd string could
spoil a whole batch of rows. Hiding secrets is `redact.py`'s part.
"""

from __future__ import annotations

import re

# Controls except tab and newline, and surrogates.
_UNFIT = re.compile(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]+")


def fit(text: str, limit: int) -> str:
    """Replace each run of unfit characters by a space and cut to `limit` characters."""
    text = _UNFIT.sub(" ", text)
    return text if len(text) <= limit else text[: limit - 1] + "…"
