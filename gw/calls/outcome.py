"""How a call ended, in the words of the call log and of the error table.

What went wrong upstream becomes an `Ending` (contract §7: failure classes and row status), which
carries the error that the client is shown while nothing has been sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from types import MappingProxyType
from typing import Literal

from actors.routing import FailedAttempt, FailoverExhausted
from actors.wallet.messages import RowStatus
from channels.errors import (
    CredentialsRefused,
    ErrorReported,
    UnexpectedStatus,
    UpstreamCut,
    UpstreamError,
    UpstreamFailed,
    UpstreamMalformed,
    UpstreamTimedOut,
    UpstreamUnreachable,
)
from channels.families import FAMILIES
from channels.redaction import Redactor
from gw import errors as errors
from gw.calls.stream import UpstreamRefusal
from gw.errors import GatewayError
from metrics import genai
from metrics.spans import NO_ATTRIBUTES, Attributes, AttributeValue, CallSpan

# Of a header that is passed on from an upstream; a date has 29.
HEADER_CHARACTERS_MAX = 64
# No client is sent away for longer, however long the channels stay open: clients give up beyond it.
RETRY_AFTER_MAX_SECONDS = 60


# An upstream's refusals that are not its client's doing: the channel's key, its credit, its rights.
CHANNEL_REFUSALS = (401, 402, 403)

FaultSide = Literal["upstream", "timeout", "gateway"]


@dataclass(frozen=True, slots=True)
class Ending:
    """Row status, error code and message; `error` is what the client is shown, when anything."""

    status: RowStatus
    code: str | None
    message: str | None
    error: GatewayError | None = field(default=None, compare=False)
    is_clients: bool = field(default=False, compare=False)  # it failed for what the client did

    @property
    def fault(self) -> FaultSide | None:
        """Whose fault a failed call is; None for one that did not fail, or failed by its client."""
        if self.is_clients:
            return None
        if self.status == "error":
            return "gateway" if self.code == errors.INTERNAL_ERROR.code else "upstream"
        is_timeout = self.code == errors.UPSTREAM_TIMEOUT.code
        return "timeout" if self.status == "interrupted" and is_timeout else None


SUCCESS = Ending("success", None, None)
CLIENT_GONE = Ending("interrupted", "client_disconnected", "The client closed its connection.")
STOPPING = Ending("interrupted", "gateway_stopping", "The gateway was stopped.")

# What the client is told when the channels' own actors are gone or overrun.
NO_CHANNEL = "No channel can take this request at the moment."


def shown(status: RowStatus, error: GatewayError) -> Ending:
    """An ending that the client is told of: the row says what the client is shown."""
    return Ending(status, error.kind.code, error.message, error)


def ending_of_failure(
    failure: FailoverExhausted, redactor: Redactor, *, serving: Sequence[str] = ()
) -> Ending:
    """No channel answered: the last one tried decides; none tried means none was to be had.

    Where none was even passed over, the configuration has no way to the model, which no repeating
    mends; the message then names the protocols of `serving` (contract §7: 503 and draining).
    It was unreachable where nothing of a response came; what came and cannot be used is its error
    (contract §7: A 2xx that cannot be used).
    """
    if not failure.failed:
        message = _no_channel(failure.passed_over, serving)
        seconds = min(max(1, ceil(failure.cooldown_seconds)), RETRY_AFTER_MAX_SECONDS)
        is_final = not failure.passed_over
        headers = errors.NO_RETRY if is_final else {"Retry-After": str(seconds)}
        return shown(
            "rejected", GatewayError(errors.NO_CHANNEL_AVAILABLE, message, headers=headers)
        )
    error = failure.failed[-1].error
    if isinstance(error, UpstreamTimedOut):
        return shown("interrupted", GatewayError(errors.UPSTREAM_TIMEOUT, str(error)))
    if isinstance(error, CredentialsRefused):
        refusal = UpstreamRefusal(
            error.status, error.members, error.retry_after, headers=error.headers, is_of_key=True
        )
        return ending_of_refusal(refusal, redactor)
    if isinstance(error, UpstreamFailed | ErrorReported):
        return shown("error", _from_upstream(error, _message(error, redactor), redactor))
    if isinstance(error, UpstreamUnreachable):
        return shown("error", GatewayError(errors.UPSTREAM_UNREACHABLE, str(error)))
    return shown("error", errors.from_upstream(502, _message(error, redactor)))


def ending_of_unknown(failure: FailoverExhausted, redactor: Redactor) -> Ending:
    """It is unknown whether the last channel took what was submitted (contract for media §2)."""
    error = failure.failed[-1].error
    if isinstance(error, UpstreamCut):
        return shown("interrupted", GatewayError(errors.UPSTREAM_UNREACHABLE, str(error)))
    return replace(ending_of_failure(failure, redactor), status="interrupted")


def ending_of_refusal(refusal: UpstreamRefusal, redactor: Redactor) -> Ending:
    """An upstream 4xx is the client's: its status and its message, redacted, passed through."""
    message = redactor.text(refusal.members.message) if refusal.members.message else None
    message = message or "The upstream refused the request."
    status: RowStatus = "rejected" if refusal.is_rejected else "error"
    ending = shown(status, _from_upstream(refusal, message, redactor, refusal.headers))
    is_channels = refusal.status in CHANNEL_REFUSALS or refusal.is_of_key
    return replace(ending, is_clients=not is_channels)


def ending_of_report(message: str, redactor: Redactor) -> Ending:
    """An upstream's response says that it failed: its words, as an error."""
    return shown("error", errors.from_upstream(502, redactor.text(message)))


def attempt_row(attempt: FailedAttempt, redactor: Redactor) -> dict[str, object]:
    """A failed internal attempt as the call log keeps it (spec: Call log row, attempts)."""
    return {
        "seq": attempt.seq,
        "created_at": attempt.started_at,
        "latency_ms": round(attempt.seconds * 1000),
        "error_code": _code(attempt.error),
        "error_message": _message(attempt.error, redactor),
    }


def _code(error: UpstreamError) -> str:
    """What a failed attempt is called in the call log."""
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
    """An upstream's header value, if it is fit to be sent on: seconds or a date are."""
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
    return errors.from_upstream(
        refusal.status,
        message,
        details=redactor.value(refusal.members.details),
        param=redactor.value(refusal.members.param),
        headers={**headers, **_retry_after(refusal.status, refusal.retry_after, redactor)},
    )


def _retry_after(status: int, stated: str | None, redactor: Redactor) -> dict[str, str]:
    """What an upstream that is too busy says of when to come back, fit to be sent on."""
    value = sendable(stated, redactor) if status in (429, 503) else None
    return {} if value is None else {"Retry-After": value}


def _message(error: UpstreamError, redactor: Redactor) -> str:
    if isinstance(error, UpstreamFailed | ErrorReported) and error.members.message:
        return redactor.text(error.members.message)
    if isinstance(error, UpstreamFailed | UnexpectedStatus):
        return f"The upstream answered with status {error.status}."
    return str(error)


def _no_channel(passed_over: Mapping[str, str], serving: Sequence[str]) -> str:
    if not passed_over:
        others = f" It is served on: {', '.join(serving)}." if serving else ""
        return f"No channel serves this model on this protocol.{others}"
    if all(reason == "full" for reason in passed_over.values()):
        return "Every channel of this model is busy at the moment. Try again shortly."
    return "No channel of this model is available at the moment. Try again shortly."


# What the spans of a call are called, and how they say how it ended.

# Steps of a call, as its trace shows them.
HOLD = "gw.wallet.hold"
SETTLE = "gw.wallet.settle"
ACCEPT_JOB = "gw.job.accept"


def operation_of(protocol: str) -> str:
    """The operation of a call of this family."""
    return genai.CHAT if FAMILIES[protocol].is_chat else genai.GENERATE


def end_call(span: CallSpan, ending: Ending, attributes: Attributes = NO_ATTRIBUTES) -> None:
    """End the span of a call: an error has its name, and a failure is one that is not the client's.

    As conventions have it for servers: what was asked wrongly is no failure.
    """
    ended: dict[str, AttributeValue] = {"gw.status": ending.status}
    is_failure = ending.fault is not None
    if ending.error is not None:
        status = ended[genai.RESPONSE_STATUS_CODE] = ending.error.http_status
        is_failure = is_failure or status >= 500
    span.end(error_type=ending.code, is_failure=is_failure, attributes={**ended, **attributes})
