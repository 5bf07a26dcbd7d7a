"""The filters of a list, applied row by row (reference 6.3)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from uuid import UUID

from actors.wallet.attribution import LABELS_MAX, is_label_key
from channels.conversation import label_of
from channels.family import UNITS
from gw.api.logs.parameters import SHOWN_CHARACTERS_MAX, Parameters, refuse

STATUSES = ("success", "error", "interrupted", "rejected")
# The unit types of rows billed by the piece; `chat` selects rows billed by tokens, without one.
UNIT_TYPES = tuple(unit.name for unit in UNITS)
TOKEN_BILLED = "chat"
# For whom calls were made; beside these `label.` and a key.
ATTRIBUTED = ("end_user", "session", "run")
LABEL = "label."
ROW_FILTERS = ("model", "status", "unit_type", "error_code", "ref", *ATTRIBUTED)

_TRACE = re.compile(
    r"[0-9a-f]{32}|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """The values that pass, by member; an empty member passes every row."""

    models: tuple[str, ...] = ()
    statuses: tuple[str, ...] = ()
    unit_types: tuple[str, ...] = ()
    error_codes: tuple[str, ...] = ()
    ref: str | None = None  # of one row: its task id or request id
    # `end_user`, `session`, `run`, or `label.` and a key, with the values that pass.
    attributed: tuple[tuple[str, tuple[str, ...]], ...] = ()

    @property
    def is_narrow(self) -> bool:
        """Whether any list is given."""
        return self.has_lists or bool(self.attributed)

    @property
    def has_lists(self) -> bool:
        """Whether any list is given that the sums of all rows know of."""
        return bool(self.models or self.statuses or self.unit_types or self.error_codes)

    @property
    def trace(self) -> UUID | None:
        """`ref` as a request id: 32 hex digits, or the usual form of a UUID."""
        if self.ref is None or _TRACE.fullmatch(self.ref) is None:
            return None
        return UUID(self.ref)


def read_filters(parameters: Parameters, digest: Callable[[str], str]) -> Filters:
    """Return the filters of a list; `digest`: of an end user's name. Raises 400."""
    return Filters(
        models=parameters.words("model"),
        statuses=parameters.choices("status", STATUSES),
        unit_types=parameters.choices("unit_type", (*UNIT_TYPES, TOKEN_BILLED)),
        error_codes=parameters.words("error_code"),
        ref=parameters.text("ref"),
        attributed=tuple(_attributed(parameters, digest)),
    )


def label_key(name: str) -> str:
    """Return the key of a parameter `label.KEY`. Raises 400."""
    key = name.removeprefix(LABEL)
    if not is_label_key(key):
        raise refuse(
            name[:SHOWN_CHARACTERS_MAX],
            "has no key of a label: 1 to 32 characters `a-z0-9_.-` that begin with a letter.",
        )
    return key


def _attributed(
    parameters: Parameters, digest: Callable[[str], str]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the values that pass, of an end user and a session by name and as rows have it."""
    user = parameters.text("end_user")
    if user is not None:
        yield "end_user", (user, digest(user))
    sessions = parameters.words("session")
    if sessions:
        yield "session", (*sessions, *map(label_of, sessions))
    runs = parameters.words("run")
    if runs:
        yield "run", runs
    labels = parameters.beginning(LABEL)
    if len(labels) > LABELS_MAX:
        raise refuse(LABEL, f"is given with more than {LABELS_MAX} keys.")
    for name in labels:
        values = parameters.words(name)
        yield f"{LABEL}{label_key(name)}", values


def refuse_filters(parameters: Parameters) -> None:
    """Raise 400 for any filter, on the summary."""
    for name in ROW_FILTERS:
        if parameters.words(name):
            raise refuse(name, _OF_ROWS)
    for name in parameters.beginning(LABEL):
        raise refuse(name[:SHOWN_CHARACTERS_MAX], _OF_ROWS)


_OF_ROWS = "narrows a list of rows; the summary takes no such filter."
