"""The file of a dead process: its calls, read for recovery.

A file that was truncated or changed is read as far as it is intact, and put aside. What is not is
counted (`gw_recorder_damage_total`).
"""

from __future__ import annotations

import fcntl
import os
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from uuid import UUID

import msgspec

from actors.wallet.flight_recorder import file_format
from metrics.logs import EventLog

# Of the damaged files the newest are kept.
DAMAGED_KEPT = 4
# Limit of ownerless files per round; the rest waits for the next one.
FILES_AT_ONCE = 64

_LOG = EventLog("actors.recorder")


class Wreck:
    """The file of a dead process, locked, with each of its calls that is provably intact.

    `damage`: how many parts of it, head and slots, are not as they were written.
    """

    def __init__(
        self, path: Path, descriptor: int, calls: Mapping[UUID, file_format.Recorded], damage: int
    ) -> None:
        self._path = path
        self._descriptor = descriptor
        self.calls = calls
        self.damage = damage

    def remove(self) -> None:
        """Delete the file, or put it aside if it is damaged: all that it proves is settled."""
        try:
            if self.damage:
                _put_aside(self._path)
            else:
                self._path.unlink(missing_ok=True)
        except OSError as error:  # it is looked at again in the next round
            _LOG.error("recorder_not_removed", path=str(self._path), error=str(error))

    def close(self) -> None:
        """Release the lock."""
        os.close(self._descriptor)


def _put_aside(path: Path) -> None:
    path.rename(path.with_suffix(file_format.DAMAGED))
    aside = sorted(
        path.parent.glob("*" + file_format.DAMAGED), key=lambda one: one.lstat().st_mtime
    )
    for old in aside[:-DAMAGED_KEPT]:
        old.unlink(missing_ok=True)


class WreckTaken(Exception):
    """The file is locked: its process lives, or another one settles for it."""


def open_wreck(folder: Path, process_id: str) -> Wreck | None:
    """Open the file of a dead process of this host; None without one. Raises WreckTaken.

    Takes some 100 ms if all slots are used.
    """
    path = folder / file_format.FOLDER / (process_id + file_format.SUFFIX)
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)  # waits for no pipe
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        calls, damage = _calls_in(descriptor, process_id)
    except BlockingIOError:
        os.close(descriptor)
        raise WreckTaken from None
    except BaseException:
        os.close(descriptor)
        raise
    if damage:
        _LOG.error("recorder_damaged", path=str(path), parts=damage, calls=len(calls))
    return Wreck(path, descriptor, calls, damage)


def left_behind(folder: Path) -> list[str]:
    """Return the processes that have files, including live ones."""
    with suppress(OSError):
        names = sorted(entry.name for entry in os.scandir(folder / file_format.FOLDER))
        ours = [
            name.removesuffix(file_format.SUFFIX)
            for name in names
            if name.endswith(file_format.SUFFIX)
        ]
        return ours[:FILES_AT_ONCE]
    return []


def _calls_in(descriptor: int, process_id: str) -> tuple[dict[UUID, file_format.Recorded], int]:
    """Read the calls of the file, slot by slot; return them and the number of damaged parts."""
    head = _read(descriptor, file_format.HEAD.size + 4, 0)
    there = max(0, os.fstat(descriptor).st_size - file_format.PAGE_BYTES) // file_format.SLOT_BYTES
    slots, damage = min(there, file_format.SLOTS), 1
    if (
        len(head) == file_format.HEAD.size + 4
        and file_format.checked(head[: file_format.HEAD.size]) == head
    ):
        magic, stated, slot_bytes, name = file_format.HEAD.unpack_from(head)
        if (magic, slot_bytes, name.rstrip(b"\0")) != (
            file_format.MAGIC,
            file_format.SLOT_BYTES,
            process_id.encode(),
        ):
            return {}, 1  # of another form; or of another process, which may live
        slots, damage = min(stated, file_format.SLOTS), 0
    calls: dict[UUID, file_format.Recorded] = {}
    for number in range(slots):
        slot = _read(
            descriptor,
            file_format.SLOT_BYTES,
            file_format.PAGE_BYTES + number * file_format.SLOT_BYTES,
        )
        if len(slot) < file_format.SLOT_BYTES:
            damage += 1
            continue
        recorded, is_damaged = _recorded(slot)
        damage += is_damaged
        if recorded is not None:
            calls[recorded.call_id] = recorded
    return calls, damage


def _read(descriptor: int, size: int, at: int) -> bytes:
    """Read a part of the file; empty if the disk does not give it."""
    try:
        return os.pread(descriptor, size, at)
    except OSError:
        return b""


def _recorded(slot: bytes) -> tuple[file_format.Recorded | None, bool]:
    """Return the newest intact half that counts, if it is in use, and whether the slot is damaged.

    Of an interrupted write only the older half is not intact.
    """
    intact: list[tuple[int, bytes]] = []
    torn: list[int] = []
    for at in file_format.HALVES:
        turn, length, checksum = file_format.MARK.unpack_from(slot, at)
        payload = slot[at + file_format.MARK.size : at + file_format.MARK.size + length]
        if 0 < length <= file_format.ROOM and checksum == zlib.crc32(payload, turn):
            intact.append((turn, payload))
        else:
            torn.append(turn)
    newest, payload = max(intact, default=(0, b""))
    is_damaged = any(turn != max(0, newest - 1) for turn in torn) or (not intact and any(slot[:32]))
    count, turned = file_format.COUNT.unpack_from(slot)
    if count ^ turned != file_format.ALL_BITS:
        is_damaged = is_damaged or (count, turned) != (0, 0)
        count = 0
    elif count > file_format.TOKENS_MAX:
        count = 0
    given_back = file_format.GIVEN_BACK.unpack_from(slot, file_format.COUNT.size)
    if not intact or given_back == (newest, newest):
        return None, is_damaged
    try:
        what = file_format.DECODER.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None, True
    return file_format.Recorded(what, count), is_damaged
