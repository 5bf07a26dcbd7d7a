"""A request for a page of the list, parsed from its query (reference 6.3)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import cast

from gw.api.logs.cursor import CursorSeal, Order, PagePosition
from gw.api.logs.filters import Filters, read_filters
from gw.api.logs.parameters import Parameters, refuse
from gw.api.logs.visibility import Scope, Visibility, read_visibility
from gw.api.logs.window import DEFAULT_PERIOD, Window, read_window
from gw.cursors import BadCursor
from gw.keys.end_users import EndUserKey

ORDERS = ("desc", "asc")
INCLUDES = ("attempts", "in_flight", "none")
LIMIT_DEFAULT, LIMIT_MAX = 50, 200


@dataclass(frozen=True, slots=True, kw_only=True)
class LogListQuery:
    """The parsed query; `after` is the last row of the previous page, None on the first."""

    visibility: Visibility
    filters: Filters
    window: Window
    order: Order
    after: PagePosition | None
    limit: int
    with_attempts: bool
    with_in_flight: bool


def read_list_query(
    query: Mapping[str, Sequence[bytes]],
    *,
    see: Callable[[Scope], Visibility],
    seal: CursorSeal,
    end_users: EndUserKey,
    now: datetime,
) -> LogListQuery:
    """Parse and validate the whole query. `see` raises 403, the rest is 400.

    On later pages the window and order of the cursor apply; `from`, `to` and `period` must still be
    well formed, and an `order` must be the cursor's.
    """
    parameters = Parameters(query)
    visibility = read_visibility(parameters, see)
    order = cast(Order | None, parameters.choice("order", ORDERS))
    include = parameters.choices("include", INCLUDES) or ("attempts",)
    filters = read_filters(parameters, partial(end_users.digest, visibility.account_id))
    # Clients with a reference rarely know the age of its row (reference 6.3).
    of_any_age = "all" if filters.ref is not None else DEFAULT_PERIOD
    window = read_window(parameters, now, default_period=of_any_age)
    after: PagePosition | None = None
    text = parameters.text("cursor")
    if text is not None:
        try:
            cursor = seal.read(text, visibility)
        except BadCursor:
            raise refuse(
                "cursor", "is not one that this listing gave; pass `next_cursor` on as it came."
            ) from None
        if order not in (None, cursor.order):
            raise refuse("cursor", f"belongs to a listing with order={cursor.order}.")
        window, order, after = cursor.window, cursor.order, cursor.position
    limit = parameters.whole("limit", least=1, most=LIMIT_MAX)
    return LogListQuery(
        visibility=visibility,
        filters=filters,
        window=window,
        order=order or "desc",
        after=after,
        limit=LIMIT_DEFAULT if limit is None else limit,
        with_attempts="attempts" in include,
        with_in_flight="in_flight" in include and after is None,
    )
