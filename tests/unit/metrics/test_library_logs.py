"""What libraries and Python itself log comes out in the same form as our events."""

from __future__ import annotations

import asyncio
import logging
import warnings
from collections.abc import Callable

import pytest
import ujson

from metrics.logs import JsonFormatter
from tests.support.aio import run
from tests.unit.metrics.worlds import Lines

ExpectLog = Callable[..., None]


@pytest.mark.parametrize("name", ["tornado.application", "redis", "aiopg", "asyncio"])
def test_library_logs_through_the_same_form(lines: Lines, expect_log: ExpectLog, name: str) -> None:
    expect_log(name)
    logging.getLogger(name).warning("lost %s at\n%d with Bearer %s", "it", 3, "abcdef")
    line = lines.one()
    assert line["logger"] == name
    assert line["action"] == "logged"
    assert line["message"] == "lost it at\n3 with Bearer ***"


def test_library_with_wrong_arguments_is_formatted_all_the_same() -> None:
    record = logging.LogRecord("tornado", logging.INFO, "", 0, "%d of %d", ("some",), None)
    assert ujson.loads(JsonFormatter().format(record))["message"] == "%d of %d ('some',)"


def test_task_exception_nobody_retrieved_is_a_line(lines: Lines, expect_log: ExpectLog) -> None:
    expect_log("asyncio")

    async def main() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(None)  # asyncio's own, which logs
        loop.call_exception_handler({"message": "lost", "exception": ValueError("bad")})

    run(main())
    line = lines.one()
    assert (line["logger"], line["error"]) == ("asyncio", "ValueError: bad")


def test_python_warning_is_a_line(lines: Lines, expect_log: ExpectLog) -> None:
    expect_log("py.warnings")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(False)  # catch_warnings put the plain printer back
        logging.captureWarnings(True)
        warnings.warn("old habit", DeprecationWarning, stacklevel=1)
    line = lines.one()
    assert line["logger"] == "py.warnings"
    assert "DeprecationWarning: old habit" in line["message"]


def test_stack_info_of_a_library_is_a_field(lines: Lines) -> None:
    logging.getLogger("asyncio").info("slow", stack_info=True)
    assert lines.one()["stack"].startswith("Stack (most recent call last)")
