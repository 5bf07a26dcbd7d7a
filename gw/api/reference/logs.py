"""The call log, in the reference."""

from __future__ import annotations

from actors.wallet.attribution import LABELS_MAX
from gw import errors
from gw.api.logs import filters, handlers, list_query
from gw.api.logs.grouping import GROUPINGS
from gw.api.logs.parameters import WORDS_MAX
from gw.api.logs.summary import WINDOW_MAX, LogSummary
from gw.api.logs.visibility import SCOPES
from gw.api.logs.window import DEFAULT_PERIOD, PERIODS
from gw.api.reference.operation import (
    Operation,
    answers,
    in_path,
    in_query,
    one_of,
    texts_of,
    whole,
    words_of,
)

TAG = "Call logs"
_SCOPE = (
    in_query(
        "scope",
        "Whose calls: `account` needs a console key with account-wide log access.",
        one_of(SCOPES, "key"),
    ),
    in_query("key_id", "Only calls of this key, with `scope=account`."),
)
_EDGE = "a date, or a timestamp with its offset (RFC 3339)"
_WINDOW = (
    in_query("from", f"The begin: {_EDGE}; together with `to`, in place of `period`."),
    in_query(
        "to", f"The end: {_EDGE}. A date's day belongs to it, a timestamp's instant does not."
    ),
)
_RAISED = (errors.INVALID_REQUEST, errors.PERMISSION_DENIED)

LIST = (
    Operation(
        name="list_calls",
        tag=TAG,
        summary="List calls that have ended.",
        parameters=(
            *_SCOPE,
            in_query(
                "period",
                "The window that ends now; with `ref` it is `all` by default.",
                one_of(PERIODS, DEFAULT_PERIOD),
            ),
            *_WINDOW,
            in_query("model", "Only calls of these models.", texts_of(WORDS_MAX)),
            in_query("status", "Only calls that ended so.", words_of(filters.STATUSES)),
            in_query(
                "unit_type",
                "Only calls billed by these units; `chat`: by tokens.",
                words_of((*filters.UNIT_TYPES, filters.TOKEN_BILLED)),
            ),
            in_query("error_code", "Only calls with these errors.", texts_of(WORDS_MAX)),
            in_query("end_user", "Only calls for this end user, by name or digest."),
            in_query(
                "session",
                "Only calls of these conversations, by name or as rows have them.",
                texts_of(WORDS_MAX),
            ),
            in_query("run", "Only calls of these runs.", texts_of(WORDS_MAX)),
            in_query(
                f"{filters.LABEL}KEY",
                f"Only calls with one of these values of a label; at most {LABELS_MAX} keys.",
                texts_of(WORDS_MAX),
            ),
            in_query("ref", "Only the call of this task id, request id or trace."),
            in_query(
                "order", "`desc`: newest first.", one_of(list_query.ORDERS, list_query.ORDERS[0])
            ),
            in_query(
                "limit",
                "How many on a page.",
                whole(1, list_query.LIMIT_MAX, list_query.LIMIT_DEFAULT),
            ),
            in_query("cursor", "`next_cursor` of the page before, as it came."),
            in_query(
                "include",
                "What the rows have besides: failed tries (the default), tasks under way on the"
                " first page, or nothing.",
                words_of(list_query.INCLUDES),
            ),
        ),
        responses=answers(handlers.LogPage, "A page of calls."),
        raises=_RAISED,
    ),
)
SUMMARY = (
    Operation(
        name="summarize_calls",
        tag=TAG,
        summary="Add up the calls of a window.",
        description="Kept for the rest of the minute. Filters of the list are refused.",
        parameters=(
            *_SCOPE,
            in_query(
                "period",
                "The window that ends now.",
                one_of([one for one in PERIODS if one != "all"], DEFAULT_PERIOD),
            ),
            *_WINDOW,
            in_query(
                "by",
                f"What the calls are grouped by, beside: one of {', '.join(GROUPINGS)}. `user`, of"
                " the keys, needs account-wide log access.",
            ),
        ),
        responses=answers(LogSummary, "The sums."),
        raises=_RAISED,
        limits=(f"A window of at most {WINDOW_MAX.days} days.",),
    ),
)
DETAIL = (
    Operation(
        name="get_call",
        tag=TAG,
        summary="Read one call in detail.",
        parameters=(in_path("id", "The `id` of a row.", "1"),),
        responses=answers(handlers.LogDetail, "The call."),
        raises=(errors.LOG_NOT_FOUND,),
    ),
)
