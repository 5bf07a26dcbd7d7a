"""For whom a call was made, as far as its client said so (reference 11.1).

`end_user` is as it is stored: a name, or its digest. `session` is 16 hex digits. Members that a
call does not have are None, or empty; nothing here is judged.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct


class Attribution(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """Whose call it was, beside its key's."""

    end_user: str | None = None
    session: str | None = None
    run: str | None = None
    labels: Mapping[str, str] = msgspec.field(default_factory=dict)

    def values(self) -> Iterator[tuple[str, str]]:
        """Yield each value with its kind: `end_user`, `session`, `run`, or `label.` and its key."""
        for what in ("end_user", "session", "run"):
            value = getattr(self, what)
            if value is not None:
                yield what, value
        for key, value in self.labels.items():
            yield f"label.{key}", value

    def __bool__(self) -> bool:
        return bool(self.end_user or self.session or self.run or self.labels)


NOBODY = Attribution()


def attribution_of(stored: Any) -> Attribution | None:
    """Return what a hold or a row keeps; None for a call without any."""
    return None if not stored else msgspec.convert(stored, Attribution)
