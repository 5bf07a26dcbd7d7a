"""What OpenAI's models take of thinking and sampling, by their generation.

The one table for every way into chat-completions and responses. A generation is read from the
upstream's name of the model, in whatever form a host gives it: `gpt-5-mini-2025-08-07`,
`openai/gpt-5.1`, `o4-mini`. A number that is not known is like the newest. Other makers' models
take every level, and pass over what they do not know.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from channels.translation.losses import LossReport, spelled
from channels.translation.model import Effort, Request

LEVELS: tuple[Effort, ...] = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


class ChatGeneration(Struct, frozen=True):
    """What the models of one generation take; the rest is a 400.

    `efforts` are the levels of thinking; without any, nothing is said of it. `samples`: other
    values than the defaults of `temperature`, `top_p` and the penalties are taken always, without
    thinking alone, or never. `thinks_unasked`: thinking is on where no level is stated.
    `thinks_with_tools`: chat-completions takes functions beside a level other than `none`.
    `takes_stop`: texts that end an answer. `takes_parallel`: whether calls may come together is
    the client's to say.
    """

    efforts: tuple[Effort, ...] = LEVELS
    samples: Literal["always", "idle", "never"] = "always"
    thinks_unasked: bool = True
    thinks_with_tools: bool = True
    takes_stop: bool = True
    takes_parallel: bool = True

    def fitted(self, effort: Effort) -> Effort:
        """Return the level that it takes in place of one: the nearest; thinking stays on or off."""
        levels = [one for one in self.efforts if one != "none"]
        if effort in self.efforts or not levels:
            return effort
        wanted = LEVELS.index(effort)
        below = [one for one in levels if LEVELS.index(one) <= wanted]
        return below[-1] if below else levels[0]

    def takes_sampling(self, effort: Effort | None) -> bool:
        """Whether it takes sampling at this level; None: none is stated."""
        if self.samples != "idle":
            return self.samples == "always"
        return effort == "none" or (effort is None and not self.thinks_unasked)


_OTHERS = ChatGeneration()
_NO_THOUGHTS = ChatGeneration(efforts=())
_FIRST = ChatGeneration(efforts=("low", "medium", "high"), samples="never", takes_stop=False)
_O_SERIES = replace(_FIRST, takes_parallel=False)
_GPT_5 = replace(_FIRST, efforts=("minimal", *_FIRST.efforts))
# Thinking is off unless it is asked for.
_GPT_5_1 = replace(_FIRST, efforts=("none", *_FIRST.efforts), samples="idle", thinks_unasked=False)
_GPT_5_2 = replace(_GPT_5_1, efforts=(*_GPT_5_1.efforts, "xhigh"))
_GPT_5_4 = replace(_GPT_5_2, thinks_with_tools=False)
_GPT_5_5 = replace(_GPT_5_4, thinks_unasked=True)
# Each generation of GPT with the version before which it ends.
_ROWS: tuple[tuple[tuple[int, int], ChatGeneration], ...] = (
    ((5, 0), _NO_THOUGHTS),
    ((5, 1), _GPT_5),
    ((5, 2), _GPT_5_1),
    ((5, 4), _GPT_5_2),
    ((5, 5), _GPT_5_4),
)
_MEDIUM_ALONE = replace(_FIRST, efforts=("medium",))
_O = re.compile(r"(?<![a-z0-9])o(?P<major>[1-9])(?![0-9])")
_GPT = re.compile(r"gpt-(?P<major>\d+)(?:\.(?P<minor>\d+))?")


@lru_cache(maxsize=1024)
def generation_of(model: str) -> ChatGeneration:
    """Return the generation of a model, by its upstream name."""
    name = model.lower()
    if found := _GPT.search(name):
        version = (int(found["major"]), int(found["minor"] or 0))
        generation = _gpt(version, name[found.end() :])
        # A name with its maker before a slash is that of a host which asks OpenAI its own way.
        return replace(generation, thinks_with_tools=True) if "/" in name else generation
    if found := _O.search(name):
        rest = name[found.end() :]
        if "deep-research" in rest:
            return replace(_O_SERIES, efforts=_MEDIUM_ALONE.efforts)
        is_first = found["major"] == "1" and rest.startswith(("-mini", "-preview"))
        return replace(_O_SERIES, efforts=()) if is_first else _O_SERIES
    return _OTHERS


def _gpt(version: tuple[int, int], variant: str) -> ChatGeneration:
    usual = next((row for end, row in _ROWS if version < end), _GPT_5_5)
    if not usual.efforts:
        return usual
    if "chat" in variant:
        return _NO_THOUGHTS if version < (5, 1) else _MEDIUM_ALONE
    if "pro" in variant:
        return replace(
            _FIRST, efforts=("medium", "high", "xhigh") if version > (5, 0) else ("high",)
        )
    if "codex" in variant:
        has_highest = version >= (5, 2) or "max" in variant
        return replace(_FIRST, efforts=(*_FIRST.efforts, *(("xhigh",) if has_highest else ())))
    return usual


# Members of sampling, with what is the default everywhere.
_SAMPLING = (("temperature", 1), ("top_p", 1), ("frequency_penalty", 0), ("presence_penalty", 0))


def fit_sampling(
    request: Request,
    body: dict[str, object],
    report: LossReport,
    *,
    model: str,
    effort: Effort | None,
) -> None:
    """Remove members of sampling that a model refuses at this level of thinking."""
    if generation_of(model).takes_sampling(effort):
        return
    for name, default in _SAMPLING:
        if body.pop(name, default) != default:
            report.drop(spelled(request.origin, name))
