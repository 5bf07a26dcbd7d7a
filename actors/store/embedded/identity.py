"""The user that runs PostgreSQL's programs, since they refuse to run as root.

An ordinary user runs them as itself. Root runs them as the owner of the data folder or, if that is
root too, under a user id of their own: any other program that runs as `nobody` could read the data,
signal the server and change its rules. If a parent folder is closed to that user, root runs them in
a user namespace in which root is called `nobody`, so that all files stay root's. The permissions of
the user's folders are never changed. `cluster.py` decides what is run.
"""

from __future__ import annotations

import os
import pwd
import stat
import subprocess
import tempfile
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from actors.store.embedded.errors import EmbeddedFault
from metrics.environment import inherited

ROOT = 0
# Unassigned in systemd's ranges of user ids; below 65536, so that containers have them, too.
PRIVATE_UIDS = range(60578, 61184)


@dataclass(frozen=True, slots=True)
class Identity:
    """The owner of the cluster's files, and how to run a command as that user.

    `is_switched`: change to `uid` first. `prefix`: a command that runs the rest of its arguments.
    """

    uid: int
    gid: int
    is_switched: bool = False
    prefix: tuple[str, ...] = ()

    def run(self, command: Sequence[str], *, cwd: Path, timeout_seconds: float) -> tuple[int, str]:
        """Run a command to its end; return its exit code and its output."""
        # A file, because a started server inherits a pipe, and reading it would not end.
        with tempfile.TemporaryFile() as output:
            done = subprocess.run(
                [*self.prefix, *command],
                cwd=cwd,
                # Not PGPORT, PGDATA and the like, which would apply.
                env=inherited(LC_ALL="C"),
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
        """Create a folder that only this identity can enter, in a folder of the caller's own."""
        if not folder.exists():
            folder.mkdir(mode=0o700)
            if self.is_switched:
                os.chown(folder, self.uid, self.gid)
        self.take(folder)

    def take(self, folder: Path) -> None:
        """Change the owner of a folder, and of everything in it that its present owner has.

        The folder itself is last: an interrupted run is recognised, and repeated.
        """
        owner = folder.stat().st_uid
        if not self.is_switched or owner == self.uid:
            return
        for _, folders, files, descriptor in os.fwalk(folder):
            for name in (*folders, *files):
                found = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                if found.st_uid == owner:
                    os.chown(name, self.uid, self.gid, dir_fd=descriptor, follow_symlinks=False)
        os.chown(folder, self.uid, self.gid)

    def named(self) -> Identity:
        """Return this identity, or `nobody` for a user id without a name."""
        if not self.is_switched or _has_name(self.uid):
            return self
        nobody = pwd.getpwnam("nobody")
        return Identity(uid=nobody.pw_uid, gid=nobody.pw_gid, is_switched=True)

    def can_enter(self, folder: Path) -> bool:
        """Whether this identity can enter `folder` and all its parents."""
        return self.closed_folder(folder) is None

    def closed_folder(self, folder: Path) -> Path | None:
        """Return the first of the parents and `folder`, from the root, that it cannot enter."""
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


def choose_identity(data: Path, *, home: Path, reached: Iterable[Path]) -> Identity:
    """Choose the identity for the cluster in `data`; it must be able to enter all of `reached`.

    Existing data keeps its owner, unless that is `nobody` as chosen by root. `home`: the configured
    data folder. Raises EmbeddedFault if no identity is possible.
    """
    euid = os.geteuid()
    if euid != ROOT:
        if _has_name(euid):
            return Identity(uid=euid, gid=os.getegid())
        return _mapped("this user id has no name on this machine")
    owner = data.stat() if data.exists() else None
    if owner is not None and owner.st_uid == ROOT:
        return _mapped(f"{data} belongs to root")
    try:
        nobody = pwd.getpwnam("nobody").pw_uid
    except KeyError:
        return _mapped("there is no user nobody")
    if owner is not None and owner.st_uid != nobody:
        switched = Identity(uid=owner.st_uid, gid=owner.st_gid, is_switched=True)
    else:
        switched = _owner_of(home)
    closed = [folder for path in reached if (folder := switched.closed_folder(path)) is not None]
    if not closed:
        return switched
    if owner is not None:
        raise EmbeddedFault(
            f"{data} belongs to user id {owner.st_uid}, but {closed[0]} is closed to that user"
        )
    return _mapped(f"{closed[0]} is closed to other users")


def _owner_of(home: Path) -> Identity:
    """Return the owner of a folder; an unused user id instead of root's."""
    status = home.stat()
    if status.st_uid != ROOT and _has_name(status.st_uid):
        return Identity(uid=status.st_uid, gid=status.st_gid, is_switched=True)
    start = zlib.crc32(os.fsencode(home))
    for step in range(len(PRIVATE_UIDS)):
        uid = PRIVATE_UIDS[(start + step) % len(PRIVATE_UIDS)]
        if not _has_name(uid):
            return Identity(uid=uid, gid=uid, is_switched=True)
    raise EmbeddedFault(f"every user id from {PRIVATE_UIDS[0]} to {PRIVATE_UIDS[-1]} is taken")


def _has_name(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return False
    return True


def _mapped(why: str) -> Identity:
    """Return this user under the name `nobody`, by a user namespace. Raises EmbeddedFault."""
    try:
        name = str(pwd.getpwnam("nobody").pw_uid)
        prefix = ("unshare", "--user", f"--map-user={name}", "--")
        subprocess.run(
            [*prefix, "true"], env=inherited(), capture_output=True, timeout=20, check=True
        )
    except (KeyError, OSError, subprocess.SubprocessError) as error:
        raise EmbeddedFault(
            f"PostgreSQL does not run as root, and there is no other way here: {why}, and user "
            "namespaces (unshare --user --map-user) are not allowed. Choose a data_dir (and an "
            "environment) that every user may enter, or run as an ordinary user, or give a "
            "database_url"
        ) from error
    return Identity(uid=os.geteuid(), gid=os.getegid(), prefix=prefix)
