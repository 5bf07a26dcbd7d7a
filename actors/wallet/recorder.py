"""The flight recorder of a process: which calls it admitted, what they have delivered, and how
those ended that the database does not know of yet.

A memory-mapped file under `data_dir`. It outlives its process, not its host, so nothing is synced:
what was stored before a `kill -9` is read by recovery on the same host
(`actors/recovery.py`), under the lock of the file, which the kernel releases when its owner ends.

A page for the head, then slots of one size. A slot has two halves that are written in turns, each
with a sequence number and a checksum: a write that is cut in the middle leaves the other half. In
the head of a slot stands how many tokens of output have gone out, which changes with every read of
a stream, and the number of the half at which it was given back. Blocks are allocated when the file
is made: a write can never meet a full disk.

It is a help and no promise: a call that finds no slot, or whose settlement is too long for one, is
counted (`gw_calls_unrecorded_total`) and recovered from the database alone, as is every call of a
process that could not make its file.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import zlib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from struct import Struct as Layout
from typing import Any
from uuid import UUID

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from actors.wallet.batch import clean_json, to_json
from actors.wallet.messages import Admitted, CallFacts, Outcome, Settle
from metrics.logs import EventLog
from metrics.prometheus import Metrics

FOLDER, SUFFIX = "recorder", ".calls"
MAGIC = b"gwcalls1"
PAGE_BYTES = 4096
# Streams under way, and calls whose settlement waits for a database that is away.
SLOTS = 16_384
# Mostly a settlement takes 700 to 1,200 bytes.
SLOT_BYTES = 4096
HALF_BYTES = 2032
# Of a settlement that is too long: of its receipt what the cost rests on, and so much of an error.
ERROR_CHARACTERS_MAX = 200
PRICED_BY = frozenset(
    {"price", "account_price", "hold", "estimate", "basis", "units", "cache_write", "parts"}
)
# Of more files that have no owner the rest waits for the next round.
FILES_AT_ONCE = 64

_HEAD = Layout("<8sII64s")  # magic, slots, bytes of a slot, name of the process
_MARK = Layout("<QII")  # of a half: sequence number, length, checksum of the payload from it on
_COUNT = Layout("<QQ")  # tokens, and the same with all bits turned
_ALL_BITS = 2**64 - 1
_GIVEN_BACK = Layout("<QQ")  # the last sequence number when the slot was given back, twice
_HALVES = (32, 32 + HALF_BYTES)
_ROOM = HALF_BYTES - _MARK.size

_LOG = EventLog("actors.recorder")


class Begun(Struct, frozen=True, kw_only=True, tag="admitted"):
    """A call that was admitted out of a lease of the process under this identity: its hold."""

    facts: CallFacts
    amount_nano_usd: int
    identity: str
    detail: Mapping[str, Any] | None = None


class Progress(Struct, frozen=True, kw_only=True, tag="delivered"):
    """What a stream had delivered with its first byte, as the heartbeat reports it.

    `begun`: where its hold was not written by then.
    """

    call_id: UUID
    delivered: Mapping[str, Any]
    begun: Begun | None = None


class Ended(Struct, frozen=True, kw_only=True, tag="settled"):
    """How a call ended; `held` by `identity` is its hold where that was not written by then."""

    facts: CallFacts
    outcome: Outcome
    held: int | None = None
    identity: str = ""


class Recorded(Struct, frozen=True):
    """What is known of a call of a dead process; `output_tokens` have gone out of a stream."""

    what: Begun | Progress | Ended
    output_tokens: int

    @property
    def call_id(self) -> UUID:
        """Of the call."""
        return self.what.call_id if isinstance(self.what, Progress) else self.what.facts.call_id

    @property
    def account_id(self) -> str:
        """Of the call, where that is known; else nothing."""
        what = self.begun if isinstance(self.what, Progress) else self.what
        return "" if what is None else what.facts.account_id

    @property
    def begun(self) -> Begun | None:
        """The hold of a call that was under way, where it was not written."""
        if isinstance(self.what, Progress):
            return self.what.begun
        return self.what if isinstance(self.what, Begun) else None


_DECODER = msgspec.json.Decoder(Begun | Progress | Ended)


class Recorder:
    """Writes what happens to the calls of this process. Without a file it does nothing."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._file: mmap.mmap | None = None
        self._descriptor = -1
        self._path: Path | None = None
        self._free: list[int] = []
        self._slots: dict[UUID, int] = {}
        self._turns: list[int] = []  # of each slot: its last sequence number
        self._begun: dict[UUID, Begun] = {}  # whose hold is not written

    def __repr__(self) -> str:
        return f"<Recorder {self._path} {len(self._slots)} calls>"

    def __len__(self) -> int:
        return len(self._slots)

    def open(self, folder: Path, process_id: str, *, slots: int = SLOTS) -> bool:
        """Make the file of this process. False, logged and a metric, where that cannot be."""
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
        # The slot that was given back last comes first: few pages are ever touched.
        self._free = list(range(slots - 1, -1, -1))
        self._turns = [0] * slots
        self._metrics.recovery.recorder_up(True)
        return True

    def close(self) -> None:
        """End in good order: the file goes, unless a call is not settled."""
        if self._file is None:
            return
        if not self._slots and self._path is not None:
            self._path.unlink(missing_ok=True)
        self._file.close()
        os.close(self._descriptor)  # and with it the lock
        self._file = None

    def admitted(self, admitted: Admitted) -> None:
        """A call was admitted in memory."""
        if self._file is None:
            return
        hold = admitted.hold
        begun = Begun(
            facts=hold.facts,
            amount_nano_usd=hold.amount_nano_usd,
            identity=admitted.identity,
            detail=hold.detail,
        )
        self._begun[hold.facts.call_id] = begun
        self._store(hold.facts.call_id, _encoded(begun))

    def written(self, call_id: UUID) -> None:
        """The hold of a call that was admitted in memory is in the database now."""
        self._begun.pop(call_id, None)

    def delivers(self, call_id: UUID, delivered: Mapping[str, Any]) -> int | None:
        """The first byte of a stream goes out. Returns its slot for `counts`; None: it has none."""
        if self._file is None:
            return None
        begun = self._begun.get(call_id)
        progress = Progress(call_id=call_id, delivered=delivered, begun=begun)
        slot = self._store(call_id, _encoded(progress))
        if slot is not None:
            self.counts(slot, 0)
        return slot

    def counts(self, slot: int, output_tokens: int) -> None:
        """So many tokens of the stream in this slot have gone out."""
        if self._file is not None:
            at = PAGE_BYTES + slot * SLOT_BYTES
            _COUNT.pack_into(self._file, at, output_tokens, output_tokens ^ _ALL_BITS)

    def settled(self, settle: Settle) -> None:
        """How a call has ended; it is on its way to the database.

        Not of one with an idempotency key: its client is given nothing before that is committed,
        so it is not to pay for what was lost. Nor of a job's, whose hold outlives the process.
        """
        if self._file is None or settle.claim_end is not None or settle.facts.job_id is not None:
            return
        ended = Ended(facts=settle.facts, outcome=settle.outcome)
        if (admitted := settle.admitted) is not None:
            ended = Ended(
                facts=settle.facts,
                outcome=settle.outcome,
                held=admitted.hold.amount_nano_usd,
                identity=admitted.identity,
            )
        payload = _encoded(ended)
        if len(payload) > _ROOM:
            payload = _encoded(replace(ended, outcome=_shortened(settle.outcome)))
        self._store(settle.facts.call_id, payload)

    def forget(self, call_id: UUID) -> None:
        """The database knows how the call ended, or its hold is a job's."""
        self._begun.pop(call_id, None)
        slot = self._slots.pop(call_id, None)
        if slot is not None and self._file is not None:
            turn = self._turns[slot]
            at = PAGE_BYTES + slot * SLOT_BYTES + _COUNT.size
            _GIVEN_BACK.pack_into(self._file, at, turn, turn)
            self._free.append(slot)

    def _store(self, call_id: UUID, payload: bytes) -> int | None:
        """Write the half whose turn it is; the mark last, which makes it count."""
        slot, length = self._slots.get(call_id), len(payload)
        if length > _ROOM or (slot is None and not self._free):
            self._metrics.recovery.unrecorded()
            return None
        if slot is None:
            slot = self._slots[call_id] = self._free.pop()
        assert self._file is not None
        turn = self._turns[slot] = self._turns[slot] + 1
        at = PAGE_BYTES + slot * SLOT_BYTES + _HALVES[turn & 1]
        self._file[at + 16 : at + 16 + length] = payload
        checksum = zlib.crc32(payload, turn & 0xFFFFFFFF)
        _MARK.pack_into(self._file, at, turn, length, checksum)
        return slot


def _encoded(what: Begun | Progress | Ended) -> bytes:
    try:
        return msgspec.json.encode(what)
    except (UnicodeEncodeError, OverflowError):  # half a character; an integer past 64 bits
        return to_json(clean_json(msgspec.to_builtins(what))).encode()


def _shortened(outcome: Outcome) -> Outcome:
    """What a row cannot do without."""
    detail, message = outcome.detail, outcome.error_message
    return replace(
        outcome,
        attempts=(),
        error_message=None if message is None else message[:ERROR_CHARACTERS_MAX],
        detail=None
        if detail is None
        else {name: value for name, value in detail.items() if name in PRICED_BY},
    )


# Reading what a dead process left behind.


class Wreck:
    """The file of a dead process, locked: what it knew of each call that can be proved whole."""

    def __init__(self, path: Path, descriptor: int, calls: Mapping[UUID, Recorded]) -> None:
        self._path = path
        self._descriptor = descriptor
        self.calls = calls

    def __repr__(self) -> str:
        return f"<Wreck {self._path.name} {len(self.calls)} calls>"

    def remove(self) -> None:
        """Everything in it is settled."""
        self._path.unlink(missing_ok=True)

    def close(self) -> None:
        """Leave it to others."""
        os.close(self._descriptor)


class WreckTaken(Exception):
    """The file is locked: its process lives, or another one settles for it."""


def open_wreck(folder: Path, process_id: str) -> Wreck | None:
    """What a dead process of this host left; None: nothing. Raises WreckTaken.

    A file of another form, of another process, or cut in its head is left where it is: nothing in
    it is proved. Takes some 100 ms where all slots are used.
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
    """Processes whose files are there, those under way too."""
    with suppress(OSError):
        names = sorted(entry.name for entry in os.scandir(folder / FOLDER))
        ours = [name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX)]
        return ours[:FILES_AT_ONCE]
    return []


def _calls_in(descriptor: int, process_id: str) -> dict[UUID, Recorded] | None:
    """The calls of the file, read a slot at a time; None where its head is not whole."""
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
    """The later half that is whole, if it has anything."""
    halves = []
    for at in _HALVES:
        turn, length, checksum = _MARK.unpack_from(slot, at)
        payload = slot[at + _MARK.size : at + _MARK.size + length]
        if 0 < length <= _ROOM and checksum == zlib.crc32(payload, turn & 0xFFFFFFFF):
            halves.append((turn, payload))
    if not halves or _GIVEN_BACK.unpack_from(slot, _COUNT.size) == (max(halves)[0],) * 2:
        return None
    count, turned = _COUNT.unpack_from(slot)
    try:
        what = _DECODER.decode(max(halves)[1])
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return Recorded(what, count if count ^ turned == _ALL_BITS else 0)
