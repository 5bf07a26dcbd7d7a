"""The flight recorder of a process: the calls it admitted, what they have delivered, and how those
ended that the database does not know of yet.

A memory-mapped file under `data_dir`. It outlives its process but not its host, so it is not
synced: what was stored before a `kill -9` is read by recovery on the same host
(`actors/recovery.py`, `wreck.py`), under the lock of the file, which the kernel releases when its
owner ends. Blocks are allocated when the file is made, so that a write never meets a full disk.

What is too long for a slot loses what its cost does not depend on. A call that finds no slot is
counted (`gw_calls_unrecorded_total`) and recovered from the database alone, as is every call of a
process that could not make its file.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from uuid import UUID

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from actors.wallet import messages
from actors.wallet.flight_recorder import file_format
from actors.wallet.flight_recorder.file_format import encode
from actors.wallet.storable import clean_json, encode_json
from metrics.logs import EventLog
from metrics.prometheus import Metrics

# What is too long for a slot keeps of its receipt what the cost depends on, and this much of an
# error; at last, this much of a name.
ERROR_CHARACTERS_MAX = 200
NAME_CHARACTERS_MAX = 100
PRICED_BY = frozenset(
    {
        *("price", "account_price", "hold", "estimate", "basis", "units", "cache_write", "parts"),
        "served",
    }
)


_LOG = EventLog("actors.recorder")


class Slot(Struct, eq=False, gc=False):
    """The place of a call in the file: its offset, and the last sequence number stored there.

    `begun`: the hold of a call under way, if it was admitted in memory.
    """

    at: int
    turn: int = 0
    begun: file_format.Begun | None = None


class Recorder:
    """Writes what happens to the calls of this process. Without a file it does nothing."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._file: mmap.mmap | None = None
        self._descriptor = -1
        self._path: Path | None = None
        self._free: list[Slot] = []
        self._slots: dict[int, Slot] = {}

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def is_up(self) -> bool:
        """Whether there is a file, so that what calls have delivered outlives the process."""
        return self._file is not None

    def open(self, folder: Path, process_id: str, *, slots: int = file_format.SLOTS) -> bool:
        """Make the file of this process; on failure log it, set the metric and return False."""
        path = folder / file_format.FOLDER / (process_id + file_format.SUFFIX)
        size = file_format.PAGE_BYTES + slots * file_format.SLOT_BYTES
        head = file_format.HEAD.pack(
            file_format.MAGIC, slots, file_format.SLOT_BYTES, process_id.encode()
        )
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._descriptor, self._file = _made(path, size, file_format.checked(head))
        except (OSError, ValueError) as error:
            _LOG.error("recorder_unavailable", path=str(path), error=str(error))
            self._metrics.recovery.recorder_up(False)
            return False
        self._path = path
        # Slots are reused last in, first out, so that few pages are touched.
        self._free = [
            Slot(at) for at in range(file_format.PAGE_BYTES, size, file_format.SLOT_BYTES)
        ][::-1]
        self._metrics.recovery.recorder_up(True)
        return True

    def close(self) -> None:
        """Close the recorder and delete its file, unless a call is not settled."""
        if self._file is None:
            return
        if not self._slots and self._path is not None:
            self._path.unlink(missing_ok=True)
        self._file.close()
        os.close(self._descriptor)  # releases the lock
        self._file = None

    def admitted(self, admitted: messages.Admitted) -> None:
        """Record a call that was admitted in memory."""
        hold = admitted.hold
        begun = file_format.Begun(
            hold.facts, hold.amount_nano_usd, admitted.identity, hold.detail, admitted.budgets
        )
        self._store(hold.facts.call_id, begun, begun)

    def delivers(self, call_id: UUID, delivered: Mapping[str, Any]) -> int | None:
        """Record the first byte of a stream; return its slot for `counts`, or None without one."""
        known = self._slots.get(call_id.int)
        begun = None if known is None else known.begun
        slot = self._store(
            call_id,
            file_format.StreamProgress(call_id=call_id, delivered=delivered, begun=begun),
            begun,
        )
        if slot is None:
            return None
        self.counts(slot.at, 0)
        return slot.at

    def counts(self, slot: int, output_tokens: int) -> None:
        """Record how many tokens of the stream in this slot were sent."""
        if self._file is not None:
            self._file[slot : slot + 16] = file_format.COUNT.pack(
                output_tokens, output_tokens ^ file_format.ALL_BITS
            )

    def settled(self, settle: messages.Settle, outcome: messages.Outcome) -> None:
        """Record how a call has ended, before its settlement is committed.

        Except a call with an idempotency key, whose client gets nothing before the commit and must
        not pay for a lost response, and that of a job, whose hold outlives the process.
        """
        facts, admitted = settle.facts, settle.admitted
        if settle.claim_end is not None or facts.job_id is not None:
            return
        if admitted is None:
            ended = file_format.Ended(facts, outcome)
        else:
            held, identity = admitted.hold.amount_nano_usd, admitted.identity
            ended = file_format.Ended(facts, outcome, held, identity, admitted.budgets)
        self._store(facts.call_id, ended)

    def forget(self, settled: Iterable[messages.Settle]) -> None:
        """Release the slots of calls that the database has settled."""
        slots, file = self._slots, self._file
        if file is None or not slots:
            return
        for settle in settled:
            slot = slots.pop(settle.facts.call_id.int, None)
            if slot is not None:
                file[slot.at + 16 : slot.at + 32] = file_format.GIVEN_BACK.pack(
                    slot.turn, slot.turn
                )
                self._free.append(slot)

    def _store(
        self,
        call_id: UUID,
        what: file_format.Begun | file_format.StreamProgress | file_format.Ended,
        begun: file_format.Begun | None = None,
    ) -> Slot | None:
        """Write the older half, and its mark last, which makes it valid."""
        file = self._file
        if file is None:
            return None
        payload = _encoded(what)
        length = len(payload)
        if length > file_format.ROOM:
            payload = _shortened(what)
            length = len(payload)
        slot = self._slots.get(call_id.int)
        if length > file_format.ROOM or (slot is None and not self._free):
            self._metrics.recovery.unrecorded()
            return None
        if slot is None:
            slot = self._slots[call_id.int] = self._free.pop()
        slot.begun = begun
        turn = slot.turn = slot.turn + 1
        mark = slot.at + file_format.HALVES[turn & 1]
        start = mark + file_format.MARK.size
        file[start : start + length] = payload
        file[mark:start] = file_format.MARK.pack(turn, length, zlib.crc32(payload, turn))
        return slot


def _encoded(what: file_format.Begun | file_format.StreamProgress | file_format.Ended) -> bytes:
    try:
        return encode(what)
    except (UnicodeEncodeError, OverflowError):  # a lone surrogate; an integer beyond 64 bits
        built = msgspec.to_builtins(what, enc_hook=msgspec.json.decode)  # of `Raw`
        return encode_json(clean_json(built))


def _made(path: Path, size: int, head: bytes) -> tuple[int, mmap.mmap]:
    """Make a file and lock it; it gets its name when it is whole. Raises OSError, ValueError."""
    unfinished = path.with_suffix(file_format.UNFINISHED)
    descriptor = os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.posix_fallocate(descriptor, 0, size)
        file = mmap.mmap(descriptor, size)
        file[: len(head)] = head
        os.link(unfinished, path)
    except BaseException:
        os.close(descriptor)
        raise
    finally:
        unfinished.unlink()
    return descriptor, file


def _shortened(what: file_format.Begun | file_format.StreamProgress | file_format.Ended) -> bytes:
    """Encode with as much as fits into a slot what is too long for one."""
    payload = b""
    for shorten in (_without_attempts, _without_links, _without_receipt):
        what = shorten(what)
        payload = _encoded(what)
        if len(payload) <= file_format.ROOM:
            break
    return payload


def _without_attempts(
    what: file_format.Begun | file_format.StreamProgress | file_format.Ended,
) -> file_format.Begun | file_format.StreamProgress | file_format.Ended:
    """Keep of errors the beginning, and of receipts what costs depend on."""
    if isinstance(what, file_format.Begun):
        return replace(what, detail=_priced(what.detail))
    if isinstance(what, file_format.StreamProgress):
        detail = _priced(what.delivered.get("detail")) or {}
        begun = what.begun and replace(what.begun, detail=_priced(what.begun.detail))
        return replace(what, delivered={**what.delivered, "detail": detail}, begun=begun)
    message = what.outcome.error_message
    return replace(
        what,
        outcome=replace(
            what.outcome,
            attempts=(),
            error_message=None if message is None else message[:ERROR_CHARACTERS_MAX],
            detail=_priced(what.outcome.detail),
        ),
    )


def _without_links(
    what: file_format.Begun | file_format.StreamProgress | file_format.Ended,
) -> file_format.Begun | file_format.StreamProgress | file_format.Ended:
    if isinstance(what, file_format.Ended):
        return replace(what, outcome=replace(what.outcome, result_urls=(), result_expires_at=None))
    return what


def _without_receipt(
    what: file_format.Begun | file_format.StreamProgress | file_format.Ended,
) -> file_format.Begun | file_format.StreamProgress | file_format.Ended:
    """Keep cost, counts, account, key, hold, models and status, which always fit."""
    if isinstance(what, file_format.Begun):
        return replace(what, facts=_short_names(what.facts), detail=None)
    if isinstance(what, file_format.StreamProgress):
        begun = what.begun and replace(
            what.begun, facts=_short_names(what.begun.facts), detail=None
        )
        detail = what.delivered.get("detail") or {}
        kept = {"served": detail["served"]} if "served" in detail else {}
        return replace(what, delivered={**what.delivered, "detail": kept}, begun=begun)
    outcome = replace(
        what.outcome,
        error_code=_short(what.outcome.error_code),
        error_message=None,
        channel_id=_short(what.outcome.channel_id),
        detail=None,
    )
    return replace(what, facts=_short_names(what.facts), outcome=outcome)


def _short_names(facts: messages.CallFacts) -> messages.CallFacts:
    return replace(facts, model=facts.model[:NAME_CHARACTERS_MAX], made_id=_short(facts.made_id))


def _short(name: str | None) -> str | None:
    return None if name is None else name[:NAME_CHARACTERS_MAX]


def _priced(detail: Mapping[str, Any] | Raw | None) -> dict[str, Any] | None:
    """Keep of a receipt what its cost depends on."""
    if detail is None:
        return None
    found = msgspec.json.decode(detail) if isinstance(detail, Raw) else detail
    return {name: value for name, value in found.items() if name in PRICED_BY}
