"""As whom PostgreSQL's programs run, because they refuse to run as root.

An ordinary user simply runs them. Root runs them as `nobody`, unless a folder on the way is closed
to `nobody`: then in a user namespace in which root is called `nobody`, so that every file stays
root's. No folder of the user's is ever opened up. What is run is decided in `cluster.py`.
"""

from __future__ import annotations

import os
import pwd
import stat
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from actors.store.embedded.faults import EmbeddedFault

ROOT = 0


@dataclass(frozen=True, slots=True)
class Identity:
    """Owner of the cluster's files, and how to become it for one command.

    `is_switched`: change to `uid` first. `prefix`: a command that runs the rest of its arguments.
    """

    uid: int
    gid: int
    is_switched: bool = False
    prefix: tuple[str, ...] = ()

    def run(self, command: Sequence[str], *, cwd: Path, timeout_seconds: float) -> tuple[int, str]:
        """Run a command to its end; return its exit code and everything it printed."""
        # A file, not a pipe: what a started server inherits must not keep us waiting.
        with tempfile.TemporaryFile() as output:
            done = subprocess.run(
                [*self.prefix, *command],
                cwd=cwd,
                # PGPORT, PGDATA and the like would be obeyed.
                env={k: v for k, v in os.environ.items() if not k.startswith(("PG", "LC_"))}
                | {"LC_ALL": "C"},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                timeout=timeout_seconds,
                check=False,
                user=self.uid if self.is_switched else None,
                group=self.gid if self.is_switched else None,
                extra_groups=[] if self.is_switched else None,
            )
            output.seek(0)
            return done.returncode, output.read().decode(errors="replace")

    def make_folder(self, folder: Path) -> None:
        """Make a folder that only this identity can enter; its parent must be the caller's own."""
        if not folder.exists():
            folder.mkdir(mode=0o700)
            if self.is_switched:
                os.chown(folder, self.uid, self.gid)

    def can_enter(self, folder: Path) -> bool:
        """Whether nothing on the way to and including `folder` is closed to it."""
        return self.closed_folder(folder) is None

    def closed_folder(self, folder: Path) -> Path | None:
        """Return the first folder from the root down to `folder` that it cannot enter."""
        if not self.is_switched:
            return None  # the caller's own rights
        for step in (*reversed(folder.parents), folder):
            status = step.stat()
            if status.st_uid == self.uid:
                needed = stat.S_IXUSR
            elif status.st_gid == self.gid:
                needed = stat.S_IXGRP
            else:
                needed = stat.S_IXOTH
            if not status.st_mode & needed:
                return step
        return None


def choose(data: Path, *, reached: Iterable[Path]) -> Identity:
    """Decide for the cluster in `data`; it must be able to enter every folder in `reached`.

    Data that exists already stays its owner's. Raises EmbeddedFault when there is no way.
    """
    euid = os.geteuid()
    if euid != ROOT:
        if _has_name(euid):
            return Identity(uid=euid, gid=os.getegid())
        return _mapped("this user id has no name on this machine")
    owner = data.stat() if data.exists() else None
    if owner is not None and owner.st_uid == ROOT:
        return _mapped(f"{data} belongs to root")
    if owner is not None:
        switched = Identity(uid=owner.st_uid, gid=owner.st_gid, is_switched=True)
    else:
        try:
            nobody = pwd.getpwnam("nobody")
        except KeyError:
            return _mapped("there is no user nobody")
        switched = Identity(uid=nobody.pw_uid, gid=nobody.pw_gid, is_switched=True)
    closed = [folder for path in reached if (folder := switched.closed_folder(path)) is not None]
    if not closed:
        return switched
    if owner is not None:
        raise EmbeddedFault(
            f"{data} belongs to user id {owner.st_uid}, but {closed[0]} is closed to that user"
        )
    return _mapped(f"{closed[0]} is closed to the user nobody")


def _has_name(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def _mapped(why: str) -> Identity:
    """Return the identity that is this very user under the name `nobody`, if namespaces work."""
    try:
        name = str(pwd.getpwnam("nobody").pw_uid)
        prefix = ("unshare", "--user", f"--map-user={name}", "--")
        subprocess.run([*prefix, "true"], capture_output=True, timeout=20, check=True)
    except (KeyError, OSError, subprocess.SubprocessError) as error:
        raise EmbeddedFault(
            f"PostgreSQL does not run as root, and there is no other way here: {why}, and user "
            "namespaces (unshare --user --map-user) are not allowed. Choose a data_dir (and an "
            "environment) that every user may enter, or run as an ordinary user, or give a "
            "database_url"
        ) from error
    return Identity(uid=os.geteuid(), gid=os.getegid(), prefix=prefix)
