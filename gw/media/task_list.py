"""The query of a list of tasks: number, states, position (reference 7.1)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from channels.dialects.faults import described
from channels.errors import InvalidRequest

LIMIT_DEFAULT = 30
LIMIT_MAX = 100
ALL = "all"
STATUS_CHARACTERS_MAX = 400

_TASK_STATES = ("queued", "running", "succeeded", "failed", "expired", "cancelled")


@dataclass(frozen=True, slots=True)
class ListKind:
    """One kind of list: the prefix of its ids, and its names of states."""

    prefix: str
    states: tuple[str, ...]


VIDEOS = ListKind("vid_", _TASK_STATES)
MUSIC = ListKind("mus_", ("processing", "succeeded", "failed", "expired", "cancelled"))
SPEECH = ListKind("tts_", ("pending", "succeeded", "failed"))

_WHOLE = re.compile(r"[0-9]{1,1000}", re.ASCII)
_ID = re.compile(r"[0-9a-f]{32}", re.ASCII)


@dataclass(frozen=True, slots=True)
class TaskListQuery:
    """A query of tasks, newest first. No `states`: all of them."""

    limit: int
    states: frozenset[str]
    before: str | None


def read_list(query: Mapping[str, str], kind: ListKind) -> TaskListQuery:
    """Validate a query; an empty parameter counts as absent. Raises InvalidRequest."""
    return TaskListQuery(
        limit=_limit(query.get("limit", "")),
        states=_states(query.get("status", ""), kind),
        before=_before(query.get("before", ""), kind),
    )


def _limit(text: str) -> int:
    if not text:
        return LIMIT_DEFAULT
    if not _WHOLE.fullmatch(text) or not text.strip("0"):
        raise InvalidRequest(
            f"limit: expected an integer of at least 1, found {described(text)}.", "limit"
        )
    digits = text.lstrip("0")
    return min(int(digits), LIMIT_MAX) if len(digits) < 4 else LIMIT_MAX


def _states(text: str, kind: ListKind) -> frozenset[str]:
    words = {word.strip() for word in text[: STATUS_CHARACTERS_MAX + 1].split(",")} - {""}
    for word in sorted(words):
        if word != ALL and word not in kind.states:
            allowed = ", ".join((*kind.states, ALL))
            raise InvalidRequest(
                f"status: expected words of {allowed}, found {described(word)}.", "status"
            )
    return frozenset() if ALL in words else frozenset(words)


def _before(text: str, kind: ListKind) -> str | None:
    if not text:
        return None
    if not text.startswith(kind.prefix) or not _ID.fullmatch(text.removeprefix(kind.prefix)):
        raise InvalidRequest(
            f"before: expected the id of a task of this list, found {described(text)}.", "before"
        )
    return text
