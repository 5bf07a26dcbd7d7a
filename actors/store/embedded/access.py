"""Access to the embedded PostgreSQL: one role, which owns the database, by its password.

The role is no superuser, and no superuser can log in. The password is in `data_dir`, readable by
the owner of that folder and root; the server has only its verifier. To create the role, or to
take over a cluster with trust authentication, `pg_hba.conf` admits the superuser for a moment,
while only the server's user and root can enter the socket's folder. `cluster.py` starts the
server.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import secrets
from pathlib import Path
from urllib.parse import quote

import psycopg2

from actors.store.embedded.errors import EmbeddedFault
from actors.store.embedded.identity import Identity
from actors.store.queries import load

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
