"""Split a byte stream into server-sent events without losing a byte.

An event keeps its original bytes (`raw`), so that it can be passed on unchanged, and its data. No
I/O; `channels/dialects` interprets the data.

Rules (WHATWG HTML, 9.2.6): a line ends with LF, CR LF or CR; a blank line ends the event; a byte
order mark at the very beginning is skipped; a line that begins with a colon is a comment.
"""

from __future__ import annotations

import re

import msgspec

from channels.errors import UpstreamMalformed

# An image inside one event takes megabytes; no valid event takes more than this.
EVENT_BYTES_MAX = 32 * 1024 * 1024

# A common event has one line; no JSON is written over more than these.
EVENT_LINES_MAX = 16 * 1024
# A longer piece has large events, for which the per-event path costs little.
USUAL_BYTES_MAX = 64 * 1024

_BOM = b"\xef\xbb\xbf"
_BLANK_LINES = re.compile(rb"\n++")


class SseEvent(msgspec.Struct, frozen=True, gc=False):
    """One event: its bytes with the blank line that ends it, its data lines joined, its name.

    `data` is None for comments and blank lines. Consecutive blank lines that end no event are one
    event per piece.
    """

    raw: bytes
    data: bytes | None
    event: bytes | None = None


class SseSplitter:
    """Takes bytes in any pieces and returns whole events; work is linear in the bytes fed.

    The raw bytes of all events and `pending()` make up what was fed. An event that ends with a CR
    is returned at once if its lines end with CR; if they end with CR LF, the LF follows and belongs
    to the event.
    """

    __slots__ = (
        "_at_line_start",
        "_event_bytes_max",
        "_is_first",
        "_is_half_ended",
        "_last_was_cr",
        "_lines",
        "_pending",
    )

    def __init__(self, *, event_bytes_max: int = EVENT_BYTES_MAX) -> None:
        self._event_bytes_max = event_bytes_max
        self._pending = bytearray()  # the incomplete last event
        self._lines = 0  # line ends of earlier pieces in it
        self._at_line_start = True  # a line end here would be a blank line
        self._last_was_cr = False
        self._is_half_ended = False  # the pending bytes end with CR LF CR
        self._is_first = True

    def __repr__(self) -> str:
        return f"<SseSplitter {len(self._pending)} bytes pending>"

    @property
    def is_within_event(self) -> bool:
        """Whether the next piece continues an event."""
        return bool(self._pending)

    @property
    def is_between_events(self) -> bool:
        """Whether the next piece begins with an event, if it begins with neither CR nor LF."""
        return not self._pending and not self._last_was_cr

    def pending(self) -> bytes:
        """Return the bytes of the last, incomplete event."""
        return bytes(self._pending)

    def whole_events(self, piece: bytes) -> list[bytes] | None:
        """Return the data of each event of a piece that has only whole events of the common form.

        That is one data line, alone or after a line that names the event. Any other piece returns
        None and has to be fed. Each blank line of such a piece ends an event, and no other bytes
        look like an event.
        """
        if (
            self._pending
            or self._last_was_cr
            or not piece.endswith(b"\n\n")
            or b"\r" in piece
            or len(piece) > USUAL_BYTES_MAX
        ):
            return None
        # Lines are counted, so that none is hidden within the data.
        end = len(piece) - 2
        first_line = piece.find(b"\n")
        if first_line == end and piece.startswith(b"data: "):
            datas = [piece[6:end]]
        elif (
            piece.find(b"\n", first_line + 1) == end
            and piece.startswith(b"event: ")
            and piece.startswith(b"data: ", first_line + 1)
        ):
            datas = [piece[first_line + 7 : end]]
        elif piece.startswith(b"data: "):
            datas = piece[6:-2].split(b"\n\ndata: ")
            if piece.count(b"\n") != 2 * len(datas):
                return None
        elif piece.startswith(b"event: "):
            datas = []
            for event in piece[:-2].split(b"\n\n"):
                name, _, data = event.partition(b"\ndata: ")
                if not name.startswith(b"event: ") or len(name) + len(data) + 7 != len(event):
                    return None
                datas.append(data)
            if piece.count(b"\n") != 3 * len(datas):
                return None
        else:
            return None
        self._is_first = False
        return datas

    def feed(self, data: bytes) -> list[SseEvent]:
        """Return the events that `data` completes. Raises UpstreamMalformed if one is too large."""
        if not data:
            return []
        has_cr = self._last_was_cr or b"\r" in data
        events: list[SseEvent] = []
        if has_cr:
            start = self._feed_lines(data, events)
        else:
            start = self._feed_lf(data, events)
        if start < len(data):
            self._pending += data[start:] if start else data
            if len(self._pending) > self._event_bytes_max:
                raise self._too_large()
            self._lines += data.count(b"\n", start) + data.count(b"\r", start)
            if self._lines > EVENT_LINES_MAX:
                raise UpstreamMalformed(f"an event of more than {EVENT_LINES_MAX} lines")
        return events

    def _feed_lf(self, data: bytes, events: list[SseEvent]) -> int:
        """Split a stream without CR; return where the incomplete event begins in `data`."""
        start = 0
        size = len(data)
        while start < size:
            if self._at_line_start and data[start] == 10:
                if not self._pending:
                    found = _BLANK_LINES.match(data, start)
                    assert found is not None
                    end = found.end()
                    events.append(self._blank(data[start:end]))
                    start = end
                    continue
                end = start + 1
            else:
                end = data.find(b"\n\n", start) + 2
                if end == 1:
                    self._at_line_start = data[-1] == 10
                    return start
            raw = data[start:end]
            if (
                not self._pending
                and raw.startswith(b"data: ")
                and raw.find(b"\n") == end - start - 2
                and end - start <= self._event_bytes_max
            ):
                events.append(SseEvent(raw, raw[6:-2]))
                self._is_first = False
            else:
                events.append(self._complete(raw))
            self._at_line_start = True
            start = end
        return start

    def _feed_lines(self, data: bytes, events: list[SseEvent]) -> int:
        """Split a stream with CR line by line; return the same as `_feed_lf`."""
        start = end = 0
        if self._is_half_ended:
            self._is_half_ended = False
            start = end = 1 if data[0] == 10 else 0
            events.append(self._complete(data[:end]))
        elif self._last_was_cr and data[0] == 10:  # the LF of a CR LF cut in two
            if self._pending:
                self._pending += b"\n"
            else:
                events.append(SseEvent(b"\n", None))
            start = end = 1
        is_blank = False  # only blank lines since `start`
        for line in data[start:].splitlines(keepends=True):
            end += len(line)
            last = line[-1]
            if self._at_line_start and len(line) <= 2 and line in (b"\n", b"\r\n", b"\r"):
                if is_blank or (end - len(line) == start and not self._pending):
                    is_blank = True
                elif end == len(data) and line == b"\r" and self._ends_lines_by_crlf(data, start):
                    self._is_half_ended = True
                else:
                    events.append(self._complete(data[start:end]))
                    start = end
                continue
            if is_blank:
                events.append(self._blank(data[start : end - len(line)]))
                start = end - len(line)
                is_blank = False
            self._at_line_start = last == 10 or last == 13
        if is_blank:
            events.append(self._blank(data[start:]))
            start = end
        self._last_was_cr = data[-1:] == b"\r"
        return start

    def _ends_lines_by_crlf(self, data: bytes, start: int) -> bool:
        """Whether the line before the last, blank one ended with CR LF."""
        before = data[max(start, len(data) - 3) : -1]
        return (self._pending[-2:] + before).endswith(b"\r\n")

    def _blank(self, lines: bytes) -> SseEvent:
        """Return the event of blank lines that end no event."""
        self._is_first = False
        return SseEvent(lines, None)

    def _complete(self, tail: bytes) -> SseEvent:
        """Return the event that `tail` ends; parsed once, however many pieces it had."""
        raw = tail
        if self._pending:
            self._pending += tail
            raw = bytes(self._pending)
            self._pending.clear()
            self._lines = 0
        if len(raw) > self._event_bytes_max:
            raise self._too_large()
        text = raw
        if self._is_first:
            self._is_first = False
            text = raw.removeprefix(_BOM)
        # One data line, the common case.
        if text.startswith(b"data: ") and text.find(b"\n") == len(text) - 2 and b"\r" not in text:
            return SseEvent(raw, text[6:-2])
        return _parsed(raw, text)

    def _too_large(self) -> UpstreamMalformed:
        return UpstreamMalformed(f"an event of more than {self._event_bytes_max} bytes")


def _parsed(raw: bytes, text: bytes) -> SseEvent:
    """Parse an event's fields; `id` and `retry` concern reconnecting and are ignored."""
    data: list[bytes] = []
    event: bytes | None = None
    for line in text.splitlines():
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            data.append(value)
        elif field == b"event":
            event = value
    return SseEvent(raw, b"\n".join(data) if data else None, event)
