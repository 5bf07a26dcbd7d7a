"""Encodes the parts of a response for clients of the gemini protocol.

Nothing is lost, and foreign signatures are sent in an envelope. `encode.py` encodes the parts of
requests, for an upstream.
"""

from __future__ import annotations

from collections.abc import Mapping

from channels.dialects.gemini.media import write_media
from channels.dialects.gemini.signatures import write_redacted, write_signature
from channels.families import GEMINI
from channels.json.written import Written
from channels.translation import model
from channels.translation.call_arguments import arguments_object

# Members that only the provider understands; a text is in their place for others.
_OWN = frozenset(("executableCode", "codeExecutionResult", "inlineData", "fileData"))
_RESOLUTIONS = {"low": "MEDIA_RESOLUTION_LOW", "high": "MEDIA_RESOLUTION_HIGH"}


def write_part(part: model.Part) -> Written:
    """Encode a part of a response."""
    if isinstance(part, model.Text):
        return _restored({"text": part.text}, part.extras)
    if isinstance(part, model.ToolCall):
        function = {"id": part.id, "name": part.name, "args": arguments_object(part.arguments)}
        written: Written = {"functionCall": function}
        if part.signature is not None:
            written["thoughtSignature"] = write_signature(part.signature, part.signer)
        return _restored(written, part.extras)
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


def _restored(written: Written, extras: Mapping[str, object]) -> Written:
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


def _media(media: model.Media) -> Written:
    written = write_media(media, guesses_type=False)
    if media.name is not None:
        next(iter(written.values()))["displayName"] = media.name
    if media.detail in _RESOLUTIONS:
        written["mediaResolution"] = {"level": _RESOLUTIONS[media.detail]}
    return _restored(written, media.extras)
