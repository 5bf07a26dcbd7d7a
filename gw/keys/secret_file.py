"""The file of a secret that was not configured: made once under the data folder, mode 0600.

Any number of processes may ask at the same moment; all get the same secret. What it is used for is
`secret.py`.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

FILE_NAME = "secret"
MODE = 0o600
RANDOM_BYTES = 32


class SecretFault(Exception):
    """The secret of the data folder cannot be read or made; the message says which and why."""


def read_or_make(data_dir: Path) -> str:
    """Return the secret kept in `data_dir`; make it, and the folder, when there is none.

    Raises SecretFault.
    """
    path = data_dir / FILE_NAME
    try:
        return _read(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise SecretFault(f"{path} cannot be read: {error.strerror}") from error
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        _make(path)
        return _read(path)
    except OSError as error:
        raise SecretFault(f"{path} cannot be made: {error.strerror}") from error


def _read(path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8").strip()
    except UnicodeDecodeError as error:
        raise SecretFault(f"{path} is not text") from error
    if not text:
        raise SecretFault(f"{path} is empty: put the lost secret back, or remove the file")
    return text


def _make(path: Path) -> None:
    """Write a whole file beside it, then give it the name, which only the first one gets."""
    draft = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, MODE)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(secrets.token_hex(RANDOM_BYTES) + "\n")
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(draft, path)
        except FileExistsError:
            return  # another process was faster: its secret is the one
        _sync_folder(path.parent)
    finally:
        draft.unlink()


def _sync_folder(folder: Path) -> None:
    """Make the name last: keys stored under a secret that a power cut takes are lost for good."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
