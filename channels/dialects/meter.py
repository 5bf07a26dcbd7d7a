"""The common part of the dialects' meters: what is counted of a response as it is passed on.

Each dialect's own meter decodes its events. `gw/calls/token_charge.py` prices the counts.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar

import msgspec

from channels.dialects.error_body import code_in, message_in
from channels.dialects.text_frame import TextFrame
from channels.dialects.token_counts import PartialUsage, Usage
from channels.json.lenient import NULL, read_loosely
from channels.json.weight import is_heavy_event
from channels.storable_text import fit


class UsageReader(Protocol):
    """The usage that an upstream has stated so far, and the characters that it covers."""

    covered: int

    @property
    def usage(self) -> Usage | None: ...

    @property
    def partial(self) -> PartialUsage | None: ...


# A decoded event, and what reads its usage.
Read = TypeVar("Read")
Reader = TypeVar("Reader", bound=UsageReader)
# Names and ids are written to a row of the call log.
NAME_CHARACTERS_MAX = 256


@dataclass(frozen=True, slots=True)
class ErrorEvent:
    """An error that the upstream reported within its response, unredacted."""

    code: str | None
    message: str | None


class ResponseMeter(Generic[Read]):
    """Meters one response. Made for one attempt, used from one task.

    `characters` are code points of text, refusals, thinking, and tool calls' names and arguments.
    `finished`: the response's end was received, or it is whole. `has_choice`: a choice, a candidate
    or content was received, which may be empty.
    """

    # Members of an error that may have its code, the most trusted first.
    _error_names: ClassVar[tuple[str, ...]] = ("code", "type")
    # Whether `read_event` builds few objects from an event of any number of values.
    reads_any_size: ClassVar[bool] = False

    # The defaults are the class's, so that a meter is made of what it has read.
    characters: int = 0
    has_choice: bool = False
    finished: bool = False
    finish_reason: str | None = None
    response_id: str | None = None
    response_model: str | None = None
    error_seen: ErrorEvent | None = None
    malformed_events: int = 0

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
        """The last usage stated; None while none was complete."""

    @property
    def shown_usage(self) -> Usage | None:
        """The usage that a translation of the whole response states."""
        return self.usage

    @property
    def partial_usage(self) -> PartialUsage | None:
        """The counts stated while `usage` is None; None without any."""
        return None

    @property
    def has_answer(self) -> bool:
        """Whether the response can be used: something was answered, or why it stopped."""
        return self.has_choice or self.characters > 0 or self.finish_reason is not None

    def end_of_body(self) -> None:
        """Note that the body of a stream has ended as its head promised."""

    @property
    def unstated_characters(self) -> int:
        """The characters received since the usage was stated; 0 where it was stated last."""
        return 0

    @staticmethod
    @abstractmethod
    def read_event(data: bytes) -> Read | None:
        """Decode one event's data; None if it is unreadable, or undocumented and heavy.

        Never raises.
        """

    @staticmethod
    def frame_of(event: bytes, read: Read | None, /) -> TextFrame | None:
        """Return what surrounds the text of an event of one line of data, as it was decoded.

        None if it states more than its text, or none.
        """
        return None

    @abstractmethod
    def take_event(self, read: Read | None, /) -> bool:
        """Meter a decoded event. Never raises; False if only some clients get the event."""

    @abstractmethod
    def take_body(self, body: bytes) -> Any:
        """Meter a whole response, and return it decoded for a translation.

        Raises UpstreamMalformed if it is not a JSON object.
        """

    def _note_names(self, response_id: str | None, response_model: str | None) -> None:
        """Keep the first id and the first model that are stated."""
        if self.response_id is None and response_id is not None:
            self.response_id = fit_name(response_id)
        if self.response_model is None and response_model is not None:
            self.response_model = fit_name(response_model)

    def _note_error(self, stated: msgspec.Raw) -> bool:
        """Record an error member. True if it states an error."""
        if stated is NULL:
            return False
        text = bytes(stated)
        error = None if is_heavy_event(text) else read_loosely(text)
        if error is None and text != b"null":
            error = "unreadable"
        if not error:
            return False  # some upstreams always send the member
        code = code_in(error, self._error_names)
        self.error_seen = ErrorEvent(None if code is None else fit_name(code), message_in(error))
        return True


class StatedMeter(ResponseMeter[Read], Generic[Read, Reader]):
    """A meter with a reader of what the upstream states of its usage."""

    _stated: Reader

    @property
    def usage(self) -> Usage | None:
        return self._stated.usage

    @property
    def partial_usage(self) -> PartialUsage | None:
        return None if self.usage is not None else self._stated.partial

    @property
    def unstated_characters(self) -> int:
        return self.characters - self._stated.covered


def fit_name(text: str) -> str:
    """Return a name fit for a row; usually the same."""
    if text.isprintable() and len(text) <= NAME_CHARACTERS_MAX:
        return text
    return fit(text, NAME_CHARACTERS_MAX)


class MeterReading(Protocol):
    """The state of a meter that determines the charge.

    `partial_usage` is what was stated while `usage` is None, `unstated_characters` how many of the
    characters followed the usage.
    """

    @property
    def usage(self) -> Usage | None: ...

    @property
    def partial_usage(self) -> PartialUsage | None: ...

    @property
    def characters(self) -> int: ...

    @property
    def unstated_characters(self) -> int: ...

    @property
    def finished(self) -> bool: ...

    @property
    def error_seen(self) -> object: ...


# A meter of any dialect.
Meter: TypeAlias = ResponseMeter[Any]
