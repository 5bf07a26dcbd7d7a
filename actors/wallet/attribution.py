"""For whom a call was made, as far as its client said so (reference 11.1).

`end_user` is as it is stored: a name, or its digest. `session` is 16 hex digits. Members that a
call does not have are None, or empty; whoever makes one judges them by the forms below.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import msgspec
from msgspec import Struct

from actors.wallet import storable

END_USER_CHARACTERS_MAX = 256
RUN_CHARACTERS_MAX = 128
LABEL_CHARACTERS_MAX = 64
LABELS_MAX = 8

is_run = re.compile(rf"[A-Za-z0-9._:/@-]{{1,{RUN_CHARACTERS_MAX}}}").fullmatch
is_label_value = re.compile(rf"[A-Za-z0-9._:/@-]{{1,{LABEL_CHARACTERS_MAX}}}").fullmatch
is_label_key = re.compile(r"[a-z][a-z0-9_.-]{0,31}").fullmatch


def is_end_user(text: str) -> bool:
    """Whether a text is the name of an end user as it stands."""
    return 0 < len(text) <= END_USER_CHARACTERS_MAX and text.isprintable()


class Attribution(Struct, frozen=True, kw_only=True, omit_defaults=True, dict=True):
    """Whose call it was, beside its key's. Calls for the same may share one: what is made of it is
    made once.
    """

    end_user: str | None = None
    session: str | None = None
    run: str | None = None
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)

    @cached_property
    def values(self) -> tuple[tuple[str, str], ...]:
        """Each value with its kind: `end_user`, `session`, `run`, or `label.` and its key."""
        named = ("end_user", self.end_user), ("session", self.session), ("run", self.run)
        labels = [(f"label.{key}", value) for key, value in self.labels.items()]
        return (*((what, value) for what, value in named if value is not None), *labels)

    @cached_property
    def stored(self) -> str:
        """The JSON that its rows have."""
        return storable.to_json(msgspec.to_builtins(self))

    def __repr__(self) -> str:
        return f"<Attribution {', '.join(what for what, _ in self.values)}>"  # it is logged

    def __bool__(self) -> bool:
        return bool(self.end_user or self.session or self.run or self.labels)


NOBODY = Attribution()


def attribution_of(stored: Any) -> Attribution | None:
    """Return what a hold or a row keeps; None for a call without any."""
    return None if not stored else msgspec.convert(stored, Attribution)
