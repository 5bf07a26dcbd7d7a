"""The client's error for an exception that reaches the top of a handler, and the shape of an error
of a path.

An unreachable database is a 503, which clients retry; an unknown exception is a 500 without
details.
"""

from __future__ import annotations

from tornado.web import HTTPError

from actors.catalogs import CatalogUnavailable
from actors.media_store.storage import StorageFault
from actors.store.errors import StoreUnavailable
from actors.wallet.messages import LedgerUnavailable
from channels.family import ErrorShape
from channels.media.replies import Failed
from channels.offload.pool import OffloadFailed
from channels.redaction import Redactor
from gw import errors
from gw.calls.endings import retry_after_of
from gw.http.tornado.request import TornadoRequest
from gw.upstream_errors import from_upstream

INTERNAL_MESSAGE = (
    "The gateway failed to handle this request. Try again; if it persists, report its trace id."
)
STORE_MESSAGE = (
    "The gateway cannot reach its database at the moment. Nothing was charged; try again shortly."
)


def explain(error: BaseException) -> errors.GatewayError:
    """Turn any exception into the error for the client."""
    if isinstance(error, errors.GatewayError):
        return error
    if is_outage(error):
        return errors.GatewayError(errors.NO_CHANNEL_AVAILABLE, STORE_MESSAGE)
    if isinstance(error, HTTPError) and 400 <= error.status_code < 500:
        # Tornado's own refusals, e.g. of a path that is not UTF-8.
        return errors.GatewayError(errors.INVALID_REQUEST, "The request is malformed.")
    return errors.GatewayError(errors.INTERNAL_ERROR, INTERNAL_MESSAGE)


def is_outage(error: BaseException | None) -> bool:
    """Whether the database is unreachable, which it logs itself."""
    return isinstance(error, StoreUnavailable | LedgerUnavailable)


def is_own_failure(error: BaseException) -> bool:
    """Whether a request failed by the gateway's own fault: its program, its database or its disk.

    Neither the client's fault nor an upstream's, and no refusal for want of a channel or of room.
    """
    if isinstance(error, errors.GatewayError):
        cause = error.__cause__
        return (
            error.kind is errors.INTERNAL_ERROR
            or is_outage(cause)
            or isinstance(cause, StorageFault | OffloadFailed)
        )
    return not isinstance(error, HTTPError) or error.status_code >= 500


# Errors of a path's method, raised before the endpoint begins.
PATH_ERRORS = (errors.METHOD_NOT_ALLOWED, errors.UPGRADE_REQUIRED)
# Path prefixes whose errors have another shape than the first, for every endpoint below them.
_SHAPES = (("/v1beta", ErrorShape.GEMINI), ("/v1/messages", ErrorShape.MESSAGES))


def shape_at(request: TornadoRequest) -> ErrorShape:
    """Return the shape of a 404 or 405 at a path (reference 1.9).

    The official library of native-content also uses /v1; the header of its key identifies it.
    """
    path = request.path
    for prefix, shape in _SHAPES:
        if path == prefix or path.startswith(f"{prefix}/"):
            return shape
    return ErrorShape.GEMINI if "x-goog-api-key" in request.headers else ErrorShape.CHAT


def unavailable(failure: CatalogUnavailable, redactor: Redactor) -> errors.GatewayError:
    """Return the upstream's status and message; 502 if unreachable, 503 without such a channel."""
    reply = failure.reply
    if reply is None:
        return errors.unserved("this list")
    message = redactor.text(reply.message) if reply.message else "The upstream did not tell."
    if isinstance(reply, Failed) and reply.is_unreachable:
        return errors.GatewayError(errors.UPSTREAM_UNREACHABLE, message)
    headers = retry_after_of(reply.status, reply.retry_after, redactor)
    return from_upstream(reply.status, message, headers=headers)
