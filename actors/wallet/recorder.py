"""The flight recorder of a process: the calls it admitted, what they have delivered, and how those
ended that the database does not know of yet.

A memory-mapped file under `data_dir`. It outlives its process but not its host, so it is not
synced: what was stored before a `kill -9` is read by recovery on the same host
(`actors/recovery.py`), under the lock of the file, which the kernel releases when its owner ends.

The file has a page for the head, then slots of equal size. A slot has two halves written
alternately, each with a sequence number and a checksum: an interrupted write leaves the other half
intact. The head of a slot has the number of output tokens sent, which changes with every read of a
stream, or the mark that a whole response is written, and the sequence number at which the slot was
released. Blocks are allocated when the file is made, so that a write never meets a full disk.

What is too long for a slot loses what its cost does not depend on. A call that finds no slot is
counted (`gw_calls_unrecorded_total`) and recovered from the database alone, as is every call of a
process that could not make its file.

A file that was truncated or changed is read as far as it is intact, and put aside. What is not is
counted (`gw_recorder_damage_total`).
"""

from __future__ import annotations

import fcntl
import mmap
import os
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from struct import Struct as Layout
from typing import Any
from uuid import UUID

import msgspec
from msgspec import Raw, Struct
from msgspec.structs import replace

from actors.wallet.batch import clean_json, encode_json
from actors.wallet.messages import Admitted, CallFacts, Outcome, Settle
from metrics.logs import EventLog
from metrics.prometheus import Metrics

FOLDER, SUFFIX = "recorder", ".calls"
# Names of a file that is being made, and of one that was put aside because it was damaged; of the
# latter the newest are kept.
UNFINISHED, DAMAGED = ".new", ".damaged"
DAMAGED_KEPT = 4
MAGIC = b"gwcalls1"
PAGE_BYTES = 4096
# For streams under way, and calls whose settlement waits for an unreachable database.
SLOTS = 16_384
# A settlement usually takes 500 to 1,000 bytes.
SLOT_BYTES = 4096
HALF_BYTES = 2032
# What is too long for a slot keeps of its receipt what the cost depends on, and this much of an
# error; at last, this much of a name.
ERROR_CHARACTERS_MAX = 200
NAME_CHARACTERS_MAX = 100
PRICED_BY = frozenset(
    {"price", "account_price", "hold", "estimate", "basis", "units", "cache_write", "parts"}
)
# Limit of ownerless files per round; the rest waits for the next one.
FILES_AT_ONCE = 64

_HEAD = Layout("<8sII64s")  # magic, slots, bytes of a slot, name of the process
# Of 16 bytes at multiples of 16, which are stored by one instruction: a kill leaves all or nothing.
_MARK = Layout("<QII")  # of a half: sequence number, length, checksum seeded with the number
_COUNT = Layout("<QQ")  # tokens, and the same with all bits inverted
_ALL_BITS = 2**64 - 1
_WRITTEN = 2**63  # in the place of the tokens, with a sequence number: that settlement counts
_GIVEN_BACK = Layout("<QQ")  # the last sequence number when the slot was released, twice
_HALVES = (32, 32 + HALF_BYTES)
_ROOM = HALF_BYTES - _MARK.size

_LOG = EventLog("actors.recorder")


class Begun(Struct, frozen=True, omit_defaults=True, tag="admitted"):
    """The hold of a call admitted from a lease of the process under this identity."""

    facts: CallFacts
    amount_nano_usd: int
    identity: str
    detail: Mapping[str, Any] | None = None


class Progress(Struct, frozen=True, kw_only=True, tag="delivered"):
    """What a stream had delivered with its first byte, as the heartbeat reports it.

    `begun`: its hold, if it was admitted in memory.
    """

    call_id: UUID
    delivered: Mapping[str, Any]
    begun: Begun | None = None


class Ended(Struct, frozen=True, omit_defaults=True, tag="settled"):
    """How a call ended; `held` by `identity` is its hold if that was not written by then."""

    facts: CallFacts
    outcome: Outcome
    held: int | None = None
    identity: str = ""
    awaits_write: bool = False  # counts once its slot is marked; until then, what was before it


class Recorded(Struct, frozen=True):
    """What is known of a call of a dead process; `output_tokens` were sent of a stream."""

    what: Begun | Progress | Ended
    output_tokens: int

    @property
    def call_id(self) -> UUID:
        """The id of the call."""
        return self.what.call_id if isinstance(self.what, Progress) else self.what.facts.call_id

    @property
    def account_id(self) -> str:
        """The account of the call, or "" if it is unknown."""
        what = self.begun if isinstance(self.what, Progress) else self.what
        return "" if what is None else what.facts.account_id

    @property
    def begun(self) -> Begun | None:
        """The hold of a call that was under way and may not be written."""
        if isinstance(self.what, Progress):
            return self.what.begun
        return self.what if isinstance(self.what, Begun) else None


class Slot(Struct, eq=False, gc=False):
    """The place of a call in the file: its offset, and the last sequence number stored there.

    `begun`: the hold of a call under way, if it was admitted in memory.
    """

    at: int
    turn: int = 0
    begun: Begun | None = None


_encode = msgspec.json.Encoder().encode
_DECODER = msgspec.json.Decoder(Begun | Progress | Ended)


class Recorder:
    """Writes what happens to the calls of this process. Without a file it does nothing."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._file: mmap.mmap | None = None
        self._descriptor = -1
        self._path: Path | None = None
        self._free: list[Slot] = []
        self._slots: dict[int, Slot] = {}

    def __repr__(self) -> str:
        return f"<Recorder {self._path} {len(self._slots)} calls>"

    def __len__(self) -> int:
        return len(self._slots)

    @property
    def is_up(self) -> bool:
        """Whether there is a file, so that what calls have delivered outlives the process."""
        return self._file is not None

    def open(self, folder: Path, process_id: str, *, slots: int = SLOTS) -> bool:
        """Make the file of this process; on failure log it, set the metric and return False."""
        path = folder / FOLDER / (process_id + SUFFIX)
        size = PAGE_BYTES + slots * SLOT_BYTES
        head = _HEAD.pack(MAGIC, slots, SLOT_BYTES, process_id.encode())
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._descriptor, self._file = _made(path, size, _checked(head))
        except (OSError, ValueError) as error:
            _LOG.error("recorder_unavailable", path=str(path), error=str(error))
            self._metrics.recovery.recorder_up(False)
            return False
        self._path = path
        # Slots are reused last in, first out, so that few pages are touched.
        self._free = [Slot(at) for at in range(PAGE_BYTES, size, SLOT_BYTES)][::-1]
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

    def admitted(self, admitted: Admitted) -> None:
        """Record a call that was admitted in memory."""
        hold = admitted.hold
        begun = Begun(hold.facts, hold.amount_nano_usd, admitted.identity, hold.detail)
        self._store(hold.facts.call_id, begun, begun)

    def delivers(self, call_id: UUID, delivered: Mapping[str, Any]) -> int | None:
        """Record the first byte of a stream; return its slot for `counts`, or None without one."""
        known = self._slots.get(call_id.int)
        begun = None if known is None else known.begun
        slot = self._store(
            call_id, Progress(call_id=call_id, delivered=delivered, begun=begun), begun
        )
        if slot is None:
            return None
        self.counts(slot.at, 0)
        return slot.at

    def counts(self, slot: int, output_tokens: int) -> None:
        """Record how many tokens of the stream in this slot were sent."""
        if self._file is not None:
            self._file[slot : slot + 16] = _COUNT.pack(output_tokens, output_tokens ^ _ALL_BITS)

    def settled(
        self, settle: Settle, outcome: Outcome, *, awaits_write: bool = False
    ) -> Callable[[], None] | None:
        """Record how a call has ended, before its settlement is committed.

        Except a call with an idempotency key, whose client gets nothing before the commit and must
        not pay for a lost response, and that of a job, whose hold outlives the process.

        If its response `awaits_write`, returns what to call right before that: the record counts
        from then on.
        """
        facts, admitted = settle.facts, settle.admitted
        if settle.claim_end is not None or facts.job_id is not None:
            return None
        if admitted is None:
            ended = Ended(facts, outcome, awaits_write=awaits_write)
        else:
            held, identity = admitted.hold.amount_nano_usd, admitted.identity
            ended = Ended(facts, outcome, held, identity, awaits_write)
        slot = self._store(facts.call_id, ended)
        return partial(self._written, slot) if awaits_write and slot is not None else None

    def _written(self, slot: Slot) -> None:
        if self._file is not None:
            mark = _WRITTEN | slot.turn
            self._file[slot.at : slot.at + 16] = _COUNT.pack(mark, mark ^ _ALL_BITS)

    def forget(self, settled: Iterable[Settle]) -> None:
        """Release the slots of calls that the database has settled."""
        slots, file = self._slots, self._file
        if file is None or not slots:
            return
        for settle in settled:
            slot = slots.pop(settle.facts.call_id.int, None)
            if slot is not None:
                file[slot.at + 16 : slot.at + 32] = _GIVEN_BACK.pack(slot.turn, slot.turn)
                self._free.append(slot)

    def _store(
        self, call_id: UUID, what: Begun | Progress | Ended, begun: Begun | None = None
    ) -> Slot | None:
        """Write the older half, and its mark last, which makes it valid."""
        file = self._file
        if file is None:
            return None
        payload = _fitting(what)
        length = len(payload)
        slot = self._slots.get(call_id.int)
        if length > _ROOM or (slot is None and not self._free):
            self._metrics.recovery.unrecorded()
            return None
        if slot is None:
            slot = self._slots[call_id.int] = self._free.pop()
        slot.begun = begun
        turn = slot.turn = slot.turn + 1
        mark = slot.at + _HALVES[turn & 1]
        start = mark + _MARK.size
        file[start : start + length] = payload
        file[mark:start] = _MARK.pack(turn, length, zlib.crc32(payload, turn))
        return slot


def _encoded(what: Begun | Progress | Ended) -> bytes:
    try:
        return _encode(what)
    except (UnicodeEncodeError, OverflowError):  # a lone surrogate; an integer beyond 64 bits
        built = msgspec.to_builtins(what, enc_hook=msgspec.json.decode)  # of `Raw`
        return encode_json(clean_json(built))


def _made(path: Path, size: int, head: bytes) -> tuple[int, mmap.mmap]:
    """Make a file and lock it; it gets its name when it is whole. Raises OSError, ValueError."""
    unfinished = path.with_suffix(UNFINISHED)
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


def _checked(head: bytes) -> bytes:
    return head + zlib.crc32(head).to_bytes(4, "little")


def _fitting(what: Begun | Progress | Ended) -> bytes:
    """Encode with as much as fits into a slot."""
    payload = _encoded(what)
    for shorten in (_without_attempts, _without_links, _without_receipt):
        if len(payload) <= _ROOM:
            break
        what = shorten(what)
        payload = _encoded(what)
    return payload


def _without_attempts(what: Begun | Progress | Ended) -> Begun | Progress | Ended:
    """Keep of errors the beginning, and of receipts what costs depend on."""
    if isinstance(what, Begun):
        return replace(what, detail=_priced(what.detail))
    if isinstance(what, Progress):
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


def _without_links(what: Begun | Progress | Ended) -> Begun | Progress | Ended:
    if isinstance(what, Ended):
        return replace(what, outcome=replace(what.outcome, result_urls=(), result_expires_at=None))
    return what


def _without_receipt(what: Begun | Progress | Ended) -> Begun | Progress | Ended:
    """Keep cost, counts, account, key, hold, model and status, which always fit."""
    if isinstance(what, Begun):
        return replace(what, facts=_short_names(what.facts), detail=None)
    if isinstance(what, Progress):
        begun = what.begun and replace(
            what.begun, facts=_short_names(what.begun.facts), detail=None
        )
        return replace(what, delivered={**what.delivered, "detail": {}}, begun=begun)
    outcome = replace(
        what.outcome,
        error_code=_short(what.outcome.error_code),
        error_message=None,
        channel_id=_short(what.outcome.channel_id),
        detail=None,
    )
    return replace(what, facts=_short_names(what.facts), outcome=outcome)


def _short_names(facts: CallFacts) -> CallFacts:
    return replace(facts, model=facts.model[:NAME_CHARACTERS_MAX], made_id=_short(facts.made_id))


def _short(name: str | None) -> str | None:
    return None if name is None else name[:NAME_CHARACTERS_MAX]


def _priced(detail: Mapping[str, Any] | Raw | None) -> dict[str, Any] | None:
    """Keep of a receipt what its cost depends on."""
    if detail is None:
        return None
    found = msgspec.json.decode(detail) if isinstance(detail, Raw) else detail
    return {name: value for name, value in found.items() if name in PRICED_BY}


# Reading the file of a dead process.


class Wreck:
    """The file of a dead process, locked, with each of its calls that is provably intact.

    `damage`: how many parts of it, head and slots, are not as they were written.
    """

    def __init__(
        self, path: Path, descriptor: int, calls: Mapping[UUID, Recorded], damage: int
    ) -> None:
        self._path = path
        self._descriptor = descriptor
        self.calls = calls
        self.damage = damage

    def __repr__(self) -> str:
        return f"<Wreck {self._path.name} {len(self.calls)} calls, {self.damage} damaged>"

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
    path.rename(path.with_suffix(DAMAGED))
    aside = sorted(path.parent.glob("*" + DAMAGED), key=lambda one: one.lstat().st_mtime)
    for old in aside[:-DAMAGED_KEPT]:
        old.unlink(missing_ok=True)


class WreckTaken(Exception):
    """The file is locked: its process lives, or another one settles for it."""


def open_wreck(folder: Path, process_id: str) -> Wreck | None:
    """Open the file of a dead process of this host; None without one. Raises WreckTaken.

    Takes some 100 ms if all slots are used.
    """
    path = folder / FOLDER / (process_id + SUFFIX)
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
        names = sorted(entry.name for entry in os.scandir(folder / FOLDER))
        ours = [name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX)]
        return ours[:FILES_AT_ONCE]
    return []


def _calls_in(descriptor: int, process_id: str) -> tuple[dict[UUID, Recorded], int]:
    """Read the calls of the file, slot by slot; return them and the number of damaged parts."""
    head = _read(descriptor, _HEAD.size + 4, 0)
    there = max(0, os.fstat(descriptor).st_size - PAGE_BYTES) // SLOT_BYTES
    slots, damage = min(there, SLOTS), 1
    if len(head) == _HEAD.size + 4 and _checked(head[: _HEAD.size]) == head:
        magic, stated, slot_bytes, name = _HEAD.unpack_from(head)
        if (magic, slot_bytes, name.rstrip(b"\0")) != (MAGIC, SLOT_BYTES, process_id.encode()):
            return {}, 1  # of another form; or of another process, which may live
        slots, damage = min(stated, SLOTS), 0
    calls: dict[UUID, Recorded] = {}
    for number in range(slots):
        slot = _read(descriptor, SLOT_BYTES, PAGE_BYTES + number * SLOT_BYTES)
        if len(slot) < SLOT_BYTES:
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


def _recorded(slot: bytes) -> tuple[Recorded | None, bool]:
    """Return the newest intact half that counts, if it is in use, and whether the slot is damaged.

    Of an interrupted write only the older half is not intact.
    """
    intact: list[tuple[int, bytes]] = []
    torn: list[int] = []
    for at in _HALVES:
        turn, length, checksum = _MARK.unpack_from(slot, at)
        payload = slot[at + _MARK.size : at + _MARK.size + length]
        if 0 < length <= _ROOM and checksum == zlib.crc32(payload, turn):
            intact.append((turn, payload))
        else:
            torn.append(turn)
    newest = max(intact, default=(0, b""))[0]
    is_damaged = any(turn != max(0, newest - 1) for turn in torn) or (not intact and any(slot[:32]))
    count, turned = _COUNT.unpack_from(slot)
    if count ^ turned != _ALL_BITS:
        is_damaged = is_damaged or (count, turned) != (0, 0)
        count = 0
    given_back = _GIVEN_BACK.unpack_from(slot, _COUNT.size)
    for turn, payload in sorted(intact, reverse=True):
        if given_back == (turn, turn):
            return None, is_damaged
        try:
            what = _DECODER.decode(payload)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None, True
        if not (isinstance(what, Ended) and what.awaits_write and count != _WRITTEN | turn):
            return Recorded(what, 0 if count & _WRITTEN else count), is_damaged
    return None, is_damaged
