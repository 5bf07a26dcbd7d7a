"""The names of tools of the responses protocol as those of functions, and back.

Tools in a namespace become functions with its name as prefix. The client's form of a call is
encoded in the tool's own name, whatever name an upstream's protocol makes of it.
"""

from __future__ import annotations

import hashlib

from channels.dialects.responses.client_tools import CLIENT_TOOLS
from channels.json.lenient import dumps

FUNCTION = "function"
CUSTOM = "custom"

_MARK = "\0"
_NAME_DIGEST_CHARACTERS = 8


class ToolNames:
    """Unique function names for the tools of one request."""

    __slots__ = ("_names", "_taken")

    def __init__(self) -> None:
        self._names: dict[tuple[str, str], str] = {}  # by namespace and name
        self._taken: set[str] = set()

    def of(self, namespace: str | None, name: str) -> str:
        """Return the function name for a tool of this namespace; the same for the same tool."""
        plain = name
        if namespace:
            plain = f"{namespace}{'' if namespace.endswith('__') else '__'}{name}"
        return self._named((namespace or "", name), plain)

    def of_type(self, kind: str) -> str:
        """Return the function name for a tool that has a type and no name."""
        return self._named((_MARK, kind), kind)

    def _named(self, key: tuple[str, str], found: str) -> str:
        known = self._names.get(key)
        if known is not None:
            return known
        if found in self._taken:
            digest = hashlib.sha256(dumps(key)).hexdigest()[:_NAME_DIGEST_CHARACTERS]
            found = f"{found}_{digest}"
        self._names[key] = found
        self._taken.add(found)
        return found


def own_name(kind: str, namespace: str | None, name: str) -> str | None:
    """Return the name of a tool's calls in responses; None for a plain function's."""
    if kind == FUNCTION and not namespace:
        return None
    return _MARK.join((kind, namespace or "", name))


def named_call(name: str) -> tuple[str, str, str]:
    """Return the kind of tool that a call's name belongs to, its namespace, and its name there."""
    kind, mark, rest = name.partition(_MARK)
    namespace, second, inner = rest.partition(_MARK)
    if not (mark and second and (kind in (CUSTOM, FUNCTION) or kind in CLIENT_TOOLS)):
        return FUNCTION, "", name
    return kind, namespace, inner
