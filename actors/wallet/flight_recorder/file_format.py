"""The file of a flight recorder, as it is written and read.

It has a page for the head, then slots of equal size. A slot has two halves written alternately,
each with a sequence number and a checksum: an interrupted write leaves the other half intact. The
head of a slot has the number of output tokens sent, which changes with every read of a stream, and
the sequence number at which the slot was released.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from struct import Struct as Layout
from typing import Any
from uuid import UUID

import msgspec
from msgspec import Struct

from actors.wallet.messages import CallFacts, HeldNode, Outcome

FOLDER, SUFFIX = "recorder", ".calls"
# Names of a file that is being made, and of one that was put aside because it was damaged.
UNFINISHED, DAMAGED = ".new", ".damaged"
MAGIC = b"gwcalls1"
PAGE_BYTES = 4096
# For streams under way, and calls whose settlement waits for an unreachable database.
SLOTS = 16_384
# A settlement usually takes 500 to 1,000 bytes.
SLOT_BYTES = 4096
HALF_BYTES = 2032

HEAD = Layout("<8sII64s")  # magic, slots, bytes of a slot, name of the process
# Of 16 bytes at multiples of 16, which are stored by one instruction: a kill leaves all or nothing.
MARK = Layout("<QII")  # of a half: sequence number, length, checksum seeded with the number
COUNT = Layout("<QQ")  # tokens, and the same with all bits inverted
ALL_BITS = 2**64 - 1
TOKENS_MAX = 2**63 - 1  # beyond it stands a mark of the version before, which counts nothing
GIVEN_BACK = Layout("<QQ")  # the last sequence number when the slot was released, twice
HALVES = (32, 32 + HALF_BYTES)
ROOM = HALF_BYTES - MARK.size


class Begun(Struct, frozen=True, omit_defaults=True, tag="admitted"):
    """The hold of a call admitted from a lease of the process under this identity."""

    facts: CallFacts
    amount_nano_usd: int
    identity: str
    detail: Mapping[str, Any] | None = None
    budgets: tuple[HeldNode, ...] = ()


class StreamProgress(Struct, frozen=True, kw_only=True, tag="delivered"):
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
    budgets: tuple[HeldNode, ...] = ()


class Recorded(Struct, frozen=True):
    """What is known of a call of a dead process; `output_tokens` were sent of a stream."""

    what: Begun | StreamProgress | Ended
    output_tokens: int

    @property
    def call_id(self) -> UUID:
        """The id of the call."""
        return (
            self.what.call_id if isinstance(self.what, StreamProgress) else self.what.facts.call_id
        )

    @property
    def account_id(self) -> str:
        """The account of the call, or "" if it is unknown."""
        what = self.begun if isinstance(self.what, StreamProgress) else self.what
        return "" if what is None else what.facts.account_id

    @property
    def begun(self) -> Begun | None:
        """The hold of a call that was under way and may not be written."""
        if isinstance(self.what, StreamProgress):
            return self.what.begun
        return self.what if isinstance(self.what, Begun) else None


encode = msgspec.json.Encoder().encode
DECODER = msgspec.json.Decoder(Begun | StreamProgress | Ended)


def checked(head: bytes) -> bytes:
    return head + zlib.crc32(head).to_bytes(4, "little")
