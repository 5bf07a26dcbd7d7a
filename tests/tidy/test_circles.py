"""No file imports itself by way of others, not even for its types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from tests.tidy.files import SOURCES, files, imports_of, module_of

Graph = Mapping[str, set[str]]


def imported() -> Graph:
    """Return which modules of the product each of them imports, be it under TYPE_CHECKING."""
    paths = {module_of(path): path for path in files(*SOURCES, "loadtests", suffix=".py")}
    return {name: set(imports_of(path)) & set(paths) - {name} for name, path in paths.items()}


def circles(graph: Graph) -> Iterator[set[str]]:
    """Yield the modules that reach each other, group by group."""
    reached = {name: _reach(graph, name) for name in graph}
    seen: set[str] = set()
    for name in graph:
        if name in reached[name] and name not in seen:
            circle = {other for other in reached[name] if name in reached[other]}
            seen |= circle
            yield circle


def _reach(graph: Graph, name: str) -> set[str]:
    found: set[str] = set()
    ahead = set(graph[name])
    while ahead:
        found |= ahead
        ahead = {two for one in ahead for two in graph[one]} - found
    return found


def test_no_file_of_the_product_imports_itself_by_way_of_others() -> None:
    assert not [sorted(circle) for circle in circles(imported())]


@pytest.mark.parametrize(
    ("graph", "found"),
    [
        ({"a": {"b", "c"}, "b": {"c"}, "c": set()}, []),
        ({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}, [{"b", "c"}]),
        ({"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": {"d"}}, [{*"abc"}, {*"de"}]),
    ],
    ids=["none", "one of two", "one behind another"],
)
def test_circles_are_found(graph: Graph, found: list[set[str]]) -> None:
    assert list(circles(graph)) == found
