"""The keys of one channel: a conversation keeps one of them, other requests rotate; a key that the
upstream refuses is set aside for a while, which moves only its own conversations.

Whether an upstream refuses the key (the channel's account) or the request:

    401, 402                                        the key
    4xx whose code, type or reason is KEY_WORDS     the key
    4xx with a text of the kind's `key_refusals`    the key
    403 with a word of REQUEST_WORDS                the request
    403 with a text of its `request_refusals`       the request
    403 otherwise                                   the key, aside for a shorter time
    any other 4xx                                   the request

A key is used again after its time, because its balance may have been topped up, and at once when
a request with it succeeds; if every key is set aside, the one whose time ends first is used.

A 429 is no refusal of the key. In a ring that `rests` (a channel with `on_429: next`) its key is
left out for as long as the upstream asks, which a success does not shorten, and is then last in
turn; if every key rests or is aside, the one whose rest ends first is used.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import NamedTuple

from channels.errors import ErrorMembers

KEY_REFUSALS = (401, 402)
FORBIDDEN = 403
THROTTLED = 429
ASIDE_SECONDS = 300.0
# After an unknown 403, which may be caused by the client's request.
ASIDE_UNKNOWN_SECONDS = 30.0
# The bounds of a rest after a 429, and its length where `Retry-After` states no number of seconds.
REST_SECONDS_MIN, REST_SECONDS, REST_SECONDS_MAX = 1.0, 5.0, 60.0
_SECONDS = re.compile(r"[0-9]{1,12}(\.[0-9]{1,12})?")

# Error types and codes of dialects that refuse the key, whatever the status.
KEY_WORDS = frozenset(
    {
        *("invalid_api_key", "account_deactivated"),  # chat, responses
        *("billing_not_active", "billing_hard_limit_reached"),
        *("authentication_error", "billing_error"),  # messages
        *("UNAUTHENTICATED", "API_KEY_INVALID", "API_KEY_SERVICE_BLOCKED"),  # native-content
        *("BILLING_DISABLED", "CONSUMER_SUSPENDED", "SERVICE_DISABLED"),
    }
)
# Those that refuse the request, although the status is 403.
REQUEST_WORDS = frozenset(
    {
        *("invalid_request_error", "content_filter"),  # chat, responses, messages
        *("content_policy_violation", "moderation_blocked"),
        *("INVALID_ARGUMENT", "FAILED_PRECONDITION"),  # native-content
    }
)


class KnownRefusals(NamedTuple):
    """How a kind of upstream refuses: statuses, each with a text in the message."""

    of_key: Sequence[tuple[int, str]]
    of_request: Sequence[tuple[int, str]]


NO_KNOWN = KnownRefusals((), ())


class ChannelKey:
    """One key of a channel; `number` counts from 1, in the order of the file.

    `seed` depends only on the key, not on the others.
    """

    __slots__ = ("_ring", "aside_until", "number", "rests_until", "seed")

    def __init__(self, ring: KeyRing, number: int, seed: bytes) -> None:
        self._ring = ring
        self.number = number
        self.seed = seed
        self.aside_until = 0.0  # monotonic seconds, as the next
        self.rests_until = 0.0

    @property
    def out_until(self) -> float:
        """When it is neither aside nor at rest."""
        return max(self.aside_until, self.rests_until)

    def seconds_aside(self, status: int, error: ErrorMembers) -> float:
        """Return how long an error other than 401 and 402 sets the key aside; 0: not at all.

        It implements the table above.
        """
        known, message = self._ring.known, error.message or ""
        if not 400 <= status < 500:
            return 0.0
        if not KEY_WORDS.isdisjoint(error.words) or _is_any(known.of_key, status, message):
            return ASIDE_SECONDS
        if status != FORBIDDEN or not REQUEST_WORDS.isdisjoint(error.words):
            return 0.0
        return 0.0 if _is_any(known.of_request, status, message) else ASIDE_UNKNOWN_SECONDS

    def refused(self, status: int, seconds: float = ASIDE_SECONDS) -> None:
        """Set the key aside for so long, because the upstream refused it with this status."""
        self._ring.on_refused(self, status, seconds)

    def throttled(self, retry_after: str | None) -> None:
        """Let the key rest, if its ring does that: the upstream answered 429 with this header."""
        if self._ring.rests:
            self._ring.on_throttled(self, _rest_seconds(retry_after))

    def confirmed(self) -> None:
        """Use the key again: the upstream accepted it."""
        self.aside_until = 0.0


# Called on a refusal: the key's number, the status, and whether it was in use until now.
Listener = Callable[[int, int, bool], None]
# Called when a key begins to rest: its number, and for how many seconds.
RestListener = Callable[[int, float], None]


class KeyRing:
    """The keys of one channel. Mutable, and specific to a process and configuration.

    `rests`: a key rests after a 429. `rests_until`: when the last time ended, or ends, at which no
    key was left for a rest; monotonic seconds.
    """

    def __init__(
        self,
        keys: Sequence[str],
        *,
        known: KnownRefusals = NO_KNOWN,
        rests: bool = False,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.known = known
        self.rests = rests
        self.rests_until = 0.0
        self._has_rested = False  # a key, which is to be last in turn
        self._monotonic = monotonic
        self._last = -1
        self.listener: Listener | None = None
        self.rest_listener: RestListener | None = None
        self.keys: Sequence[ChannelKey] = [
            ChannelKey(self, number, blake2b(key.encode(), digest_size=16).digest())
            for number, key in enumerate(keys, start=1)
        ]

    def tell_time_by(self, monotonic: Callable[[], float]) -> None:
        """Use another clock."""
        self._monotonic = monotonic

    @property
    def aside(self) -> int:
        """The number of keys set aside."""
        now = self._monotonic()
        return sum(key.aside_until > now for key in self.keys)

    @property
    def is_aside(self) -> bool:
        """Whether all keys are set aside, so that the channel is tried after all others."""
        for key in self.keys:
            if not key.aside_until or key.aside_until <= self._monotonic():
                return False
        return True

    @property
    def is_resting(self) -> bool:
        """Whether no key is left because of rests, so that other channels are tried first."""
        if not self.rests_until:
            return False
        now = self._monotonic()
        return self.rests_until > now and all(key.out_until > now for key in self.keys)

    @property
    def is_ready(self) -> bool:
        """Whether a key is left that neither rests nor is aside."""
        now = self._monotonic()
        return any(key.out_until <= now for key in self.keys)

    def next_index(self, pin: str | None = None) -> int:
        """Return the index of the next request's key.

        For a conversation it is chosen by rendezvous hashing of its pin with each key in use: a key
        that is added, removed or set aside moves only the conversations that it gains or loses.
        """
        now, count = self._monotonic(), len(self.keys)
        if self._has_rested:
            self._end_rests(now)
        if pin is not None:
            name = pin.encode(errors="replace")
            in_use = [key for key in self.keys if key.out_until <= now]
            if in_use:
                return max(in_use, key=lambda key: blake2b(key.seed + name).digest()).number - 1
        for step in range(1, count + 1):
            index = (self._last + step) % count
            if self.keys[index].out_until <= now:
                self._last = index
                return index
        # One that rests works, but for its limit; one that is aside does not.
        first = min(self.keys, key=lambda key: (key.aside_until > now, key.out_until))
        return first.number - 1

    def on_refused(self, key: ChannelKey, status: int, seconds: float) -> None:
        """Set a key aside, and report it."""
        now = self._monotonic()
        was_in_use = key.aside_until <= now
        key.aside_until = max(key.aside_until, now + seconds)
        if self.listener is not None:
            self.listener(key.number, status, was_in_use)

    def on_throttled(self, key: ChannelKey, seconds: float) -> None:
        """Let a key rest, and report it if it did not rest already."""
        now = self._monotonic()
        was_resting = key.rests_until > now
        key.rests_until = max(key.rests_until, now + seconds)
        self._has_rested = True
        if not self.is_ready:
            self.rests_until = min(one.out_until for one in self.keys)
        if not was_resting and self.rest_listener is not None:
            self.rest_listener(key.number, seconds)

    def _end_rests(self, now: float) -> None:
        """Place each key whose rest is over last in turn."""
        for key in self.keys:
            if key.rests_until and key.rests_until <= now:
                key.rests_until = 0.0
                self._last = key.number - 1
        self._has_rested = any(key.rests_until for key in self.keys)


def _rest_seconds(retry_after: str | None) -> float:
    if retry_after is None or not _SECONDS.fullmatch(retry_after.strip()):
        return REST_SECONDS
    return min(max(float(retry_after), REST_SECONDS_MIN), REST_SECONDS_MAX)


def _is_any(known: Sequence[tuple[int, str]], status: int, message: str) -> bool:
    return any(status == one and text in message for one, text in known)
