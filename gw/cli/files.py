"""Files that a command writes atomically: a reader finds the old content or the new one."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from gw.cli.failures import CommandRefused
from gw.config.load import read_text


def replace_file(path: Path, text: str, *, before: str) -> None:
    """Replace a file's text `before` by `text`, with the same mode.

    Raises CommandRefused if the file was changed meanwhile, or cannot be written.
    """
    target = path.resolve()  # the target of a link, not the link
    if read_text(target) != before:
        raise CommandRefused(f"{path} was changed meanwhile: try again", "file_changed")
    _put_or_refuse(target, text, mode=target.stat().st_mode & 0o777)


def create_file(path: Path, text: str) -> None:
    """Write a new file. Raises CommandRefused, also if it exists."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise CommandRefused(f"{path} cannot be written: {error.strerror}", "no_file") from None


def write_secrets(path: Path, text: str) -> None:
    """Write a file that only its owner can read. Raises CommandRefused."""
    _put_or_refuse(path, text, mode=0o600)


def put_file(path: Path, text: str, *, mode: int) -> None:
    """Put a text in the place of a file, whether it is there or not. Raises OSError."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(text.encode("utf-8"))
            file.flush()
            os.fchmod(file.fileno(), mode)
            os.fsync(file.fileno())
        beside.replace(path)
    except BaseException:
        with suppress(FileNotFoundError):
            beside.unlink()
        raise


def _put_or_refuse(path: Path, text: str, *, mode: int) -> None:
    try:
        put_file(path, text, mode=mode)
    except OSError as error:
        raise CommandRefused(f"{path} cannot be written: {error.strerror}", "no_file") from None
