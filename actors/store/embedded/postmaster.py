"""The server process of a cluster, by its `postmaster.pid`.

The file may outlive a killed server, and its process number may be another program's; both are
checked here.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from metrics.environment import inherited

PID_FILE = "postmaster.pid"


@dataclass(frozen=True, slots=True)
class Postmaster:
    """A live server process."""

    pid: int
    data: Path
    socket_folder: Path | None  # None while it starts

    @classmethod
    def read(cls, data: Path) -> Postmaster | None:
        """Return the server that runs on `data`; None without one."""
        try:
            lines = (data / PID_FILE).read_text().splitlines()
        except FileNotFoundError:
            return None
        # Lines: process, data, start time, port, socket folder, …; the last ones are added later.
        if not lines or not lines[0].isdigit():
            return None
        folder = Path(lines[4]) if len(lines) > 4 and lines[4] else None
        postmaster = cls(pid=int(lines[0]), data=data, socket_folder=folder)
        return postmaster if postmaster.is_alive else None

    @classmethod
    def remove_stale_file(cls, data: Path) -> bool:
        """Remove a killed server's file, whose number PostgreSQL could take for another process.

        Returns whether it existed. Call it only if `read` has found no server and no other process
        can start one.
        """
        try:
            (data / PID_FILE).unlink()
        except FileNotFoundError:
            return False
        return True

    @property
    def is_alive(self) -> bool:
        """Whether the process exists, is a PostgreSQL and works on this data."""
        process = Path("/proc") / str(self.pid)
        if not Path("/proc/self/stat").exists():
            return self._is_alive_by_ps()
        try:
            state = (process / "stat").read_text().rpartition(")")[2].split()[0]
            program = (process / "cmdline").read_bytes().split(b"\0")[0]
        except (FileNotFoundError, ProcessLookupError, IndexError):
            return False
        if state in "ZX" or b"postgres" not in program:
            return False
        try:
            return (process / "cwd").samefile(self.data)
        except (PermissionError, FileNotFoundError):
            # Another user's process, whose name must suffice, or one that has just ended.
            return process.exists()

    def send(self, signal_number: int) -> None:
        """Send a signal; a process that has ended is ignored."""
        try:
            os.kill(self.pid, signal_number)
        except ProcessLookupError:
            return

    def _is_alive_by_ps(self) -> bool:
        command = ["ps", "-o", "stat=,command=", "-p", str(self.pid)]
        shown = subprocess.run(
            command, env=inherited(), capture_output=True, text=True, check=False
        ).stdout
        return "postgres" in shown and not shown.startswith("Z")
