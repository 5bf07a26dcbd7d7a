"""The keys of one channel, used in turn; one that the upstream refuses is set aside for a while.

A refusal of the key is 401 or 402, and what its kind of upstream says in their place: with some a
wrong key is a 400, an account without balance a 429. What is set aside is tried again by itself,
for a balance may have been topped up; with every key aside, the one whose time comes first is used
all the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

KEY_REFUSALS = (401, 402)
ASIDE_SECONDS = 300.0


class ChannelKey:
    """One key of a channel; `number` counts from 1, in the order of the file."""

    __slots__ = ("_ring", "aside_until", "number")

    def __init__(self, ring: KeyRing, number: int) -> None:
        self._ring = ring
        self.number = number
        self.aside_until = 0.0  # monotonic seconds

    def __repr__(self) -> str:
        return f"<ChannelKey {self.number}>"

    def is_meant_by(self, status: int, message: str) -> bool:
        """Whether an error that says this refuses the key, where 401 and 402 are not used."""
        return any(status == one and text in message for one, text in self._ring.refusals)

    def refused(self, status: int) -> None:
        """The upstream refused it with this status."""
        self._ring.on_refused(self, status)


# Told of a refusal: the key's number, the status, and whether it was in use until now.
Listener = Callable[[int, int, bool], None]


class KeyRing:
    """The keys of one channel. Mutable, and of one process and configuration.

    `refusals` are statuses, each with a text in the message, that refuse a key besides 401 and 402.
    """

    def __init__(
        self,
        count: int,
        *,
        refusals: Sequence[tuple[int, str]] = (),
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.refusals = refusals
        self._monotonic = monotonic
        self._last = -1
        self.listener: Listener | None = None
        self.keys: Sequence[ChannelKey] = [ChannelKey(self, one + 1) for one in range(count)]

    def __repr__(self) -> str:
        return f"<KeyRing {len(self.keys)} keys, {self.aside} aside>"

    @property
    def aside(self) -> int:
        """How many are set aside."""
        now = self._monotonic()
        return sum(key.aside_until > now for key in self.keys)

    def next_index(self) -> int:
        """Where the key of the next request stands."""
        now, count = self._monotonic(), len(self.keys)
        for step in range(1, count + 1):
            index = (self._last + step) % count
            if self.keys[index].aside_until <= now:
                self._last = index
                return index
        return min(range(count), key=lambda one: self.keys[one].aside_until)

    def on_refused(self, key: ChannelKey, status: int) -> None:
        """Set a key aside, and tell."""
        now = self._monotonic()
        was_in_use = key.aside_until <= now
        key.aside_until = now + ASIDE_SECONDS
        if self.listener is not None:
            self.listener(key.number, status, was_in_use)
