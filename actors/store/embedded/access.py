"""The user that runs PostgreSQL's programs, since they refuse to run as root.

An ordinary user runs them as itself. Root runs them as the owner of the data folder or, if that is
root too, under a user id of their own: any other program that runs as `nobody` could read the data,
signal the server and change its rules. If a parent folder is closed to that user, root runs them in
a user namespace in which root is called `nobody`, so that all files stay root's. The permissions of
the user's folders are never changed. `cluster.py` decides what is run.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import hmac
import os
import pwd
import re
import secrets
import stat
import subprocess
import tempfile
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import psycopg2

from actors.store.queries import load
from metrics.environment import inherited

# The one error of the embedded PostgreSQL.


class EmbeddedFault(Exception):
    """The embedded PostgreSQL cannot run here; the message gives the reason and a remedy."""


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


def choose(data: Path, *, home: Path, reached: Iterable[Path]) -> Identity:
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


# Access to the embedded PostgreSQL: one role, which owns the database, by its password.
#
# The role is no superuser, and no superuser can log in. The password is in `data_dir`, readable by
# the owner of that folder and root; the server has only its verifier. To create the role, or to
# take over a cluster with trust authentication, `pg_hba.conf` admits the superuser for a moment,
# while only the server's user and root can enter the socket's folder. `cluster.py` starts the
# server.

SQL = load("actors.store.embedded", "access.sql")

SUPERUSER = "gateway"
ROLE = "gw"
DATABASE = "postgres"

PASSWORD_FILE = "postgres.password"
PASSWORD_BYTES = 32
# Iterations protect passwords that can be guessed. 256 random bits cannot, and each connection
# would spend that time in the event loop.
ITERATIONS = 1
SALT_BYTES = 16

ROLE_RULE = f"local all {ROLE} scram-sha-256"
CLOSED = f"""\
# Written by the gateway; the password is in {PASSWORD_FILE}.
{ROLE_RULE}
"""
OPEN = f"""\
# Written by the gateway, for the moment in which it makes the role {ROLE}.
local all {SUPERUSER} trust
"""


class Access:
    """Role, password and `pg_hba.conf` of the cluster in `folder/data`, run by `identity`."""

    def __init__(self, folder: Path, identity: Identity) -> None:
        self._rules = folder / "data" / "pg_hba.conf"
        self._password_file = folder.parent / PASSWORD_FILE
        self._identity = identity

    def __repr__(self) -> str:
        return f"<Access {'closed' if self.is_closed else 'open'}>"

    @property
    def is_closed(self) -> bool:
        """Whether the rules admit the gateway's role with its password.

        Only `close` writes that line; an operator may add others.
        """
        return ROLE_RULE in self._rules.read_text(encoding="utf-8", errors="replace").splitlines()

    @property
    def is_complete(self) -> bool:
        """Whether it is closed, and the password exists; without it `close` runs again."""
        return self.is_closed and self._password_file.exists()

    def url(self, sockets: Path) -> str:
        """Return the URL for the present rules. Raises EmbeddedFault."""
        user = f"{ROLE}:{quote(self._password(), safe='')}" if self.is_closed else SUPERUSER
        return f"postgresql://{user}@/{DATABASE}?host={quote(str(sockets), safe='')}"

    def open(self) -> None:
        """Admit the superuser; call it before the server starts, and `close` after."""
        self._write_rules(OPEN)

    def close(self, superuser_url: str) -> None:
        """Create the role, make it the owner of the database, and exclude all others."""
        if not self._password_file.exists():
            self._make_password()
        connection = psycopg2.connect(superuser_url)
        try:
            with connection, connection.cursor() as cursor:
                cursor.execute(SQL["make_role"])
                cursor.execute(SQL["set_role"], (scram_verifier(self._password()),))
                cursor.execute(SQL["own_database"])
                cursor.execute(SQL["own_objects"])
            self._write_rules(CLOSED)
            with connection, connection.cursor() as cursor:
                cursor.execute(SQL["read_rules"])
        finally:
            connection.close()

    def _password(self) -> str:
        try:
            return self._password_file.read_text(encoding="utf-8").strip()
        except FileNotFoundError:
            raise EmbeddedFault(
                f"{self._password_file} is missing: stop every process that uses this data_dir, "
                "and the next start makes another one"
            ) from None
        except (OSError, UnicodeError) as error:
            raise EmbeddedFault(f"{self._password_file} cannot be read: {error}") from error

    def _make_password(self) -> None:
        folder = self._password_file.parent.stat()
        text = secrets.token_urlsafe(PASSWORD_BYTES) + "\n"
        _write(self._password_file, text, uid=folder.st_uid, gid=folder.st_gid)

    def _write_rules(self, text: str) -> None:
        _write(self._rules, text, uid=self._identity.uid, gid=self._identity.gid)


def scram_verifier(password: str, *, iterations: int = ITERATIONS, salt: bytes = b"") -> str:
    """Return what the server stores to check a password, which cannot log in (RFC 5803)."""
    salt = salt or secrets.token_bytes(SALT_BYTES)
    salted = hashlib.pbkdf2_hmac("sha256", password.encode("utf-8"), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", "sha256")
    stored_key = hashlib.sha256(client_key).digest()
    server_key = hmac.digest(salted, b"Server Key", "sha256")
    salt64, stored64, server64 = (
        base64.b64encode(part).decode() for part in (salt, stored_key, server_key)
    )
    return f"SCRAM-SHA-256${iterations}:{salt64}${stored64}:{server64}"


def _write(path: Path, text: str, *, uid: int, gid: int) -> None:
    """Replace a file atomically by one that only its owner can read."""
    draft = path.with_name(f".{path.name}.new")
    draft.unlink(missing_ok=True)
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        if os.geteuid() == 0:
            os.fchown(descriptor, uid, gid)
        file.write(text)
        file.flush()
        os.fsync(descriptor)
    draft.replace(path)


# The folder of the server's Unix socket: beside the data, or else a short private folder.
#
# A socket's path is limited to about a hundred bytes, and commas and quotes have a meaning to
# PostgreSQL. The other folder is recorded in a file, so that every process finds it.

SOCKET_NAME = ".s.PGSQL.5432"
# macOS allows 103 bytes, Linux 107.
PATH_MAX_BYTES = 103
RECORD = "socket_folder"


def socket_folder(folder: Path, identity: Identity) -> Path:
    """Return the folder for the socket of the cluster in `folder`; create it if needed.

    Raises EmbeddedFault if no folder is short enough.
    """
    beside = folder / "run"
    if _fits(beside):
        identity.make_folder(beside)
        return beside
    remembered = _remembered(folder / RECORD, identity)
    if remembered is not None:
        return remembered
    for parent in (Path(tempfile.gettempdir()).absolute(), Path("/tmp")):
        if _fits(parent / "gw-pg-12345678") and identity.can_enter(parent):
            made = Path(tempfile.mkdtemp(prefix="gw-pg-", dir=parent))
            if identity.is_switched:
                os.chown(made, identity.uid, identity.gid)
            (folder / RECORD).write_text(str(made))
            return made
    raise EmbeddedFault(
        f"the path of {folder} is too long for a Unix socket; choose a shorter data_dir"
    )


def remove_stale_lock(sockets: Path) -> None:
    """Remove a killed server's lock file; call it only without a running server.

    Its process number, as that in `postmaster.pid`, may be another process's by now.
    """
    (sockets / f"{SOCKET_NAME}.lock").unlink(missing_ok=True)


def remove_socket_folder(folder: Path) -> None:
    """Remove the socket's other folder, if there is one, after the server has stopped."""
    record = folder / RECORD
    try:
        made = Path(record.read_text())
        made.rmdir()
    except OSError:
        return  # none, or not empty: it is small and private, and is used again
    record.unlink()


def _fits(folder: Path) -> bool:
    path = str(folder / SOCKET_NAME)
    is_plain = re.fullmatch(r"[A-Za-z0-9_./ +=@:-]*", path) is not None
    return is_plain and len(os.fsencode(path)) <= PATH_MAX_BYTES


def _remembered(record: Path, identity: Identity) -> Path | None:
    try:
        folder = Path(record.read_text())
        status = folder.lstat()
    except OSError:
        return None
    # Another user may have created this name in a shared folder after the first one was removed.
    is_private = status.st_uid == identity.uid and status.st_mode & 0o7777077 == 0o40000
    return folder if is_private else None


# Counts the processes that share one embedded PostgreSQL, by locks that end with their processes.
#
# Each process has a shared lock on one file while it uses the server; starting and stopping need an
# exclusive lock on another file. `cluster.py` starts the server.

POLL_SECONDS = 0.02


class Users:
    """The registration of one process as a user of the server in `data_dir`."""

    def __init__(self, data_dir: Path, *, timeout_seconds: float = 90.0) -> None:
        self._busy_file = data_dir / "postgres.lock"
        self._users_file = data_dir / "postgres.users"
        self._timeout_seconds = timeout_seconds
        self._descriptor: int | None = None

    def __repr__(self) -> str:
        return f"<Users {'joined' if self._descriptor is not None else 'not joined'}>"

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Exclude other processes from starting or stopping the server. Raises EmbeddedFault."""
        descriptor = _opened(self._busy_file)
        try:
            deadline = time.monotonic() + self._timeout_seconds
            while not _locked(descriptor, fcntl.LOCK_EX):
                if time.monotonic() > deadline:
                    raise EmbeddedFault(
                        f"another process has been starting or stopping PostgreSQL for more than "
                        f"{self._timeout_seconds:.0f} s ({self._busy_file})"
                    )
                time.sleep(POLL_SECONDS)
            yield
        finally:
            os.close(descriptor)

    def join(self) -> bool:
        """Register; return whether other processes are registered. Call it inside `alone`."""
        if self._descriptor is None:
            self._descriptor = _opened(self._users_file)
        is_only_one = _locked(self._descriptor, fcntl.LOCK_EX)
        # Only a process inside `alone` requests an exclusive lock.
        fcntl.flock(self._descriptor, fcntl.LOCK_SH)
        return not is_only_one

    def leave(self) -> bool:
        """Unregister, inside `alone`; return whether no user is left."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is None:
            return False
        try:
            return _locked(descriptor, fcntl.LOCK_EX)
        finally:
            os.close(descriptor)


def _opened(path: Path) -> int:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise EmbeddedFault(f"{path} cannot be opened: {error.strerror}") from error
    owner = path.parent.stat()
    if os.geteuid() == 0 and os.fstat(descriptor).st_uid != owner.st_uid:
        os.fchown(descriptor, owner.st_uid, owner.st_gid)  # root must not lock the owner out
    return descriptor


def _locked(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
