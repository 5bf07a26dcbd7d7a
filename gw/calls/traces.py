"""What the spans of a call are called, and how they say how it ended."""

from __future__ import annotations

from channels.families import FAMILIES
from gw.calls.outcome import Ending
from metrics import genai
from metrics.spans import NO_ATTRIBUTES, Attributes, AttributeValue, CallSpan

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
