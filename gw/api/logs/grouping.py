"""The sums of a window by one of what calls have: `by=` of the summary (reference 6.5).

The groups of a window add up to its total: what calls without a value come to is the difference of
both, read in one statement.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, NotRequired, TypedDict

from msgspec import Meta

from gw.api.logs.filters import ATTRIBUTED, LABEL, label_key
from gw.api.logs.parameters import Parameters, quoted, refuse
from gw.api.logs.visibility import Scope, Visibility

# The groups that are shown; all others are one item.
GROUPS_MAX = 100
# What every row has, as its sums have it; a model that was never named is none.
_OF_ROWS: Mapping[str, str] = {
    "key": "key_id",
    "model": "nullif(model, '')",
    "user": "(SELECT k.user_name::text FROM keys k WHERE k.id = part.key_id)",
}
USER = "user"
KEY = "key"
GROUPINGS = (*ATTRIBUTED, f"{LABEL}KEY", *_OF_ROWS)


class ShownGroup(TypedDict):
    """The sums of the calls of a group."""

    group: Annotated[
        str | None,
        Meta(description="What they have in common; null: they have none, or it is the rest."),
    ]
    key_name: NotRequired[Annotated[str | None, Meta(description="The key's name, by keys.")]]
    rest: NotRequired[Annotated[bool, Meta(description="`true`: all further groups together.")]]
    groups: NotRequired[Annotated[int, Meta(description="How many those are.")]]
    requests: Annotated[int, Meta(description="The number of calls, rejected ones included.")]
    cost: Annotated[str, Meta(description="Credits charged, a decimal string.")]
    input_tokens: Annotated[int, Meta(description="Tokens of input, cached ones included.")]
    output_tokens: Annotated[int, Meta(description="Tokens of output.")]
    cached_tokens: Annotated[int, Meta(description="The cached part of the input.")]


def read_grouping(parameters: Parameters, see: Callable[[Scope], Visibility]) -> str | None:
    """Return what `by` names; None without it. `see` raises 403, the rest is 400."""
    if parameters.count("by") > 1:
        raise refuse("by", "is given more than once.")
    by = parameters.text("by")
    if by is None:
        return None
    check_grouping(by)
    if by == USER:
        see("account")
    return by


def check_grouping(by: str) -> None:
    """Raise 400 unless calls can be grouped by this."""
    if by.startswith(LABEL):
        label_key(by)
    elif by not in (*ATTRIBUTED, *_OF_ROWS):
        raise refuse("by", f"takes one of {', '.join(GROUPINGS)}; {quoted(by)} is none of them.")


def grouped(sql: Mapping[str, str], by: str | None) -> str:
    """Return the statement of the sums, with the groups if there is something to group by."""
    sums = sql["sums"]
    if by is None:
        return sums.replace("{groups}", "").replace("{rows}", "")
    if by in _OF_ROWS:
        member = sql["of_rows"].replace("{name}", _OF_ROWS[by])
    else:
        member = sql["of_attribution"]
    groups = "\n".join(("", member, sql["groups"], ""))
    return sums.replace("{groups}", groups).replace("{rows}", f"\n{sql['rows']}")


def grouping_parameters(by: str | None) -> dict[str, Any]:
    """Return the parameters of `grouped`."""
    if by is None:
        return {}
    path = ["labels", by.removeprefix(LABEL)] if by.startswith(LABEL) else [by]
    return {"what": by, "path": path, "most": GROUPS_MAX}


def key_ids(by: str | None, groups: Sequence[Any]) -> list[str]:
    """Return the keys whose names are shown with their groups."""
    return [one.name for one in groups if one.name] if by == KEY else []
