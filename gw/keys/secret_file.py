"""The file of a generated secret: created once in the data folder, mode 0600.

Any number of processes may create it at the same time; all read the same secret.
"""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from channels.files import read_regular

FILE_NAME = "secret"
MODE = 0o600
RANDOM_BYTES = 32


class SecretFault(Exception):
    """The secret of the data folder cannot be read or created; the message has file and reason."""


def read_or_make(data_dir: Path) -> str:
    """Return the secret kept in `data_dir`; create it, and the folder, if missing.

    Raises SecretFault.
    """
    if made := read_if_made(data_dir):
        return made
    path = data_dir / FILE_NAME
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        _make(path)
        return _read(path)
    except OSError as error:
        raise SecretFault(f"{path} cannot be made: {error.strerror}") from error


def read_if_made(data_dir: Path) -> str:
    """Return the secret kept in `data_dir`, "" before it is created. Raises SecretFault."""
    path = data_dir / FILE_NAME
    try:
        return _read(path)
    except FileNotFoundError:
        return ""
    except OSError as error:
        raise SecretFault(f"{path} cannot be read: {error.strerror}") from error


def _read(path: Path) -> str:
    try:
        text = read_regular(path).decode("utf-8").strip()
    except UnicodeDecodeError as error:
        raise SecretFault(f"{path} is not text") from error
    if not text:
        raise SecretFault(f"{path} is empty: put the lost secret back, or remove the file")
    return text


def _make(path: Path) -> None:
    """Write a temporary file, then link it to the name, which succeeds once."""
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
            return  # another process was faster: its secret is used
        _sync_folder(path.parent)
    finally:
        draft.unlink()


def _sync_folder(folder: Path) -> None:
    """Make the name durable: keys stored under a secret lost in a power cut are lost for good."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
