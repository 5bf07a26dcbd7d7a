"""Pieces of native-content bodies and chunks, for the tests beside this."""

from typing import Any

from channels.translation.losses import LossReport
from channels.translation.model import Request
from channels.translation.session import codec
from tests.unit.translation import pieces

HI = {"role": "user", "parts": [{"text": "hi"}]}
ESCAPE = "skip_thought_signature_validator"


def user(*parts: dict[str, Any] | str) -> dict[str, Any]:
    return {"role": "user", "parts": [text(part) for part in parts]}


def model(*parts: dict[str, Any] | str) -> dict[str, Any]:
    return {"role": "model", "parts": [text(part) for part in parts]}


def text(part: dict[str, Any] | str) -> dict[str, Any]:
    return {"text": part} if isinstance(part, str) else part


def thought(words: str, signature: str | None = None) -> dict[str, Any]:
    signed = {} if signature is None else {"thoughtSignature": signature}
    return {"text": words, "thought": True, **signed}


def call(
    name: str = "f", args: Any = None, signature: str | None = None, **members: Any
) -> dict[str, Any]:
    signed = {} if signature is None else {"thoughtSignature": signature}
    return {"functionCall": {"name": name, "args": args or {}, **members}, **signed}


def result(name: str = "f", response: Any = None, **members: Any) -> dict[str, Any]:
    return {"functionResponse": {"name": name, "response": response or {}, **members}}


def inline(mime_type: str, data: str, **members: Any) -> dict[str, Any]:
    return {"inlineData": {"mimeType": mime_type, "data": data, **members}}


def file(uri: str, **members: Any) -> dict[str, Any]:
    return {"fileData": {"fileUri": uri, **members}}


def called(*made: tuple[str, str, str], **members: Any) -> dict[str, Any]:
    """An assistant's message of chat with calls: id, name and arguments."""
    return pieces.calls(*(pieces.call(one, text, name) for one, name, text in made), **members)


def request_of(*contents: dict[str, Any], **members: Any) -> dict[str, Any]:
    """A request's body."""
    return {"contents": list(contents) or [HI], **members}


def chunk(*parts: dict[str, Any] | str, **members: Any) -> dict[str, Any]:
    """A chunk, or a whole answer; `finishReason` and `finishMessage` go into its candidate."""
    candidate: dict[str, Any] = {"index": 0}
    if parts:
        candidate["content"] = model(*parts)
    for name in ("finishReason", "finishMessage"):
        if name in members:
            candidate[name] = members.pop(name)
    return {"candidates": [candidate], "modelVersion": "g", "responseId": "r", **members}


def usage(prompt: int, candidates: int | None = None, **members: int) -> dict[str, Any]:
    """A `usageMetadata` member."""
    counts = {"promptTokenCount": prompt, **members}
    if candidates is not None:
        counts["candidatesTokenCount"] = candidates
    return {"usageMetadata": counts}


def encoded(request: Request, *, upstream_model: str = "gemini-3-pro") -> tuple[Any, list[str]]:
    """The body for an upstream of this protocol, and what was dropped."""
    report = LossReport()
    body = codec("native").encode_request(
        request, model=upstream_model, stream=False, max_tokens=100, report=report
    )
    return body, report.dropped
