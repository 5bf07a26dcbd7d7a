"""Fails a test that logs a warning nobody expected, after Tornado's ExpectLog.

Watches what reaches the root logger. The fixtures around it are in `tests/conftest.py`.
"""

import logging
from collections.abc import Callable

import pytest

# `expect_log` of a test: allows records by these names; `required=False` if they may stay away.
ExpectLog = Callable[..., None]


def logs(*names: str, required: bool = True) -> pytest.MarkDecorator:
    """Mark a test that logs these; with `required` each must have come by its end."""
    return pytest.mark.logs(*names, required=required)


class LogWatch(logging.Handler):
    """Collects records of WARNING and above, apart from those that were named."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._allowed: set[str] = set()
        self._required: set[str] = set()
        self._records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        """Keep the record until the end of the test."""
        self._records.append(record)

    def expect(self, *names: str, required: bool = True) -> None:
        """Allow records of these names; with `required` each must have come by the end.

        A name is a record's action (`channel_opened`), its logger (`tornado.access`) or its whole
        message.
        """
        self._allowed.update(names)
        if required:
            self._required.update(names)

    def faults(self) -> list[str]:
        """Return one line for each unexpected record and each required one that did not come."""
        lines = []
        missing = set(self._required)
        for record in self._records:
            names = _names(record)
            missing -= names
            if not names & self._allowed:
                lines.append(f"unexpected log: {record.levelname} {record.name}: {_text(record)}")
        return lines + [f"expected log did not come: {name}" for name in sorted(missing)]


def _names(record: logging.LogRecord) -> set[str]:
    return {str(getattr(record, "action", "")), record.name, record.getMessage()}


def _text(record: logging.LogRecord) -> str:
    text = f"{getattr(record, 'action', '')} {record.getMessage()}"
    if record.exc_info and record.exc_info[1] is not None:
        text += f" ({record.exc_info[1]!r})"
    return text
