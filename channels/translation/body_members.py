"""Typed access to the members of a client's JSON object; unread members are left over.

The protocols' parsers have checked the members that they use (`channels/dialects/*/members.py`);
a translation reads more, and a wrong type found here is the client's error as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from channels.dialects.faults import described
from channels.errors import InvalidRequest

Value: TypeAlias = object  # of JSON


class Members:
    """One object of a request. `location` is its dotted path, empty for the body itself.

    A null member counts as absent. Every reader raises InvalidRequest for a value of another type.
    """

    __slots__ = ("_read", "_value", "location")

    def __init__(self, value: Mapping[str, Value], location: str = "") -> None:
        self._value = value
        self._read: set[str] = set()
        self.location = location

    def path(self, name: str) -> str:
        """Return a member's dotted path."""
        return f"{self.location}.{name}" if self.location else name

    def whole(self) -> Mapping[str, Value]:
        """Return the object as received."""
        return self._value

    def any(self, name: str) -> Value:
        """Return a member of any type."""
        self._read.add(name)
        return self._value.get(name)

    def pass_over(self, *names: str) -> None:
        """Note members as read."""
        self._read.update(names)

    def text(self, name: str) -> str | None:
        """Return a string."""
        value = self.any(name)
        if value is not None and not isinstance(value, str):
            raise self._wrong(name, "a string", value)
        return value

    def number(self, name: str) -> float | None:
        """Return a number; integers stay integers."""
        value = self.any(name)
        if value is None or type(value) is float:
            return value
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self._wrong(name, "a number", value)
        return value

    def integer(self, name: str) -> int | None:
        """Return an integer."""
        value = self.any(name)
        if type(value) is int:
            return value
        value = self.number(name)
        if value is None or isinstance(value, int):
            return value
        if value.is_integer():
            return int(value)
        raise self._wrong(name, "an integer", value)

    def boolean(self, name: str) -> bool | None:
        """Return a boolean."""
        value = self.any(name)
        if value is not None and not isinstance(value, bool):
            raise self._wrong(name, "a boolean", value)
        return value

    def array(self, name: str) -> list[Value]:
        """Return an array; empty without one."""
        value = self.any(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self._wrong(name, "an array", value)
        return value

    def texts(self, name: str) -> tuple[str, ...]:
        """Return an array of strings; empty without one."""
        stated = self.array(name)
        found = tuple(one for one in stated if isinstance(one, str))
        if len(found) < len(stated):
            path = self.path(name)
            raise InvalidRequest(f"{path}: expected an array of strings.", path)
        return found

    def object(self, name: str) -> Members | None:
        """Return an object's members."""
        value = self.any(name)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            raise self._wrong(name, "an object", value)
        return Members(value, self.path(name))

    def mapping(self, name: str) -> Mapping[str, Value] | None:
        """Return an object unchanged, such as a schema."""
        value = self.any(name)
        if value is not None and not isinstance(value, Mapping):
            raise self._wrong(name, "an object", value)
        return value

    def objects(self, name: str) -> list[Members]:
        """Return an array of objects, each with its index in its path."""
        found = []
        for index, value in enumerate(self.array(name)):
            if not isinstance(value, Mapping):
                raise self._wrong(f"{name}[{index}]", "an object", value)
            found.append(Members(value, f"{self.path(name)}[{index}]"))
        return found

    def leave_over(self, left_over: dict[str, Value], within: str) -> None:
        """Add the unread members to those of the request, by their dotted names."""
        left_over.update((f"{within}.{name}", value) for name, value in self.rest().items())

    def required(self, name: str) -> str:
        """Return a string that is not empty."""
        value = self.text(name)
        if not value:
            raise InvalidRequest(f"{self.path(name)} is missing.", self.path(name))
        return value

    def rest(self) -> dict[str, Value]:
        """Return the unread members that are not null."""
        return {
            name: value
            for name, value in self._value.items()
            if name not in self._read and value is not None
        }

    def _wrong(self, name: str, expected: str, value: Value) -> InvalidRequest:
        path = self.path(name)
        return InvalidRequest(f"{path}: expected {expected}, found {described(value)}.", path)
