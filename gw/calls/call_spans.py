"""The names of a call's spans, and their attributes of how it ended."""

from __future__ import annotations

from channels.families import CHAT_PROTOCOLS, EMBEDDINGS, MODEL_TYPES
from gw.calls.endings import Ending
from metrics import genai, spans

# Steps of a call, as its trace shows them.
HOLD = "gw.wallet.hold"
SETTLE = "gw.wallet.settle"
ACCEPT_JOB = "gw.job.accept"

_EMBEDS = MODEL_TYPES[EMBEDDINGS.protocol]


def operation_of(protocol: str) -> str:
    """Return the operation name of a protocol's calls."""
    if protocol in CHAT_PROTOCOLS:
        return genai.CHAT
    return genai.EMBED if MODEL_TYPES[protocol] == _EMBEDS else genai.GENERATE


def end_call(
    span: spans.CallSpan, ending: Ending, attributes: spans.Attributes = spans.NO_ATTRIBUTES
) -> None:
    """End the span of a call with its error; only errors of the server's side mark it as failed.

    That is the OpenTelemetry convention for servers.
    """
    ended: dict[str, spans.AttributeValue] = {"gw.status": ending.status}
    is_failure = ending.fault is not None
    if ending.error is not None:
        status = ended[genai.RESPONSE_STATUS_CODE] = ending.error.http_status
        is_failure = is_failure or status >= 500
    span.end(error_type=ending.code, is_failure=is_failure, attributes={**ended, **attributes})
