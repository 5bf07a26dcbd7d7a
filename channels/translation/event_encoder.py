"""The common part of the dialects' encoders of responses: which event is encoded when.

Lifecycle events, the finish reason and the usage are kept: no byte is sent before there is
content, so that another channel may still be tried, and no end before the upstream has ended
(reference 2.6). Each dialect has its own encoder.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from channels.dialects.token_counts import Usage
from channels.translation import events
from channels.translation.model import Media


class EventEncoder(ABC):
    """Encodes one response, streamed or whole. Made for one attempt, used from one task.

    `_finished` and `_usage` are kept for the end; `_has_refusal`: the model refused in its own
    text. The defaults are the class's, so that an encoder is made of what it has seen.
    """

    _finished: events.Finished | None = None
    _has_refusal: bool = False
    _usage: Usage | None = None
    _is_over: bool = False

    def encode_event(self, event: events.Event) -> bytes:
        """Return the bytes of the event; empty if it is kept, or after the end."""
        if self._is_over:
            return b""
        if type(event) is events.TextDelta:
            return self._text(event.text)
        if type(event) is events.CallDelta:
            return self._call_delta(event)
        if type(event) is events.ThinkingDelta:
            return self._thinking(event)
        if type(event) is events.UsageStated:
            self._usage = event.usage
        elif type(event) is events.Finished:
            self._finished = event
        elif type(event) is events.Ended:
            self._is_over = True
            return self._end()
        elif type(event) is events.CallBegan:
            return self._call_began(event)
        elif type(event) is events.RefusalDelta:
            self._has_refusal = True
            return self._refusal(event.text)
        elif type(event) is events.MediaDelta:
            return self._media(event.media)
        elif type(event) is events.Citation:
            return self._citation(event)
        elif type(event) is events.StreamFailed:
            self._is_over = True
            return self._failed(event)
        return b""

    def encode_texts(self, texts: Sequence[bytes], characters: int) -> bytes | None:
        """See ResponseEncoder."""
        return None

    @abstractmethod
    def _text(self, text: str) -> bytes: ...

    @abstractmethod
    def _refusal(self, text: str) -> bytes: ...

    @abstractmethod
    def _thinking(self, event: events.ThinkingDelta) -> bytes: ...

    @abstractmethod
    def _media(self, media: Media) -> bytes: ...

    @abstractmethod
    def _call_began(self, event: events.CallBegan) -> bytes: ...

    @abstractmethod
    def _call_delta(self, event: events.CallDelta) -> bytes: ...

    def _citation(self, citation: events.Citation) -> bytes:
        """Return nothing, for protocols without a member for sources."""
        return b""

    def _failed(self, event: events.StreamFailed) -> bytes:
        """Return nothing, for a whole response, which has no such event."""
        return b""

    @abstractmethod
    def _end(self) -> bytes: ...
