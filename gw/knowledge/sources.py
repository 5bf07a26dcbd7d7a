"""Source documents as files below one folder, and their signed links.

A link needs no key until it expires: the signature proves that the gateway made it, and every
process signs with the same secret.
"""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Collection
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Protocol
from urllib.parse import quote

from actors.media_store.links import LinkSigner

LINKS = "/api/v1/ext/wiki/sources"
ROOT = "kb"


def r2_key(account_id: str, sha256: str, filename: str) -> str:
    """Return the name of a source, equal for equal account, file and file name."""
    return f"{ROOT}/{account_id}/{sha256}/{filename}"


def account_of(name: str) -> str:
    """Return the account of a source, by its name."""
    return name.split("/")[1]


def disposition(name: str) -> str:
    """Return the `Content-Disposition` of a source: a download under its own name."""
    return f"attachment; filename*=UTF-8''{quote(PurePosixPath(name).name, safe='')}"


class SourceStore(Protocol):
    """A storage of sources. Every method blocks and raises OSError."""

    def put(self, name: str, file: Path, sha256: str) -> None:
        """Store a file under a name with its hash, unless it exists."""

    def fetch(self, name: str, target: Path) -> None:
        """Write a source into a file."""

    def keep_only(self, account_id: str, names: Collection[str]) -> None:
        """Delete every other source of an account."""


class Sources:
    """The files below `folder`, by their names: a SourceStore."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def path(self, name: str) -> Path:
        """Return the path of a source, which may be missing."""
        return self._folder / name

    def put(self, name: str, file: Path, sha256: str) -> None:
        """See SourceStore."""
        path = self.path(name)
        for folder in reversed(path.relative_to(self._folder).parents[:-1]):
            (self._folder / folder).mkdir(parents=True, exist_ok=True)
            (self._folder / folder).chmod(0o700)
        self._folder.chmod(0o700)
        if path.exists():
            path.chmod(0o600)  # an earlier version made it readable for others
            return
        draft = path.parent / f".{sha256[:16]}.{secrets.token_hex(4)}"
        try:
            private = partial(os.open, mode=0o600)
            with file.open("rb") as source, open(draft, "xb", opener=private) as target:
                shutil.copyfileobj(source, target)
                target.flush()
                os.fsync(target.fileno())
            draft.replace(path)
        finally:
            draft.unlink(missing_ok=True)

    def fetch(self, name: str, target: Path) -> None:
        """See SourceStore."""
        shutil.copyfile(self.path(name), target)

    def keep_only(self, account_id: str, names: Collection[str]) -> None:
        """See SourceStore."""
        top = self._folder / ROOT / account_id
        for folder, _, files in os.walk(top, topdown=False):
            for file in files:
                path = Path(folder) / file
                if path.relative_to(self._folder).as_posix() not in names:
                    path.unlink(missing_ok=True)
            if not os.listdir(folder):
                os.rmdir(folder)


class SourceLinks:
    """Makes links and validates them, with keys of 32 bytes; the first one signs."""

    def __init__(self, *keys: bytes, public_url: str) -> None:
        self._signer = LinkSigner(*keys)
        self._public_url = public_url

    def link(self, name: str, *, base_url: str, expires_at: int) -> str:
        """Return the link to a source, valid until `expires_at` (Unix seconds)."""
        query = self._signer.query(name, expires_at)
        return f"{self._public_url or base_url}{LINKS}/{quote(name)}?{query}"

    def is_genuine(self, name: str, expires: str, signature: str) -> bool:
        """Whether the link was made by the gateway; it may have expired."""
        return self._signer.is_genuine(name, expires, signature)
