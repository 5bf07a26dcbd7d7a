"""Events of a stream that differ in some text alone, read all at once.

Most of a stream says a few more words, event after event, and around them nothing changes. Once
two events in a row have begun alike, and it is proved that what stands behind that beginning is
text and does nothing else, those that follow need not be decoded: a run of them is cut at what lies
between two texts, in one search.

The proof is the reading itself: the event is read with other words in that place, and says exactly
these. A text that has an escape in it, or anything else that JSON or the framing might care about,
is no part of a run.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

# So many events that were in no run, one after the other, and runs are looked for no longer: the
# events of some upstreams are numbered, or padded at random.
MISSES_MAX = 16
_PROBE = "These are other words."


class Run(Struct, frozen=True, gc=False):
    """Texts that stand one after the other at the beginning of some bytes.

    `texts` are as the events have them, which is UTF-8 without escapes; `size` is the bytes of the
    events, `characters` the code points of the texts.
    """

    texts: list[bytes]
    size: int
    characters: int


class AlikeEvents:
    """What the present events of one stream have in common, once that is known.

    `mark` is what stands before a text.
    """

    __slots__ = ("_between", "_candidate", "_head", "_mark", "_misses", "_tail")

    def __init__(self, mark: bytes) -> None:
        self._mark = mark
        self._candidate: tuple[bytes, bytes] | None = None
        self._head = self._tail = self._between = b""
        self._misses = 0

    def __repr__(self) -> str:
        return f"<AlikeEvents {self._head!r}...{self._tail!r}, {self._misses} misses>"

    @property
    def has_given_up(self) -> bool:
        """Whether the events of this stream are not alike."""
        return self._misses >= MISSES_MAX

    def run(self, data: bytes) -> Run | None:
        """The run at the beginning of some bytes; they must begin where an event does."""
        head, tail = self._head, self._tail
        if not head or not data.startswith(head):
            return None
        if data.endswith(tail):  # one event, as a read of a stream at its pace brings
            text = data[len(head) : -len(tail)]
            said = _plain([text]) if len(data) >= len(self._between) else None
            if said is not None:
                self._misses = 0
                return Run([text], len(data), len(said))
        texts = data[len(head) :].split(self._between)
        # A text has no quotation mark, and the tail begins with one.
        texts[-1], tail_found, _ = texts[-1].partition(tail)
        if not tail_found:
            texts.pop()
        said = _plain(texts)
        if said is None:
            place = next(place for place, text in enumerate(texts) if _plain([text]) is None)
            del texts[place:]
            said = _plain(texts)
        if not texts or said is None:
            return None
        self._misses = 0
        size = sum(map(len, texts)) + len(texts) * len(self._between)
        return Run(texts, size, len(said) - len(texts) + 1)

    def learn(self, event: bytes, rest: bytes, is_text: Callable[[bytes, str], bool]) -> None:
        """Look at an event that was in no run and has been read, its framing included.

        `rest` is what has come behind it. `is_text` reads an event: whether it is one, says this
        text and does nothing else, whatever was said before.
        """
        self._misses += 1
        start = event.find(self._mark) + len(self._mark)
        end = event.find(b'"', start)
        if start < len(self._mark) or end < 0:
            self._candidate = None
            return
        candidate = event[:start], event[end:]
        if candidate != self._candidate and not rest.startswith(candidate[0]):
            self._candidate = candidate
        elif candidate != (self._head, self._tail) and _is_proved(*candidate, is_text):
            self._head, self._tail = candidate
            self._between = self._tail + self._head


def _is_proved(head: bytes, tail: bytes, is_text: Callable[[bytes, str], bool]) -> bool:
    probe = _PROBE.encode()
    # They must come from this place: nor may the event have them elsewhere, if only in escapes.
    if any(one in around for one in (probe, b"\\") for around in (head, tail)):
        return False
    return is_text(head + probe + tail, _PROBE)


def _plain(texts: list[bytes]) -> str | None:
    """The texts with a space between them; None where one is more than it looks."""
    try:
        said = b" ".join(texts).decode()
    except UnicodeDecodeError:
        return None
    return said if said.isprintable() and '"' not in said and "\\" not in said else None
