"""Lists and single tasks of an account: what the endpoints share that show jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from actors.jobs.job import VISIBLE, Job, State
from channels.errors import InvalidRequest
from gw.api.base import ApiHandler
from gw.errors.table import NOT_FOUND, GatewayError, invalid_request
from gw.media.lists import ListKind, ListQuery, read_list


def query_of(handler: ApiHandler, kind: ListKind) -> ListQuery:
    """The query of a list. Raises GatewayError."""
    query = {name: handler.get_query_argument(name, "") for name in ("limit", "status", "before")}
    try:
        return read_list(query, kind)
    except InvalidRequest as invalid:
        raise invalid_request(invalid) from None


def states_of(words: frozenset[str], shown: Mapping[State, str]) -> Sequence[State]:
    """The states that these words show; every visible one for no words."""
    return [state for state in VISIBLE if not words or shown.get(state, state) in words]


def found(job: Job | None) -> Job:
    """A job that its account may see. Raises GatewayError."""
    if job is None:
        raise GatewayError(NOT_FOUND, "There is no task of this id.")
    return job


def error_of(job: Job) -> dict[str, Any]:
    """The member `error` of a job that did not succeed; nothing of any other."""
    if job.error_code is None:
        return {}
    return {"error": {"code": job.error_code, "message": job.error_message}}
