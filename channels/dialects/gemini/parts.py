"""Encodes parts of a request or a response in the gemini protocol.

For requests that came in it, and for its clients: nothing is lost, and foreign signatures are sent
in an envelope. `encode.py` encodes other protocols' parts for an upstream.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from channels.dialects.gemini.function_responses import write_response
from channels.dialects.gemini.media import write_media
from channels.dialects.gemini.signatures import prove_calls, write_redacted, write_signature
from channels.families import GEMINI
from channels.json.written import Written
from channels.translation import model
from channels.translation.call_arguments import arguments_object

# Members that only the provider understands; a text is in their place for others.
_OWN = frozenset(("executableCode", "codeExecutionResult", "inlineData", "fileData"))
_RESOLUTIONS = {"low": "MEDIA_RESOLUTION_LOW", "high": "MEDIA_RESOLUTION_HIGH"}


class GeminiWriter:
    """Encodes the parts of a turn; `calls`: those so far, for the names of their results."""

    __slots__ = ("_calls",)

    def __init__(self, calls: Mapping[str, model.ToolCall]) -> None:
        self._calls = calls

    def write(self, parts: Sequence[model.Part]) -> list[Written]:
        """Encode the parts of a request's turn."""
        written: list[Written] = []
        for part in parts:
            if isinstance(part, model.ToolResult):
                written.append(self._result(part))
            elif isinstance(part, model.Thinking) and not (part.text or part.redacted):
                _sign_last(written, part)
            else:
                written.append(write_part(part))
        prove_calls(written)
        return written

    def _result(self, result: model.ToolResult) -> Written:
        texts = [part.text for part in result.parts if isinstance(part, model.Text)]
        media = [write_part(part) for part in result.parts if isinstance(part, model.Media)]
        call = self._calls.get(result.call_id)
        name = result.name or (call.name if call is not None else "")
        function: Written = {
            "id": result.call_id,
            "name": name,
            "response": write_response(texts, is_error=result.is_error, is_exact=True),
        }
        if media:
            function["parts"] = media
        return restored({"functionResponse": function}, result.extras)


def write_part(part: model.Part) -> Written:
    """Encode a part of a response, or one of a request that does not depend on others."""
    if isinstance(part, model.Text):
        return restored({"text": part.text}, part.extras)
    if isinstance(part, model.ToolCall):
        function = {"id": part.id, "name": part.name, "args": arguments_object(part.arguments)}
        written: Written = {"functionCall": function}
        if part.signature is not None:
            written["thoughtSignature"] = write_signature(part.signature, part.signer)
        return restored(written, part.extras)
    if isinstance(part, model.Thinking):
        return write_thinking(part, is_thought=True)
    if isinstance(part, model.Media):
        return _media(part)
    assert isinstance(part, model.Refusal), part
    return {"text": part.text}


def write_thinking(part: model.Thinking, *, is_thought: bool) -> Written:
    """Encode a thought. `is_thought`: a signature without text belongs to an open thought."""
    written: Written = {"text": part.text}
    if part.text or part.redacted or is_thought or part.signer not in (None, GEMINI.protocol):
        written["thought"] = True
    if part.redacted:
        written["thoughtSignature"] = write_redacted(part.redacted, part.signer)
    elif part.signature:
        written["thoughtSignature"] = write_signature(part.signature, part.signer)
    return written


def restored(written: Written, extras: Mapping[str, object]) -> Written:
    """Restore a part's own members; `a.b` is the member b of the part's member a."""
    if not extras:
        return written
    for name, value in extras.items():
        parent, dot, last = name.partition(".")
        if dot and isinstance(written.get(parent), dict):
            written[parent][last] = value
        else:
            written[name] = value
    if not _OWN.isdisjoint(extras):
        written.pop("text", None)  # it is for other upstreams only
    return written


def _sign_last(written: list[Written], part: model.Thinking) -> None:
    """Add a signature to the last text or medium, else as a part of its own."""
    if not part.signature:
        return
    last = written[-1] if written else {}
    if (
        part.signer in (None, GEMINI.protocol)
        and "thought" not in last
        and "thoughtSignature" not in last
        and ("text" in last or "inlineData" in last or "fileData" in last)
    ):
        last["thoughtSignature"] = part.signature
    else:
        written.append(write_thinking(part, is_thought=False))


def _media(media: model.Media) -> Written:
    written = write_media(media, guesses_type=False)
    if media.name is not None:
        next(iter(written.values()))["displayName"] = media.name
    if media.detail in _RESOLUTIONS:
        written["mediaResolution"] = {"level": _RESOLUTIONS[media.detail]}
    return restored(written, media.extras)
