"""What the meters of the dialects have in common: what they have read, and how it is noted.

Each dialect's own meter reads its events. What the counts cost is `gw/calls/charge.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Generic, TypeVar

import msgspec

from channels.dialects.error_body import code_in, message_in
from channels.json.lenient import NOTHING, read_loosely
from channels.json.text import UNREADABLE
from channels.text import fit
from channels.usage import PartialUsage, Usage

# What the data of an event as documented hold, and what `read` gives of any.
One = TypeVar("One")
Read = TypeVar("Read")
# Names and ids go into a row of the call log.
NAME_CHARACTERS_MAX = 256


@dataclass(frozen=True, slots=True)
class ErrorEvent:
    """An error the upstream reported within its response, in its own, unredacted words."""

    code: str | None
    message: str | None


class ResponseMeter(ABC, Generic[One, Read]):
    """Follows one response. Made for one attempt, used from one task.

    `characters` are code points of text, refusals, thinking, and tool calls' names and arguments.
    `finished`: the response's end was seen, or it came whole.
    """

    __slots__ = (
        "characters",
        "error_seen",
        "finish_reason",
        "finished",
        "malformed_events",
        "response_id",
        "response_model",
    )

    # Members of an error that name it, in the order they are trusted.
    _error_names: ClassVar[tuple[str, ...]] = ("code", "type")

    def __init__(self) -> None:
        self.characters = 0
        self.finished = False
        self.finish_reason: str | None = None
        self.response_id: str | None = None
        self.response_model: str | None = None
        self.error_seen: ErrorEvent | None = None
        self.malformed_events = 0

    def __repr__(self) -> str:
        return (
            f"<{type(self).__name__} {self.characters} characters, {self.usage}, "
            f"finish_reason={self.finish_reason!r}{' finished' if self.finished else ''}"
            f"{f' {self.error_seen}' if self.error_seen else ''}"
            f"{f' {self.malformed_events} malformed' if self.malformed_events else ''}>"
        )

    @property
    @abstractmethod
    def usage(self) -> Usage | None:
        """The usage stated last; None while none was stated whole."""

    @property
    def saw_content(self) -> bool:
        """Whether anything that counts as output has passed."""
        return self.characters > 0

    @property
    def partial_usage(self) -> PartialUsage | None:
        """What was stated while `usage` is None; None when nothing was."""
        return None

    def event(self, data: bytes) -> bool:
        """Read and meter one event. Never raises; False where only some clients get the event."""
        try:
            read = self._decode(data)
        except UNREADABLE:
            return self.take(self.read(data))
        return self._take(read)

    @abstractmethod
    def _take(self, one: One) -> bool:
        """Meter an event that is as documented, or a chunk; as `event`."""

    @staticmethod
    @abstractmethod
    def _decode(data: bytes, /) -> One:
        """What `read` tries first: an event that is as documented. Raises what is UNREADABLE."""

    @staticmethod
    @abstractmethod
    def read(data: bytes) -> Read | None:
        """What one event's data hold; None where they cannot be read. Never raises."""

    def take(self, read: Read | None) -> bool:
        """Meter what was read of an event; as `event`. Overridden where that is no `One`."""
        if read is None:
            self.malformed_events += 1
            return True
        return self._take(read)  # type: ignore[arg-type]

    @abstractmethod
    def body(self, body: bytes) -> None:
        """Read a whole response. Raises UpstreamMalformed when it is not a JSON object."""

    def _note_names(self, response_id: str | None, response_model: str | None) -> None:
        """Keep the first id and the first model that are stated."""
        if self.response_id is None and response_id is not None:
            self.response_id = fit_name(response_id)
        if self.response_model is None and response_model is not None:
            self.response_model = fit_name(response_model)

    def _note_error(self, stated: msgspec.Raw) -> bool:
        """Note an error member. True when it states something."""
        if stated is NOTHING:
            return False
        text = bytes(stated)
        error = read_loosely(text)
        if error is None and text != b"null":
            error = "unreadable"
        if not error:
            return False  # some upstreams always have the member
        code = code_in(error, self._error_names)
        self.error_seen = ErrorEvent(None if code is None else fit_name(code), message_in(error))
        return True


def fit_name(text: str) -> str:
    """A name fit for a row; nearly all are."""
    if text.isprintable() and len(text) <= NAME_CHARACTERS_MAX:
        return text
    return fit(text, NAME_CHARACTERS_MAX)
