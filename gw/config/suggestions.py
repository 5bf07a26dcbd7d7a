"""Suggestions for misspelled keys and values, for the hint of a fault."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches


def suggestion(word: str, options: Collection[str]) -> str:
    """Return a suggestion for a misspelled word; empty when nothing is close."""
    guess = closest(word, options)
    return f"did you mean {guess}?" if guess else ""


def closest(word: str, options: Collection[str]) -> str | None:
    """Return the option closest to a misspelled word, or None."""
    folded = {option.lower().replace("-", "_"): option for option in options}
    wanted = word.strip().lower().replace("-", "_")
    matches = get_close_matches(wanted, folded, n=1)
    if not matches and len(wanted) > 2:
        # chat_completions has a low similarity to chat, and is a likely mistake for it.
        matches = [
            option for option in folded if wanted.startswith(option) or option.startswith(wanted)
        ]
    return folded[matches[0]] if matches else None
