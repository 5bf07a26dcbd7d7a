"""The open files of the process, by part, and the connections of its clients."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from metrics.families import Families

# Reasons to refuse a client's connection: the limit of clients, or of all files.
REASONS = ("connections", "files")


class FileMetrics:
    """Counts that are read at a scrape; refusals and freed files as they happen."""

    def __init__(self, make: Families) -> None:
        self._files = make.gauge("gw_files")
        self._freed = make.counter("gw_files_freed_total")
        self._connections = make.gauge("gw_http_connections")
        self._refused = make.counter("gw_http_connections_refused_total")
        for reason in REASONS:
            self._refused[(reason,)].value = 0
        self._parts: dict[str, Callable[[], int]] = {}
        self._states: Callable[[], Mapping[str, int]] = dict

    def watch(self, part: str, count: Callable[[], int]) -> None:
        """Show this part from now on. `count` is called beside the loop's thread."""
        self._parts[part] = count

    def watch_connections(self, states: Callable[[], Mapping[str, int]]) -> None:
        """Show the public listener's connections by state; read like a part."""
        self._states = states

    def freed(self, part: str) -> None:
        """Count an idle connection of this part closed because its file was needed."""
        self._freed[(part,)].value += 1

    def refused(self, reason: str) -> None:
        """Count a refused client connection."""
        self._refused[(reason,)].value += 1

    def read(self) -> None:
        """Read all counts."""
        for part, count in self._parts.items():
            self._files[(part,)].value = count()
        for state, count_now in self._states().items():
            self._connections[(state,)].value = count_now
