"""Puts a file in place whole: a reader finds the old one or the new one, whatever happens."""

from __future__ import annotations

import os
import secrets
from contextlib import suppress
from pathlib import Path

from gw.cli.failures import CommandRefused
from gw.config.load import read_text


def replace_file(path: Path, text: str, *, before: str) -> None:
    """Write `text` in place of `before`, which a file has held, with the same rights.

    Raises CommandRefused when somebody has changed the file meanwhile, or it cannot be written.
    """
    target = path.resolve()  # what a link leads to, not the link
    if read_text(target) != before:
        raise CommandRefused(f"{path} was changed meanwhile: try again", "file_changed")
    _put(target, text, mode=target.stat().st_mode & 0o777)


def create_file(path: Path, text: str) -> None:
    """Write a file that was not there. Raises CommandRefused, also when it is there by now."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise CommandRefused(f"{path} cannot be written: {error.strerror}", "no_file") from None


def write_secrets(path: Path, text: str) -> None:
    """Write a file that its owner alone may read. Raises CommandRefused."""
    _put(path, text, mode=0o600)


def _put(path: Path, text: str, *, mode: int) -> None:
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        try:
            with os.fdopen(
                os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb"
            ) as file:
                file.write(text.encode("utf-8"))
                file.flush()
                os.fchmod(file.fileno(), mode)
                os.fsync(file.fileno())
            beside.replace(path)
        except BaseException:
            with suppress(FileNotFoundError):
                beside.unlink()
            raise
    except OSError as error:
        raise CommandRefused(f"{path} cannot be written: {error.strerror}", "no_file") from None
