"""What the models of the native-content protocol take of thinking and sampling, by generation.

A generation is read from the upstream's name of the model. Of a name without a number the levels
are those that every present model of its family takes; other makers' names take all.
"""

from __future__ import annotations

import re
from functools import lru_cache

from msgspec import Struct
from msgspec.structs import replace

LEVELS = ("MINIMAL", "LOW", "MEDIUM", "HIGH", "XHIGH")


class GeminiGeneration(Struct, frozen=True):
    """What the models of one generation take; the rest is a 400.

    `levels` are the values of `thinkingLevel`; without any, `thinkingBudget` is the only way.
    `budget_min` and `budget_max` bound a budget; 0 switches thinking off. `can_be_off`: if not, the
    least level or budget is all that can be done. `thinks`: if not, nothing is said of thinking.
    `takes_penalties`: other penalties of frequency and presence than 0. `takes_prefill`: a
    conversation may end with the beginning of the model's turn. `takes_format_with_functions`: an
    answer in JSON, beside functions.
    """

    levels: tuple[str, ...] = LEVELS
    budget_min: int = 0
    budget_max: int | None = None
    can_be_off: bool = True
    thinks: bool = True
    takes_penalties: bool = False
    takes_prefill: bool = True
    takes_format_with_functions: bool = True

    def fitted(self, level: str) -> str:
        """Return the level that it takes in place of one: the next above, else its highest."""
        wanted = LEVELS.index(level)
        return next((one for one in self.levels if LEVELS.index(one) >= wanted), self.levels[-1])


_OTHERS = GeminiGeneration(takes_penalties=True)
_NO_THOUGHTS = GeminiGeneration(levels=(), thinks=False, takes_penalties=True)
_FLASH_2_5 = GeminiGeneration(levels=(), budget_max=24_576)
_FLASH_LITE_2_5 = replace(_FLASH_2_5, budget_min=512)
_PRO_2_5 = GeminiGeneration(levels=(), budget_min=128, budget_max=32_768, can_be_off=False)
_WITHOUT_MINIMAL = replace(_PRO_2_5, levels=("LOW", "MEDIUM", "HIGH"))
_PRO_3_0 = replace(_WITHOUT_MINIMAL, levels=("LOW", "HIGH"))
_FLASH = replace(_WITHOUT_MINIMAL, levels=("MINIMAL", "LOW", "MEDIUM", "HIGH"))

# Some hosts write a hyphen for the point: gemini-2-5-pro.
_NAME = re.compile(
    r"gemini-(?:(?P<major>\d+)(?:[.-](?P<minor>\d)(?![0-9]))?(?![0-9])-?)?"
    r"(?P<family>pro|flash-lite|flash)?"
)
# Since then the larger Flash models have no least level but LOW.
_FLASH_WITHOUT_MINIMAL = (3, 7)
# Since then the user has the last word.
_WITHOUT_PREFILL = (3, 2)


@lru_cache(maxsize=1024)
def generation_of(model: str) -> GeminiGeneration:
    """Return the generation of a model, by its upstream name."""
    name = model.lower()
    found = _NAME.search(name)
    if found is None or found["major"] is found["family"] is None:
        return _OTHERS
    family = found["family"]
    if found["major"] is None:
        return replace(_WITHOUT_MINIMAL, takes_prefill=False)
    version = (int(found["major"]), int(found["minor"] or 0))
    if version < (3, 0):
        return replace(_before_3(version, family, name), takes_format_with_functions=False)
    generation = _since_3(version, family)
    return generation if version < _WITHOUT_PREFILL else replace(generation, takes_prefill=False)


def _since_3(version: tuple[int, int], family: str | None) -> GeminiGeneration:
    if family == "pro":
        return _PRO_3_0 if version == (3, 0) else _WITHOUT_MINIMAL
    if family == "flash-lite" or (family == "flash" and version < _FLASH_WITHOUT_MINIMAL):
        return _FLASH
    return _WITHOUT_MINIMAL


def _before_3(version: tuple[int, int], family: str | None, name: str) -> GeminiGeneration:
    """Return the generation of a name that says it: thinking came with 2.5, not for images."""
    if "thinking" not in name and version < (2, 5):
        return _NO_THOUGHTS
    if "thinking" not in name and "-image" in name:
        return replace(_NO_THOUGHTS, takes_penalties=False)
    if family == "pro":
        return _PRO_2_5
    return _FLASH_LITE_2_5 if family == "flash-lite" else _FLASH_2_5
