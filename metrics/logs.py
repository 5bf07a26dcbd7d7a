"""The log: one line of JSON for each event, on stderr, from our code and from libraries alike.

    {"ts": "…Z", "level": "warning", "logger": "actors.channel", "action": "channel_opened",
     "message": "channel opened", "channel": "openai-a", "was": "closed"}

`action` is our name of the event, in the past tense; a line of a library has `logged`. This file
converts values to JSON, redacts secrets, and writes in a thread of its own, so that no caller waits
for the reader. The command line calls `configure`.
"""

from __future__ import annotations

import logging
import math
import os
import re
import select
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import contextmanager
from datetime import UTC, datetime
from queue import Empty, SimpleQueue
from typing import Any, Final, TextIO

import ujson

# Writes lines for callers that must not wait: in a separate thread, from a bounded queue.
#
# An unread pipe holds some 64 KB and then blocks its writers; a full disk refuses. Here only the
# thread waits. Lines that do not fit into the queue, or cannot be written, are lost and counted,
# and as soon as there is room again one line reports their number. Lines are written whole, as many
# at once as fit into one atomic write to a pipe: several processes that share one do not interleave
# their lines, unless a line is longer than that.

# Limit of lines waiting to be written; an hour of an ordinary log.
QUEUE_BYTES_MAX: Final = 4 * 1024 * 1024
# The size of an atomic write to a pipe.
ATOMIC_BYTES: Final = select.PIPE_BUF

# Writes these bytes, however long it takes, or raises OSError.
Sink = Callable[[bytes], object]


def descriptor_sink(fd: int) -> Sink:
    """Write to a file descriptor, which may be non-blocking."""

    def write(data: bytes) -> None:
        while data:
            try:
                data = data[os.write(fd, data) :]
            except BlockingIOError:
                select.select((), (fd,), ())

    return write


class LineWriter:
    """One thread that writes to `sink`; `lost_line` makes the line that reports lost ones.

    Writers take turns; they share no lock with the thread, so that even a line logged within
    garbage collection waits for no other.
    """

    def __init__(self, sink: Sink, lost_line: Callable[[int], bytes]) -> None:
        self._sink = sink
        self._lost_line = lost_line
        self._queue: SimpleQueue[bytes | threading.Event] = SimpleQueue()
        self._ended = threading.Event()
        # Of the writers.
        self._given_bytes = 0
        self._crowded_out = 0  # lines
        # Of the thread.
        self._next: bytes | threading.Event | None = None
        self._done_bytes = 0
        self._unwritten = 0  # lines
        self._reported = 0  # of the lost
        # A daemon, so that the process does not wait for it at exit.
        threading.Thread(target=self._run, name="log", daemon=True).start()

    def __repr__(self) -> str:
        return f"<LineWriter {self.waiting_bytes} bytes waiting {self.lost} lines lost>"

    @property
    def lost(self) -> int:
        """The number of lines that could not be written so far."""
        return self._crowded_out + self._unwritten

    @property
    def waiting_bytes(self) -> int:
        """The number of bytes still to be written."""
        return self._given_bytes - self._done_bytes

    def write(self, line: bytes) -> None:
        """Queue a line, which has its line end. Never waits and never raises."""
        if self.waiting_bytes + len(line) > QUEUE_BYTES_MAX:
            self._crowded_out += 1
            return
        self._given_bytes += len(line)
        self._queue.put(line)

    def flush(self, seconds: float) -> bool:
        """Wait until all lines are written or lost, at most so long; False on timeout."""
        done = threading.Event()
        self._queue.put(done)
        return self._ended.is_set() or done.wait(seconds)

    def close(self) -> None:
        """Write nothing that is queued from now on."""
        self._queue.put(self._ended)

    def _run(self) -> None:
        while not self._ended.is_set():
            lines = self._taken()
            if self._is_written(b"".join(lines)):
                self._say_what_is_lost()
            else:
                self._unwritten += len(lines)
            self._done_bytes += sum(map(len, lines))

    def _taken(self) -> list[bytes]:
        """Take the next line, and those that fit into one write with it; none at the end."""
        lines: list[bytes] = []
        size = 0
        item, self._next = self._next, None
        while True:
            if item is None:
                try:
                    item = self._queue.get(block=not lines)
                except Empty:
                    return lines
            if isinstance(item, bytes) and (not lines or size + len(item) <= ATOMIC_BYTES):
                lines.append(item)
                size += len(item)
            elif lines:
                self._next = item
                return lines
            else:
                assert isinstance(item, threading.Event)
                item.set()
                if item is self._ended:
                    return lines
            item = None

    def _say_what_is_lost(self) -> None:
        lost = self.lost
        if lost == self._reported or self.waiting_bytes > QUEUE_BYTES_MAX // 2:
            return
        if self._is_written(self._lost_line(lost - self._reported)):
            self._reported = lost

    def _is_written(self, data: bytes) -> bool:
        try:
            self._sink(data)
        except (OSError, ValueError):  # a full disk, a closed pipe, a closed stream
            return False
        return True


# Removes secrets from text before it is logged.
#
# A safety net for code that should not log them at all. Upstreams' addresses and names are no
# secret to an operator and are kept; `channels/redaction.py` has the redaction for clients, and the
# list of the process's known secrets, which are removed first (`hide`).

REDACTED: Final = "***"

# Characters that end a value in a header, a URL, a repr or JSON text. A redacted value is left
# unchanged; of our own keys an operator can see which one it was.
_VALUE: Final = r"(?!sk-platform-[0-9a-f]{4}\*{3}|\[redacted\])[^\s\"'\\&,;)}\]>]+"
# Between a name and its value: `name: value`, `name=value`, `'name': 'value'`, `("name", "value")`.
_BETWEEN: Final = r"(?:\\?[\"']?\s*[:=]\s*|\\?[\"'],\s*)(?:b?\\?[\"'])?"
# The bound on the prefix of `api_key` keeps the search linear.
_NAMES: Final = (
    r"(?:proxy[-_])?authorization|[\w-]{0,40}api[-_]?key|password|passwd"
    r"|(?:client|access|refresh|gw)[-_](?:secret|token)"
)

_OWN_PREFIX: Final = "sk-platform-"
_OWN_KEY: Final = re.compile(r"(sk-platform-[0-9a-f]{4})[0-9a-z]+", re.IGNORECASE)

# In this order: a longer match must precede those of its parts.
_RULES: Final[tuple[tuple[re.Pattern[str], str], ...]] = tuple(
    (re.compile(pattern, re.IGNORECASE), replacement)
    for pattern, replacement in (
        (_OWN_KEY.pattern, rf"\1{REDACTED}"),
        # Headers, fields and parameters, with or without a scheme.
        (rf"\b(Bearer\s+){_VALUE}", rf"\1{REDACTED}"),
        (
            rf"\b((?:{_NAMES}){_BETWEEN}(?:(?:Basic|Bearer|Token)\s+)?+){_VALUE}",
            rf"\1{REDACTED}",
        ),
        (r"\b((?:set[-_])?cookie\\?[\"']?\s*[:=]\s*\\?[\"']?)[^\r\n\"'\\]+", rf"\1{REDACTED}"),
        (rf"([?&]key=){_VALUE}", rf"\1{REDACTED}"),
        # Other providers' keys, as in their error messages.
        (r"(?<![a-z0-9])(sk-)(?!platform-)[\w*.-]{8,}", rf"\1{REDACTED}"),
        (r"(?<![a-z0-9])(AIza)[\w-]{8,}", rf"\1{REDACTED}"),
        # The password in the URL of a database.
        (r"(://[^/\s:@\"']*:)[^/\s@\"']+(@)", rf"\1{REDACTED}\2"),
    )
)

_SECRET_NAME: Final = re.compile(rf"(?:{_NAMES}|(?:set[-_])?cookie|secret)", re.IGNORECASE)


# Removes the known secrets from a text, exactly.
_known: Callable[[str], str] = str


def hide(known: Callable[[str], str]) -> None:
    """Apply `known` to every text from now on, before the patterns."""
    global _known
    _known = known


def redact(text: str) -> str:
    """Return `text` with the secrets in it redacted."""
    text = _known(text)
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text


def without_keys(text: str) -> str:
    """Return `text` with keys of clients redacted, and nothing else.

    A client may send one in any field, and a message that repeats the field is shown to others.
    """
    return _OWN_KEY.sub(rf"\1{REDACTED}", text) if _OWN_PREFIX in text else text


def names_a_secret(name: str) -> bool:
    """Whether a field of this name holds a secret, whatever its value."""
    return _SECRET_NAME.fullmatch(name) is not None


# Converts any value to plain JSON values for a log line, without ever raising.
#
# Bounded in depth, width and length: a log line is not the place for a request body. Secrets are
# redacted.

DEPTH_MAX: Final = 6
ITEMS_MAX: Final = 100
TEXT_CHARACTERS_MAX: Final = 8_000

_INTEGER_MAX: Final = 2**63


def plain(value: object, depth: int = DEPTH_MAX) -> Any:
    """Return `value` as str, int, float, bool, None, list or dict of those."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return text(value)
    if isinstance(value, int) and abs(value) < _INTEGER_MAX:
        return int(value)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    if depth <= 0:
        return printed(value)
    try:
        if isinstance(value, Mapping):
            return _plain_mapping(value, depth)
        if isinstance(value, list | tuple | Set):
            return [plain(item, depth - 1) for item in list(value)[:ITEMS_MAX]]
    except Exception as error:  # noqa: BLE001 - a container of a foreign class may do anything
        return f"<unreadable {type(value).__name__}: {type(error).__name__}>"
    return printed(value)


def text(value: str) -> str:
    """Return `value` redacted and truncated to the maximum length in a log line."""
    # Truncated twice: the patterns must not scan megabytes, and redactions must not be split.
    shown = redact(value[: 2 * TEXT_CHARACTERS_MAX])
    if len(shown) <= TEXT_CHARACTERS_MAX and len(value) <= 2 * TEXT_CHARACTERS_MAX:
        return shown
    return f"{shown[:TEXT_CHARACTERS_MAX]}… ({len(value)} characters)"


def printed(value: object) -> str:
    """Return `value` as text: an error with its type, bytes decoded, anything else by `str`."""
    try:
        if isinstance(value, BaseException):
            return text(f"{type(value).__name__}: {value}".removesuffix(": "))
        if isinstance(value, bytes | bytearray):
            return text(bytes(value[: 2 * TEXT_CHARACTERS_MAX]).decode("utf-8", "replace"))
        return text(str(value))
    except Exception as error:  # noqa: BLE001 - its __str__ may do anything
        return f"<unprintable {type(value).__name__}: {type(error).__name__}>"


def _plain_mapping(value: Mapping[Any, Any], depth: int) -> dict[str, Any]:
    shown: dict[str, Any] = {}
    for name, item in list(value.items())[:ITEMS_MAX]:
        key = name if isinstance(name, str) else printed(name)
        shown[text(key)] = REDACTED if names_a_secret(key) else plain(item, depth - 1)
    return shown


LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "critical": logging.CRITICAL,
}
# Fields of the line itself; an event's field with such a name gets an underscore.
RESERVED: Final = frozenset({"ts", "level", "logger", "action", "message", "stack"})
LIBRARY_ACTION: Final = "logged"
STACK_CHARACTERS_MAX: Final = 6_000
# The time to wait at exit until the log is read.
FLUSH_SECONDS: Final = 1.0


def configure(stream: TextIO, level: str = "info") -> None:
    """Send everything that is logged or warned in this process to `stream`, as JSON lines.

    Replaces every handler that wrote to a stream before. Raises ValueError for a level that is not
    one of LEVELS.
    """
    if level not in LEVELS:
        raise ValueError(f"unknown log level {level!r}, allowed are {', '.join(LEVELS)}")
    root = logging.getLogger()
    for handler in list(root.handlers):
        if isinstance(handler, logging.StreamHandler | LineHandler):
            root.removeHandler(handler)
            handler.flush()
            handler.close()
    root.addHandler(LineHandler(_sink(stream)))
    root.setLevel(LEVELS[level])
    logging.captureWarnings(True)


@contextmanager
def events_shown(name: str, stream: TextIO) -> Iterator[None]:
    """Send the events of one part to `stream` for a while, in addition to the log."""
    logger, handler = logging.getLogger(name), LineHandler(_sink(stream))
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.setLevel(level)
        logger.removeHandler(handler)
        handler.flush()
        handler.close()


def set_level(level: str) -> None:
    """Log from this level on, a key of LEVELS."""
    logging.getLogger().setLevel(LEVELS[level])


def write_line(line: str) -> None:
    """Write a line that is not an event, among those of the log; nowhere before `configure`."""
    for handler in _line_handlers():
        with handler.turn():
            handler.writer.write(f"{line}\n".encode())


def flush() -> None:
    """Wait until all lines are written, at most FLUSH_SECONDS."""
    for handler in _line_handlers():
        handler.flush()


def lines_lost() -> int:
    """Return how many lines this process could not write."""
    return sum(handler.writer.lost for handler in _line_handlers())


class LineHandler(logging.Handler):
    """Writes each record as a line, in another thread."""

    def __init__(self, sink: Sink) -> None:
        super().__init__()
        self.setFormatter(JsonFormatter())
        self.writer = LineWriter(sink, self._lost)

    def emit(self, record: logging.LogRecord) -> None:
        """Queue the line; `handle` has acquired the lock."""
        self.writer.write(f"{self.format(record)}\n".encode())

    def flush(self) -> None:
        """Wait for the thread, at most FLUSH_SECONDS; called at exit."""
        self.writer.flush(FLUSH_SECONDS)

    def close(self) -> None:
        """End the thread when it has written all lines."""
        self.writer.close()
        super().close()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Hold the writers' lock."""
        self.acquire()
        try:
            yield
        finally:
            self.release()

    def _lost(self, count: int) -> bytes:
        record = logging.LogRecord(__name__, logging.WARNING, "", 0, "log lines lost", None, None)
        record.action, record.fields = "log_lines_lost", {"count": count}
        return f"{self.format(record)}\n".encode()


def _line_handlers() -> list[LineHandler]:
    return [one for one in logging.getLogger().handlers if isinstance(one, LineHandler)]


def _sink(stream: TextIO) -> Sink:
    try:
        return descriptor_sink(stream.fileno())
    except OSError:  # in memory
        return lambda data: stream.write(data.decode())


class EventLog:
    """Logs events of one part of the gateway. Fields of any type are converted to plain values."""

    __slots__ = ("_logger",)

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def __repr__(self) -> str:
        return f"<EventLog {self._logger.name}>"

    def debug(self, action: str, /, **fields: Any) -> None:
        """Log a detail for developers."""
        self._log(logging.DEBUG, action, fields, exc_info=False)

    def info(self, action: str, /, **fields: Any) -> None:
        """Log a normal event."""
        self._log(logging.INFO, action, fields, exc_info=False)

    def warning(self, action: str, /, *, exc_info: bool = False, **fields: Any) -> None:
        """Log a fault that the gateway handles."""
        self._log(logging.WARNING, action, fields, exc_info=exc_info)

    def error(self, action: str, /, *, exc_info: bool = False, **fields: Any) -> None:
        """Log a fault that needs attention."""
        self._log(logging.ERROR, action, fields, exc_info=exc_info)

    def _log(self, level: int, action: str, fields: dict[str, Any], *, exc_info: bool) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(
                level,
                action.replace("_", " "),
                exc_info=exc_info,
                extra={"action": action, "fields": fields},
            )


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON. Never raises, whatever the record holds."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, in ASCII and without its end."""
        line: dict[str, Any] = {
            "ts": _timestamp(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "action": plain(getattr(record, "action", LIBRARY_ACTION)),
            "message": _message(record),
        }
        fields = getattr(record, "fields", None)
        if isinstance(fields, Mapping):
            for name, value in plain(fields).items():
                line[f"{name}_" if name in RESERVED else name] = value
        if record.exc_info and record.exc_info[1] is not None:
            line.setdefault("error", printed(record.exc_info[1]))
            line["stack"] = _stack(record.exc_info[1])
        elif record.stack_info:
            line["stack"] = _end(text(record.stack_info))
        return ujson.dumps(line, escape_forward_slashes=False)


def _timestamp(seconds: float) -> str:
    moment = datetime.fromtimestamp(seconds, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _message(record: logging.LogRecord) -> str:
    try:
        return text(record.getMessage())
    except Exception:  # noqa: BLE001 - a library's arguments need not fit its format
        return f"{printed(record.msg)} {printed(record.args)}"


def _stack(error: BaseException) -> str:
    try:
        return _end("".join(traceback.format_exception(error)))
    except Exception as fault:  # noqa: BLE001 - an exception may fail to print itself
        return f"<unprintable stack: {type(fault).__name__}>"


def _end(stack: str) -> str:
    """Return the end of a stack, which has the failing line."""
    return text(stack[-STACK_CHARACTERS_MAX:])
