"""The log: one line of JSON for each event, on stderr, from our code and from libraries alike.

    {"ts": "…Z", "level": "warning", "logger": "actors.channel", "action": "channel_opened",
     "message": "channel opened", "channel": "openai-a", "was": "closed"}

`action` is our name of the event, in the past tense; a line of a library has `logged`. Values are
converted to JSON (`plain_values.py`), secrets redacted (`log_redaction.py`), and lines written in a
thread of their own (`line_writer.py`), so that no caller waits for the reader. The command line
calls `configure`.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final, TextIO

import ujson

from metrics.line_writer import LineWriter, Sink, descriptor_sink
from metrics.plain_values import plain, printed, text

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
