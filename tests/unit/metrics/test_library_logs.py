"""What libraries and Python itself log comes out in the same form as our events."""

import asyncio
import logging
import warnings

import pytest
import ujson

from metrics.logs import JsonFormatter
from tests.support.logs import ExpectLog, logs
from tests.unit.metrics.worlds import Lines


@pytest.mark.parametrize("name", ["tornado.application", "redis", "aiopg", "asyncio"])
def test_library_logs_through_the_same_form(lines: Lines, expect_log: ExpectLog, name: str) -> None:
    expect_log(name)
    logging.getLogger(name).warning("lost %s at\n%d with Bearer %s", "it", 3, "abcdef")
    line = lines.one()
    assert line["logger"] == name
    assert line["action"] == "logged"
    assert line["message"] == "lost it at\n3 with Bearer ***"


def test_library_may_log_anything(lines: Lines) -> None:
    record = logging.LogRecord("tornado", logging.INFO, "", 0, "%d of %d", ("some",), None)
    assert ujson.loads(JsonFormatter().format(record))["message"] == "%d of %d ('some',)"
    logging.getLogger("asyncio").info("slow", stack_info=True)
    assert lines.one()["stack"].startswith("Stack (most recent call last)")


@logs("asyncio")
async def test_task_exception_nobody_retrieved_is_a_line(lines: Lines) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(None)  # asyncio's own, which logs
    loop.call_exception_handler({"message": "lost", "exception": ValueError("bad")})
    line = lines.one()
    assert (line["logger"], line["error"]) == ("asyncio", "ValueError: bad")


@logs("py.warnings")
def test_python_warning_is_a_line(lines: Lines) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(False)  # catch_warnings put the plain printer back
        logging.captureWarnings(True)
        warnings.warn("old habit", DeprecationWarning, stacklevel=1)
    line = lines.one()
    assert line["logger"] == "py.warnings"
    assert "DeprecationWarning: old habit" in line["message"]
