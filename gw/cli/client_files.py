"""The files of a coding agent below a home: each change is merged, and made after a copy."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gw.cli.failures import CommandRefused
from gw.cli.files import put_file
from gw.setup.client import ClientFile
from gw.setup.merging import Unmergeable, merged_text

# The suffix of the copy made before a change.
BACKUP = ".before-gateway"


@dataclass(frozen=True, slots=True)
class FileChange:
    """The change of one file: `text` replaces `there`, which is None for a new file."""

    path: Path
    there: str | None
    text: str

    @property
    def outcome(self) -> str:
        if self.there is None:
            return "written"
        return "unchanged" if self.text == self.there else "merged"

    def write(self) -> None:
        """Write the file atomically, after a copy of it as it was. Raises OSError."""
        if self.text == self.there:
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        mode = 0o600
        if self.there is not None:
            mode = self.path.stat().st_mode & 0o777
            put_file(self.path.with_name(self.path.name + BACKUP), self.there, mode=mode)
        put_file(self.path, self.text, mode=mode)


def change_of(file: ClientFile, home: Path) -> FileChange:
    """Return the change of a file below `home`. Raises CommandRefused if it must not be changed."""
    path = (home / file.path).resolve()  # the target of a link is changed
    try:
        there = path.read_text(encoding="utf-8") if path.exists() else None
        return FileChange(path, there, merged_text(file, there or ""))
    except (Unmergeable, OSError, UnicodeDecodeError) as error:
        raise CommandRefused(f"{path} stays as it is: {error}", "not_merged") from None
