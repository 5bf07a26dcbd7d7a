"""Names on the gemini wire: members in two spellings, and what a function may be called.

Upstreams of this protocol read `generationConfig` and `generation_config` alike, so a client may
send either; what is the client's own (arguments, results, schemas' properties) is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from channels.translation.identifiers import IdentifierLimits

_UNDERSCORE = re.compile(r"(?<=[A-Za-z0-9])_([a-z0-9])")


def camel_keys(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """One object with its members in the usual spelling; where both are there, that one counts."""
    if not any("_" in name for name in value):
        return value
    renamed = {_camel(name): held for name, held in value.items()}
    return {**renamed, **{name: held for name, held in value.items() if name in renamed}}


def _camel(name: str) -> str:
    return _UNDERSCORE.sub(lambda match: match[1].upper(), name)


@dataclass(frozen=True)
class _GeminiLimits(IdentifierLimits):
    """A function's name begins with a letter or an underscore here; ids are free."""

    def name(self, name: str) -> str:
        fitted = super().name(name)
        if fitted[0].isalpha() or fitted[0] == "_":
            return fitted
        # The dot makes it a name that has to be changed, which sets it apart from any real one.
        return super().name(f"_{name}.")

    def call_id(self, call_id: str) -> str:
        return call_id


LIMITS = _GeminiLimits(name_characters_max=64, id_characters_max=0)
