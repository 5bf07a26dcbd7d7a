"""How a call ended (reference 6.2).

A failure becomes an `Ending`, which carries the error for the client as long as nothing is sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from types import MappingProxyType
from typing import Literal

from actors.failover import FailedAttempt, FailoverExhausted
from actors.wallet.messages import RowStatus
from channels.errors import (
    CredentialsRefused,
    ErrorReported,
    Throttled,
    UnexpectedStatus,
    UpstreamCut,
    UpstreamError,
    UpstreamFailed,
    UpstreamMalformed,
    UpstreamRefusal,
    UpstreamTimedOut,
    UpstreamUnreachable,
)
from channels.redaction import Redactor
from gw import errors as errors
from gw import upstream_errors
from gw.errors import GatewayError

# Bound of a header value passed on from an upstream; a date has 29 characters, a digest 64.
HEADER_CHARACTERS_MAX = 128
# Bound of `Retry-After`: libraries give up on longer ones.
RETRY_AFTER_MAX_SECONDS = 60

# Refusals of an upstream that its client has not caused: the channel's key, its credit, its rights.
CHANNEL_REFUSALS = (401, 402, 403)

FaultSide = Literal["upstream", "timeout", "gateway"]


@dataclass(frozen=True, slots=True)
class Ending:
    """Status, error code and message of the row; `error` is for the client."""

    status: RowStatus
    code: str | None
    message: str | None
    error: GatewayError | None = field(default=None, compare=False)
    is_clients: bool = field(default=False, compare=False)  # the client has caused the failure

    @property
    def fault(self) -> FaultSide | None:
        """The side at fault; None for a call that succeeded or was failed by its client."""
        if self.is_clients:
            return None
        if self.status == "error":
            return "gateway" if self.code == errors.INTERNAL_ERROR.code else "upstream"
        is_timeout = self.code == errors.UPSTREAM_TIMEOUT.code
        return "timeout" if self.status == "interrupted" and is_timeout else None


SUCCESS = Ending("success", None, None)
CLIENT_GONE = Ending("interrupted", "client_disconnected", "The client closed its connection.")
STOPPING = Ending("interrupted", "gateway_stopping", "The gateway was stopped.")

# The client's message when the channels' own actors are gone or overrun.
NO_CHANNEL = "No channel can take this request at the moment."


def shown(status: RowStatus, error: GatewayError) -> Ending:
    """Return an ending whose row has the client's message."""
    return Ending(status, error.kind.code, error.message, error)


def ending_of_failure(
    failure: FailoverExhausted, redactor: Redactor, *, serving: Sequence[str] = ()
) -> Ending:
    """Return the ending of a call without a response; the last channel tried decides.

    If none was tried, none was available. If none was passed over either, the configuration has no
    way from the protocol to the model, a retry is useless, and the message names the protocols of
    `serving` (reference 1.6). A channel without a response was unreachable; a
    response that cannot be used is an upstream error (reference 1.8).
    """
    if not failure.failed:
        return shown("rejected", _no_channel(failure, serving))
    error = failure.failed[-1].error
    if isinstance(error, UpstreamTimedOut):
        return shown("interrupted", GatewayError(errors.UPSTREAM_TIMEOUT, str(error)))
    if isinstance(error, Throttled):
        return ending_of_refusal(error.refusal, redactor)
    if isinstance(error, CredentialsRefused):
        refusal = UpstreamRefusal(
            error.status, error.members, error.retry_after, headers=error.headers, is_of_key=True
        )
        return ending_of_refusal(refusal, redactor)
    if isinstance(error, UpstreamFailed | ErrorReported):
        return shown("error", _from_upstream(error, _message(error, redactor), redactor))
    if isinstance(error, UpstreamUnreachable):
        return shown("error", GatewayError(errors.UPSTREAM_UNREACHABLE, str(error)))
    return shown("error", upstream_errors.from_upstream(502, _message(error, redactor)))


def ending_of_unknown(failure: FailoverExhausted, redactor: Redactor) -> Ending:
    """Return the ending of a submission whose acceptance is unknown (reference 7.2)."""
    error = failure.failed[-1].error
    if isinstance(error, UpstreamCut):
        return shown("interrupted", GatewayError(errors.UPSTREAM_UNREACHABLE, str(error)))
    return replace(ending_of_failure(failure, redactor), status="interrupted")


def ending_of_refusal(refusal: UpstreamRefusal, redactor: Redactor) -> Ending:
    """Return the ending for an upstream's 4xx: status and redacted message are passed through."""
    message = redactor.text(refusal.members.message) if refusal.members.message else None
    message = message or "The upstream refused the request."
    status: RowStatus = "rejected" if refusal.is_rejected else "error"
    ending = shown(status, _from_upstream(refusal, message, redactor, refusal.headers))
    is_channels = refusal.status in CHANNEL_REFUSALS or refusal.is_of_key
    return replace(ending, is_clients=not is_channels)


def ending_of_report(message: str, redactor: Redactor) -> Ending:
    """Return the ending for a failure that an upstream's response reports."""
    return shown("error", upstream_errors.from_upstream(502, redactor.text(message)))


def attempt_row(attempt: FailedAttempt, redactor: Redactor) -> dict[str, object]:
    """Return a failed attempt as the call log keeps it (reference 6.2)."""
    return {
        "seq": attempt.seq,
        "created_at": attempt.started_at,
        "latency_ms": round(attempt.seconds * 1000),
        "error_code": _code(attempt.error),
        "error_message": _message(attempt.error, redactor),
    }


def _code(error: UpstreamError) -> str:
    """Return the error code of a failed attempt in the call log."""
    if isinstance(error, UpstreamFailed | UnexpectedStatus):
        return f"upstream_{error.status}"
    if isinstance(error, UpstreamTimedOut):
        return "upstream_timeout"
    if isinstance(error, UpstreamMalformed):
        return "upstream_malformed"
    if isinstance(error, ErrorReported):
        return "upstream_error"
    return "upstream_unreachable" if isinstance(error, UpstreamUnreachable) else "upstream_cut"


def sendable(value: str | None, redactor: Redactor) -> str | None:
    """Return an upstream's header value if it may be sent to the client, else None."""
    if value is None or not (value.isascii() and value.isprintable()):
        return None
    if not 0 < len(value) <= HEADER_CHARACTERS_MAX:
        return None
    stated = value.encode()
    return value if redactor.errors.redacted(stated) is stated else None


def _from_upstream(
    refusal: UpstreamRefusal | UpstreamFailed | ErrorReported,
    message: str,
    redactor: Redactor,
    headers: Mapping[str, str] = MappingProxyType({}),
) -> GatewayError:
    return upstream_errors.from_upstream(
        refusal.status,
        message,
        details=redactor.value(refusal.members.details),
        param=redactor.value(refusal.members.param),
        headers={**headers, **retry_after_of(refusal.status, refusal.retry_after, redactor)},
    )


def retry_after_of(status: int, stated: str | None, redactor: Redactor) -> dict[str, str]:
    """Return the `Retry-After` of a busy upstream as a header, where it may be sent on."""
    value = sendable(stated, redactor) if status in (429, 503) else None
    return {} if value is None else {"Retry-After": value}


def _message(error: UpstreamError, redactor: Redactor) -> str:
    if isinstance(error, UpstreamFailed | ErrorReported) and error.members.message:
        return redactor.text(error.members.message)
    if isinstance(error, UpstreamFailed | UnexpectedStatus):
        return f"The upstream answered with status {error.status}."
    return str(error)


def _no_channel(failure: FailoverExhausted, serving: Sequence[str]) -> GatewayError:
    if not failure.passed_over:
        return errors.unserved("this model on this protocol", serving)
    reasons = set(failure.passed_over.values())
    if reasons == {"data"}:
        return errors.unkept(str(failure.demand))
    demand = failure.demand
    kept = "" if demand is None else f" that keeps what is demanded for data ({demand})"
    if reasons <= {"full", "data"}:
        message = f"Every channel of this model{kept} is busy at the moment. Try again shortly."
    else:
        message = f"No channel of this model{kept} is available at the moment. Try again shortly."
    seconds = min(max(1, ceil(failure.cooldown_seconds)), RETRY_AFTER_MAX_SECONDS)
    headers = {"Retry-After": str(seconds)}
    return GatewayError(errors.NO_CHANNEL_AVAILABLE, message, headers=headers)
