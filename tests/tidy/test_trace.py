"""The map's trace of one call is the code's own: its functions exist, and call each other so."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType

from tests.tidy.files import ROOT, tree
from tests.unit.calls import sse
from tests.unit.calls.world import response_of, world

_STEP = re.compile(r"(?P<number>\d?)(?P<indent> *)(?P<file>[\w/]+\.py):(?P<function>\w+)")
# Where the call of a test begins, and what stands in its place there.
BEGINNING = ("gw/calls/chat.py", "run_call")
FAKED = {("channels/http/client.py", "open")}

Function = tuple[str, str]  # a file and a name in it


@dataclass(frozen=True)
class Step:
    """A line of the trace, and the one that it stands under, if any."""

    function: Function
    above: Step | None

    def __str__(self) -> str:
        return ":".join(self.function)

    @property
    def is_of_the_use_case(self) -> bool:
        return self.function == BEGINNING or (
            self.above is not None and self.above.is_of_the_use_case
        )


def steps(heading: str = "One streaming call") -> Iterator[Step]:
    """Yield the lines of a trace, each with its caller."""
    text = (ROOT / "ops/map.md").read_text(encoding="utf-8")
    (block,) = re.findall(rf"^## {heading}\n.*?```\n(.*?)```", text, re.DOTALL | re.M)
    open_steps: list[tuple[int, Step]] = []
    for line in block.splitlines():
        found = _STEP.match(line)
        if found is None:
            assert ".py" not in line, line
            continue
        column = found.start("file")
        while open_steps and open_steps[-1][0] >= column:
            open_steps.pop()
        above = open_steps[-1][1] if open_steps else None
        step = Step((found["file"], found["function"]), above)
        open_steps.append((column, step))
        yield step


def bodies(function: Function) -> list[ast.AST]:
    """Return every function or method of this name in its file."""
    file, name = function
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    nodes = ast.walk(tree(ROOT / file))
    return [node for node in nodes if isinstance(node, kinds) and node.name == name]


def names_called(body: ast.AST) -> set[str]:
    called = {node.func for node in ast.walk(body) if isinstance(node, ast.Call)}
    attributes = {func.attr for func in called if isinstance(func, ast.Attribute)}
    return attributes | {func.id for func in called if isinstance(func, ast.Name)}


def calls(above: Function, below: Function) -> bool:
    """Whether one calls a function of the other's name."""
    return any(below[1] in names_called(body) for body in bodies(above))


async def seen_of_a_call() -> tuple[set[tuple[Function, Function]], list[Function]]:
    """Return which functions of a streamed call ran within which others, and their order."""
    wanted = {step.function for step in steps()}
    seen: set[tuple[Function, Function]] = set()
    order: dict[Function, None] = {}

    def named(frame: FrameType) -> Function:
        code = frame.f_code
        return code.co_filename.removeprefix(f"{ROOT}/"), code.co_name

    def look(frame: FrameType, event: str, _: object) -> None:
        if event != "call" or (function := named(frame)) not in wanted:
            return
        order.setdefault(function)
        above = frame.f_back
        while above is not None:
            seen.add((named(above), function))
            above = above.f_back

    async with world(
        a=[response_of(status=500)], b=[response_of(sse.delta("Hello"), 1, sse.DONE)]
    ) as w:
        before = sys.getprofile()
        sys.setprofile(look)
        try:
            result = await w.call(stream=True)
        finally:
            sys.setprofile(before)
        assert result.status == ("success", None)
    return seen, list(order)


def test_every_function_of_a_trace_is_there() -> None:
    others = [*steps("An image, a video, a search")]
    assert not [str(step) for step in [*steps(), *others] if not bodies(step.function)]
    below = [(step.above.function, step) for step in others if step.above is not None]
    assert not [f"{above} -> {step}" for above, step in below if not calls(above, step.function)]


async def test_every_function_of_the_trace_is_called_by_the_one_it_stands_under() -> None:
    seen, _ = await seen_of_a_call()
    untrue = []
    for step in steps():
        if step.above is None:
            continue
        if step.above.is_of_the_use_case and step.function not in FAKED:
            is_true = (step.above.function, step.function) in seen
        else:
            is_true = calls(step.above.function, step.function)
        if not is_true:
            untrue.append(f"{step.above} -> {step}")
    assert not untrue


async def test_trace_reads_from_top_to_bottom_as_the_call_runs() -> None:
    _, order = await seen_of_a_call()
    result = [s.function for s in steps() if s.is_of_the_use_case and s.function not in FAKED]
    assert order == result
