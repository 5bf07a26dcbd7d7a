"""Guesses at misspelled keys and values, for the hint of a fault."""

from __future__ import annotations

from collections.abc import Collection
from difflib import get_close_matches


def suggestion(word: str, options: Collection[str]) -> str:
    """Guess what a misspelled word should have been; empty when nothing is close."""
    guess = closest(word, options)
    return f"did you mean {guess}?" if guess else ""


def closest(word: str, options: Collection[str]) -> str | None:
    """Return the option a misspelled word is closest to, or None."""
    folded = {option.lower().replace("-", "_"): option for option in options}
    wanted = word.strip().lower().replace("-", "_")
    matches = get_close_matches(wanted, folded, n=1)
    if not matches and len(wanted) > 2:
        # chat_completions is far from chat by its letters, and yet what was meant.
        matches = [
            option for option in folded if wanted.startswith(option) or option.startswith(wanted)
        ]
    return folded[matches[0]] if matches else None
