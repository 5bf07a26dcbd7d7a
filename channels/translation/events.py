"""The events of a response in the canonical model, in order, whether it is streamed or whole."""

from __future__ import annotations

from msgspec import Struct

from channels.dialects.token_counts import Usage
from channels.translation.model import FinishReason, Media, Protocol


class Began(Struct, frozen=True):
    """The response begins. At most once, first."""

    id: str | None
    model: str | None


class TextDelta(Struct, frozen=True, gc=False):
    """More text; an event of another kind ends the text before it."""

    text: str


class TextRun(Struct, frozen=True, gc=False):
    """Events of text in a row, which are `piece[start:end]` of an upstream's stream.

    `texts` are theirs as JSON without quotes, none of them empty, as `dumps` would write it.
    """

    start: int
    end: int
    texts: list[bytes]


class RefusalDelta(Struct, frozen=True):
    """More of a refusal."""

    text: str


class ThinkingDelta(Struct, frozen=True, gc=False):
    """More thinking, or its signature, or an opaque block of it."""

    text: str = ""
    signature: str | None = None
    redacted: str | None = None
    signer: Protocol | None = None


class MediaDelta(Struct, frozen=True):
    """A whole image or other medium made by the model."""

    media: Media


# Limits of the sources that are kept of a response, and of each: an upstream decides.
CITATIONS_MAX = 1_000
_URL_CHARACTERS_MAX = 4_096
_TITLE_CHARACTERS_MAX = 1_000


def source_of(url: object, title: object) -> tuple[str, str] | None:
    """Return the URL and title of a source; None without a URL, or with one that is too long."""
    if not isinstance(url, str) or not 0 < len(url) <= _URL_CHARACTERS_MAX:
        return None
    return url, title[:_TITLE_CHARACTERS_MAX] if isinstance(title, str) else ""


class Citation(Struct, frozen=True):
    """A source of the text from `start` up to, not including, `end`.

    Both are offsets in the characters of the whole response; None if not stated.
    """

    url: str
    title: str
    start: int | None = None
    end: int | None = None


class CallBegan(Struct, frozen=True):
    """Tool call number `index` (counted from 0) begins."""

    index: int
    id: str
    name: str
    signature: str | None = None
    signer: Protocol | None = None


class CallDelta(Struct, frozen=True, gc=False):
    """More of the arguments of tool call number `index`; calls may be interleaved."""

    index: int
    arguments: str


class Finished(Struct, frozen=True):
    """Why the model stopped. The usage may still follow."""

    reason: FinishReason
    stop_sequence: str | None = None
    explanation: str | None = None  # the provider's text about it, not the model's


class UsageStated(Struct, frozen=True):
    """Token counts so far, which replace earlier ones."""

    usage: Usage


class StreamFailed(Struct, frozen=True):
    """The upstream reported an error within its stream; nothing follows."""

    code: str | None
    message: str


class Ended(Struct, frozen=True):
    """The upstream's terminator: the response is complete. Without it the stream was cut."""


Event = (
    Began
    | TextDelta
    | RefusalDelta
    | ThinkingDelta
    | MediaDelta
    | Citation
    | CallBegan
    | CallDelta
    | Finished
    | UsageStated
    | StreamFailed
    | Ended
)
