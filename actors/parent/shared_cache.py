"""Summaries that are valid for the rest of their minute in every worker, kept by the parent.

The first one stored is used by all. Only one minute is kept: the latest that any worker has
named. Sans I/O.
"""

from __future__ import annotations

ENTRIES_MAX = 500
BYTES_MAX = 64 * 1024 * 1024


class SharedCache:
    """The summaries of the present minute, by question."""

    def __init__(self) -> None:
        self._minute = 0
        self._entries: dict[str, str] = {}
        self._size = 0

    def find(self, question: str, minute: int) -> str | None:
        """Return the summary stored for a question in this minute, if any."""
        return self._entries.get(question) if minute == self._minute else None

    def store(self, question: str, minute: int, text: str) -> str:
        """Store a summary unless there is one; return the one that is stored.

        Beyond the bounds the oldest ones are dropped: a worker that needs one makes it again.
        """
        if minute < self._minute:
            return text  # too slow: the next minute has begun
        if minute > self._minute:
            self._minute, self._entries, self._size = minute, {}, 0
        found = self._entries.get(question)
        if found is not None:
            return found
        self._entries[question] = text
        self._size += len(text)
        while len(self._entries) > ENTRIES_MAX or self._size > BYTES_MAX:
            self._size -= len(self._entries.pop(next(iter(self._entries))))
        return text
