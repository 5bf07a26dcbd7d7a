"""An OpenAPI document, read: its operations, the one of a request, what its references refer to."""

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any

Json = Mapping[str, Any]
# One part of a path.
_PART = "([^:]+)"


class Reference:
    """Reads one document."""

    def __init__(self, document: Json) -> None:
        self.document = document
        self._operations: dict[tuple[str, str], Json | None] = {}

    def found(self, value: Json) -> Json:
        """What a reference refers to, or the value."""
        while isinstance(value.get("$ref"), str):
            inner: Any = self.document
            for name in value["$ref"].removeprefix("#/").split("/"):
                inner = inner[name]
            value = inner
        return value

    def operations(self) -> Iterator[tuple[str, str, Json]]:
        """Path, method and operation of each."""
        for path, methods in self.document["paths"].items():
            for method, one in methods.items():
                yield path, method, one

    def operation(self, method: str, path: str) -> Json | None:
        """What is described of a request; None: its path or its method is not."""
        at = method, path
        if at not in self._operations:
            fitting = (one for pattern, one in self._templates if pattern.fullmatch(path))
            self._operations[at] = next(fitting, {}).get(method.lower())
        return self._operations[at]

    @cached_property
    def _templates(self) -> list[tuple[re.Pattern[str], Json]]:
        """The paths, the ones with most of their own first: `/x/presets` before `/x/{id}`."""
        sorts = []
        for path, methods in self.document["paths"].items():
            expression = re.sub(r"\\\{\w+\\\}", lambda _: _PART, re.escape(path))
            sorts.append((expression.count(_PART), -len(path), expression, methods))
        return [(re.compile(one[2]), one[3]) for one in sorted(sorts, key=lambda one: one[:2])]
