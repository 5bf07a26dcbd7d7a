"""Lists and single tasks of an account, for the endpoints that show jobs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from actors.jobs.job import VISIBLE, Job, State
from channels.errors import InvalidRequest
from channels.media.model import TaskKind
from gw.api.handler import ApiHandler
from gw.api.media_submit import media_of
from gw.api.task_shapes import TaskError
from gw.error_bodies import dumps
from gw.errors import NOT_FOUND, GatewayError, invalid_request
from gw.media.task_list import ListKind, read_list

Shown = Callable[[Job], Mapping[str, Any]]

_AS_THEY_ARE: Mapping[State, str] = MappingProxyType({})


async def listed(
    handler: ApiHandler,
    kind: TaskKind,
    words: ListKind,
    shown: Shown,
    *,
    word_of: Mapping[State, str] = _AS_THEY_ARE,
) -> bytes:
    """Return the list for a query, newest first, with valid links where possible.

    `word_of` maps states to the client's names. Raises GatewayError, StoreUnavailable.
    """
    names = ("limit", "status", "before")
    try:
        query = read_list({name: handler.get_query_argument(name, "") for name in names}, words)
    except InvalidRequest as invalid:
        raise invalid_request(invalid) from None
    media = media_of(handler)
    jobs = await media.jobs.list(
        handler.principal.account_id,
        kind,
        states=[
            state
            for state in VISIBLE
            if not query.states or word_of.get(state, state) in query.states
        ],
        limit=query.limit,
        before=query.before,
    )
    return dumps({"data": [shown(job) for job in await media.renewal.renewed(jobs)]})


async def polled(handler: ApiHandler, kind: TaskKind, task_id: str, shown: Shown) -> bytes:
    """Return one task. Raises GatewayError for a task of another account, and StoreUnavailable."""
    media = media_of(handler)
    job = await media.jobs.read(handler.principal.account_id, kind, task_id)
    if job is None:
        raise GatewayError(NOT_FOUND, "There is no task of this id.")
    (job,) = await media.renewal.renewed([job])
    return dumps(shown(job))


def error_of(job: Job) -> TaskError | None:
    """Return the member `error` of an unsuccessful job; None of any other."""
    if job.error_code is None:
        return None
    return {"code": job.error_code, "message": job.error_message}
