"""Which error a client is told when an exception reaches the top of a handler.

One ladder, used for every endpoint. A database that is away is the table's 503, which clients try
again; what is not known here is a fault of ours: 500, without a word about the inside.
"""

from __future__ import annotations

from tornado.web import HTTPError

from actors.store.errors import StoreUnavailable
from actors.wallet.messages import LedgerUnavailable
from gw.errors.table import INTERNAL_ERROR, INVALID_REQUEST, NO_CHANNEL_AVAILABLE, GatewayError

INTERNAL_MESSAGE = (
    "The gateway failed to handle this request. Try again; if it persists, report its trace id."
)
STORE_MESSAGE = (
    "The gateway cannot reach its database at the moment. Nothing was charged; try again shortly."
)


def explain(error: BaseException) -> GatewayError:
    """Turn any exception into the error that the client is told."""
    if isinstance(error, GatewayError):
        return error
    if is_outage(error):
        return GatewayError(NO_CHANNEL_AVAILABLE, STORE_MESSAGE)
    if isinstance(error, HTTPError) and 400 <= error.status_code < 500:
        # Tornado's own complaints about a request, e.g. a path that is not UTF-8.
        return GatewayError(INVALID_REQUEST, "The request is malformed.")
    return GatewayError(INTERNAL_ERROR, INTERNAL_MESSAGE)


def is_outage(error: BaseException) -> bool:
    """True when the database is away, which its own log lines tell in full."""
    return isinstance(error, StoreUnavailable | LedgerUnavailable)


def is_expected(error: BaseException) -> bool:
    """True for what is part of normal business: it is answered, not logged as a fault."""
    return isinstance(error, GatewayError) or (
        isinstance(error, HTTPError) and error.status_code < 500
    )
