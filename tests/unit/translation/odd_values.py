"""Odd values, and the places of a body that they are put into."""

from collections.abc import Iterator
from typing import Any

ODD: list[Any] = [
    *(None, True, 0, -1, 1.5, 10**30, "", "x", "translated:x:y", "dHJhbnNsYXRlZDo="),
    *("http://[", "data:", "data:image/png;base64,%zz", "\u0000"),
    *([], [None], [[]], ["x"], [{}], {}, {"type": "x"}, {"type": []}, {"": {"a": []}}),
]


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every place in a body, but for the body itself."""
    if path:
        yield path
    if isinstance(value, dict):
        for name, held in value.items():
            yield from places(held, (*path, name))
    elif isinstance(value, list):
        for index, held in enumerate(value):
            yield from places(held, (*path, index))


def kind(value: Any, path: tuple[Any, ...]) -> tuple[Any, ...]:
    """What places of the same kind share: the names on the way, and the types of what has them."""
    steps = []
    for step in path:
        stated = value.get("type") if isinstance(value, dict) else None
        steps.append((str(stated), step if isinstance(step, str) else "[]"))
        value = value[step]
    return tuple(steps)


def replaced(value: Any, path: tuple[Any, ...], by: Any) -> Any:
    """The body with another value in one place."""
    if not path:
        return by
    step, *rest = path
    if isinstance(value, dict):
        return {**value, step: replaced(value[step], tuple(rest), by)}
    return [*value[:step], replaced(value[step], tuple(rest), by), *value[step + 1 :]]
