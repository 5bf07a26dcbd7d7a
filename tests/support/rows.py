"""A table of cases within one test: every row runs, and those that fail are listed together."""

from __future__ import annotations

import functools
import inspect
import traceback
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar, cast

import pytest

Test = TypeVar("Test", bound=Callable[..., Any])
SHOWN_CHARACTERS_MAX = 200


def each(names: str, rows: Iterable[Any] | Callable[[], Iterable[Any]]) -> Callable[[Test], Test]:
    """Call the test with each row, as `pytest.mark.parametrize` does, but as one test.

    The rows share the test's fixtures and its watch over the log. A function that returns them is
    called when the test runs.
    """
    wanted = [name.strip() for name in names.split(",")]
    table = rows if callable(rows) else tuple(rows)

    def decorated(test: Test) -> Test:
        signature = inspect.signature(test)
        others = [one for name, one in signature.parameters.items() if name not in wanted]

        def cases() -> Iterator[dict[str, Any]]:
            for row in table() if callable(table) else table:
                values = row.values if isinstance(row, type(pytest.param())) else row
                is_single = len(wanted) == 1 and values is row
                yield dict(zip(wanted, (row,) if is_single else values, strict=True))

        @functools.wraps(test)
        def run(**fixtures: Any) -> None:
            faults = _Faults()
            for case in cases():
                with faults.of(case):
                    test(**case, **fixtures)
            faults.check()

        @functools.wraps(test)
        async def run_async(**fixtures: Any) -> None:
            faults = _Faults()
            for case in cases():
                with faults.of(case):
                    await test(**case, **fixtures)
            faults.check()

        wrapped: Any = run_async if inspect.iscoroutinefunction(test) else run
        wrapped.__signature__ = signature.replace(parameters=others)
        return cast(Test, wrapped)

    return decorated


def cases(names: str, *rows: Any) -> Callable[[Test], Test]:
    """Call the test with each of these rows, as `each` does with a table."""
    return each(names, rows)


class _Faults:
    """What has failed of the rows so far; a context in which a row runs."""

    def __init__(self) -> None:
        self._case: dict[str, Any] = {}
        self._count = 0
        self._texts: list[str] = []

    def of(self, case: dict[str, Any]) -> _Faults:
        """The context of this row."""
        self._case = case
        self._count += 1
        return self

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, Exception | pytest.fail.Exception):
            return False
        shown = ", ".join(f"{name}={value!r}" for name, value in self._case.items())
        result = "".join(traceback.format_exception(error)[-2:])
        self._texts.append(f"{shown[:SHOWN_CHARACTERS_MAX]}\n{result}")
        return True

    def check(self) -> None:
        """Fail where a row has failed, or where there was none."""
        assert self._count, "a table without rows"
        if self._texts:
            heading = f"{len(self._texts)} of {self._count} rows fail:"
            pytest.fail("\n\n".join([heading, *self._texts]), pytrace=False)
