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

It is best effort: a call that finds no slot, or whose settlement is too long for one, is counted
(`gw_calls_unrecorded_total`) and recovered from the database alone, as is every call of a process
that could not make its file.
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
MAGIC = b"gwcalls1"
PAGE_BYTES = 4096
# For streams under way, and calls whose settlement waits for an unreachable database.
SLOTS = 16_384
# A settlement usually takes 500 to 1,000 bytes.
SLOT_BYTES = 4096
HALF_BYTES = 2032
# A settlement that is too long keeps of its receipt what the cost depends on, and this much of an
# error.
ERROR_CHARACTERS_MAX = 200
PRICED_BY = frozenset(
    {"price", "account_price", "hold", "estimate", "basis", "units", "cache_write", "parts"}
)
# Limit of ownerless files per round; the rest waits for the next one.
FILES_AT_ONCE = 64

_HEAD = Layout("<8sII64s")  # magic, slots, bytes of a slot, name of the process
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

    def open(self, folder: Path, process_id: str, *, slots: int = SLOTS) -> bool:
        """Make the file of this process; on failure log it, set the metric and return False."""
        path = folder / FOLDER / (process_id + SUFFIX)
        size = PAGE_BYTES + slots * SLOT_BYTES
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.posix_fallocate(self._descriptor, 0, size)
                self._file = mmap.mmap(self._descriptor, size)
            except BaseException:
                path.unlink()
                os.close(self._descriptor)
                raise
        except (OSError, ValueError) as error:
            _LOG.error("recorder_unavailable", path=str(path), error=str(error))
            self._metrics.recovery.recorder_up(False)
            return False
        head = _HEAD.pack(MAGIC, slots, SLOT_BYTES, process_id.encode())
        self._file[: _HEAD.size + 4] = head + zlib.crc32(head).to_bytes(4, "little")
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
            _COUNT.pack_into(self._file, slot, output_tokens, output_tokens ^ _ALL_BITS)

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
            _COUNT.pack_into(self._file, slot.at, mark, mark ^ _ALL_BITS)

    def forget(self, settled: Iterable[Settle]) -> None:
        """Release the slots of calls that the database has settled."""
        slots, file = self._slots, self._file
        if file is None or not slots:
            return
        for settle in settled:
            slot = slots.pop(settle.facts.call_id.int, None)
            if slot is not None:
                _GIVEN_BACK.pack_into(file, slot.at + _COUNT.size, slot.turn, slot.turn)
                self._free.append(slot)

    def _store(
        self, call_id: UUID, what: Begun | Progress | Ended, begun: Begun | None = None
    ) -> Slot | None:
        """Write the older half, and its mark last, which makes it valid."""
        file = self._file
        if file is None:
            return None
        payload = _encoded(what)
        if len(payload) > _ROOM and isinstance(what, Ended):
            payload = _encoded(replace(what, outcome=_shortened(what.outcome)))
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
        _MARK.pack_into(file, mark, turn, length, zlib.crc32(payload, turn))
        return slot


def _encoded(what: Begun | Progress | Ended) -> bytes:
    try:
        return _encode(what)
    except (UnicodeEncodeError, OverflowError):  # a lone surrogate; an integer beyond 64 bits
        built = msgspec.to_builtins(what, enc_hook=msgspec.json.decode)  # of `Raw`
        return encode_json(clean_json(built))


def _shortened(outcome: Outcome) -> Outcome:
    """Keep the indispensable part of a row."""
    detail, message = outcome.detail, outcome.error_message
    if isinstance(detail, Raw):
        detail = msgspec.json.decode(detail)
    return replace(
        outcome,
        attempts=(),
        error_message=None if message is None else message[:ERROR_CHARACTERS_MAX],
        detail=None
        if detail is None
        else {name: value for name, value in detail.items() if name in PRICED_BY},
    )


# Reading the file of a dead process.


class Wreck:
    """The file of a dead process, locked, with each of its calls that is provably intact."""

    def __init__(self, path: Path, descriptor: int, calls: Mapping[UUID, Recorded]) -> None:
        self._path = path
        self._descriptor = descriptor
        self.calls = calls

    def __repr__(self) -> str:
        return f"<Wreck {self._path.name} {len(self.calls)} calls>"

    def remove(self) -> None:
        """Delete the file: everything in it is settled."""
        self._path.unlink(missing_ok=True)

    def close(self) -> None:
        """Release the lock."""
        os.close(self._descriptor)


class WreckTaken(Exception):
    """The file is locked: its process lives, or another one settles for it."""


def open_wreck(folder: Path, process_id: str) -> Wreck | None:
    """Open the file of a dead process of this host; None without one. Raises WreckTaken.

    A file of another format or process, or with a truncated head, stays in place: nothing in it is
    proved. Takes some 100 ms if all slots are used.
    """
    path = folder / FOLDER / (process_id + SUFFIX)
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return None
    calls = None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        calls = _calls_in(descriptor, process_id)
        if calls is None:
            _LOG.error("recorder_unreadable", path=str(path))
    except BlockingIOError:
        raise WreckTaken from None
    finally:
        if calls is None:
            os.close(descriptor)
    return None if calls is None else Wreck(path, descriptor, calls)


def left_behind(folder: Path) -> list[str]:
    """Return the processes that have files, including live ones."""
    with suppress(OSError):
        names = sorted(entry.name for entry in os.scandir(folder / FOLDER))
        ours = [name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX)]
        return ours[:FILES_AT_ONCE]
    return []


def _calls_in(descriptor: int, process_id: str) -> dict[UUID, Recorded] | None:
    """Read the calls of the file, slot by slot; None if its head is not intact."""
    head = os.pread(descriptor, _HEAD.size + 4, 0)
    if len(head) < _HEAD.size + 4:
        return None
    magic, slots, slot_bytes, name = _HEAD.unpack_from(head)
    is_whole = zlib.crc32(head[: _HEAD.size]) == int.from_bytes(head[_HEAD.size :], "little")
    known = (MAGIC, SLOT_BYTES, process_id.encode())
    if not is_whole or (magic, slot_bytes, name.rstrip(b"\0")) != known:
        return None
    calls: dict[UUID, Recorded] = {}
    for number in range(min(slots, SLOTS)):
        slot = os.pread(descriptor, SLOT_BYTES, PAGE_BYTES + number * SLOT_BYTES)
        if len(slot) == SLOT_BYTES and (recorded := _recorded(slot)) is not None:
            calls[recorded.call_id] = recorded
    return calls


def _recorded(slot: bytes) -> Recorded | None:
    """Return the newest intact half that counts, if it is in use."""
    halves = []
    for at in _HALVES:
        turn, length, checksum = _MARK.unpack_from(slot, at)
        payload = slot[at + _MARK.size : at + _MARK.size + length]
        if 0 < length <= _ROOM and checksum == zlib.crc32(payload, turn):
            halves.append((turn, payload))
    count, turned = _COUNT.unpack_from(slot)
    if count ^ turned != _ALL_BITS:
        count = 0
    for turn, payload in sorted(halves, reverse=True):
        if _GIVEN_BACK.unpack_from(slot, _COUNT.size) == (turn, turn):
            break
        try:
            what = _DECODER.decode(payload)
        except (msgspec.DecodeError, UnicodeDecodeError):
            break
        if not (isinstance(what, Ended) and what.awaits_write and count != _WRITTEN | turn):
            return Recorded(what, 0 if count & _WRITTEN else count)
    return None
