"""What stops a request to a path of Tornado's own server: a guard's form, and their table's."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from tests.unit.http.client import request

R = TypeVar("R")


@dataclass(frozen=True, kw_only=True)
class PathGuard(Generic[R]):
    """What stops a request to a row, by what, and what its client is sent.

    `methods` are those of the row that have this guard: none where it has not.
    """

    name: str
    status: int
    methods: Callable[[R], Sequence[str]]
    host: str = "gateway"
    lines: Callable[[R], Sequence[str]] = lambda row: ()
    headers: Callable[[R, str], Mapping[str, str]] = lambda row, method: {}

    def head(self, row: R, method: str, path: str, body: bytes, *more: str, key: str | None) -> str:
        """The head of the request, with the lines of `more` that it does not have itself."""
        lines = list(self.lines(row))
        names = {line.partition(":")[0] for line in lines}
        if not names & {"Content-Length", "Transfer-Encoding"}:
            lines.append(f"Content-Length: {len(body)}")
        lines += [line for line in more if line.partition(":")[0] not in names]
        head = request(method, path, *lines, key=key)
        return head.replace("Host: gateway", f"Host: {self.host}")


G = TypeVar("G", bound=PathGuard)  # type: ignore[type-arg]


def walk(guards: Iterable[G], rows: Iterable[R]) -> Iterator[tuple[G, R, str]]:
    """Each guard with each row and method that has it."""
    among = list(rows)
    for guard in guards:
        for row in among:
            for method in guard.methods(row):
                yield guard, row, method


def section(
    heading: str,
    columns: Sequence[str],
    guards: Sequence[PathGuard[R]],
    rows: Iterable[tuple[R, Sequence[str]]],
) -> str:
    """The part of the matrix that shows rows, each with its cells, and which guards it has."""
    lines = [[*columns, *(guard.name for guard in guards)]]
    lines.append(["---"] * len(lines[0]))
    for row, cells in rows:
        met = [str(guard.status) if guard.methods(row) else "" for guard in guards]
        lines.append([*cells, *met])
    table = "\n".join("| " + " | ".join(line) + " |" for line in lines)
    return f"{heading}\n{table}\n"
