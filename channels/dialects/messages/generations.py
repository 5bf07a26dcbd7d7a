"""What the models of the messages protocol take of thinking and sampling, by their generation.

The one table for every way into the protocol. A generation is read from the upstream's name of the
model, in whatever form a host gives it: `claude-3-7-sonnet-20250219`, `claude-opus-4-5@20251101`,
`us.anthropic.claude-sonnet-4-5-20250929-v1:0`, `anthropic/claude-sonnet-4.6`. A name of the maker's
without a known number is like the newest, since older ones do not appear any more. Other makers'
models behind this protocol pass over what they do not know.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from channels.translation.model import Effort

LEVELS: tuple[Effort, ...] = ("low", "medium", "high", "xhigh", "max")


class MessagesGeneration(Struct, frozen=True):
    """What the models of one generation take; the rest is a 400.

    `efforts` are the values of `output_config.effort`. `takes_budgets` and `is_adaptive` are the
    two types of thinking; without both there is none. `takes_sampling`: other values than the
    defaults of `temperature`, `top_p` and `top_k`. `takes_prefill`: a conversation may end with the
    beginning of the model's turn. `off`: thinking is switched off by a member, is
    off unless it is asked for, or cannot be switched off.
    """

    efforts: tuple[Effort, ...] = ()
    takes_budgets: bool = False
    is_adaptive: bool = False
    takes_sampling: bool = True
    takes_prefill: bool = True
    off: Literal["stated", "default", "never"] = "stated"

    @property
    def thinks(self) -> bool:
        """Whether there is thinking at all."""
        return self.takes_budgets or self.is_adaptive

    def fitted(self, effort: Effort) -> Effort:
        """Return the level that it takes in place of `effort`; there must be one."""
        wanted = LEVELS.index(effort) if effort in LEVELS else 0
        below = [level for level in self.efforts if LEVELS.index(level) <= wanted]
        return below[-1] if below else self.efforts[0]


_ADAPTIVE = MessagesGeneration(
    efforts=LEVELS, is_adaptive=True, takes_sampling=False, takes_prefill=False
)
_ALWAYS = replace(_ADAPTIVE, off="never")
_BUDGETS = MessagesGeneration(takes_budgets=True)
# Each generation with the version before which it ends.
_ROWS: tuple[tuple[tuple[int, int], MessagesGeneration], ...] = (
    ((3, 7), MessagesGeneration(off="default")),
    ((4, 6), _BUDGETS),
    (
        (4, 7),
        MessagesGeneration(
            efforts=("low", "medium", "high", "max"),
            takes_budgets=True,
            is_adaptive=True,
            takes_prefill=False,
        ),
    ),
    ((5, 0), replace(_ADAPTIVE, off="default")),
)
# The only one of its generation that takes levels.
_OPUS_4_5 = replace(_BUDGETS, efforts=("low", "medium", "high"))
_OTHERS = MessagesGeneration(efforts=LEVELS, takes_budgets=True, is_adaptive=True)

_MAKER = re.compile(r"claude|anthropic|\b(?:opus|sonnet|haiku)\b")
# The first number of at most two digits, and one that follows it: longer ones are dates.
_VERSION = re.compile(
    r"(?:claude|opus|sonnet|haiku)(?:-v)?[^0-9]*(?<![0-9])(\d{1,2})(?![0-9])"
    r"(?:[-._](\d{1,2})(?![0-9]))?"
)
# From here on a version is two digits run together, as in claude-opus-41.
_RUN_TOGETHER = 30
# A host's own version of a name, such as -v1:0.
_REVISION = re.compile(r"(?<!claude)-v\d+(?::\d+)?(?![\d.])")
# Families whose thinking cannot be switched off; of opus since 5.5.
_ALWAYS_THINKING = re.compile(r"fable|mythos")
_OPUS_ALWAYS = (5, 5)


@lru_cache(maxsize=1024)
def generation_of(model: str) -> MessagesGeneration:
    """Return the generation of a model, by its upstream name."""
    name = model.lower()
    if _MAKER.search(name) is None:
        return _OTHERS
    found = _VERSION.search(_REVISION.sub("", name))
    if found is None:
        return _ALWAYS
    version = (int(found[1]), int(found[2] or 0))
    if version >= (_RUN_TOGETHER, 0):
        version = divmod(version[0], 10)
    for end, generation in _ROWS:
        if version < end:
            is_opus = version == (4, 5) and "opus" in name
            return _OPUS_4_5 if is_opus else generation
    is_always = _ALWAYS_THINKING.search(name) or ("opus" in name and version >= _OPUS_ALWAYS)
    return _ALWAYS if is_always else _ADAPTIVE
