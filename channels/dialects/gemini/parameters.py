"""The parameters of a gemini request, for the call log."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from channels.dialects.gemini.schema import Blob, GeminiBody, LenientBody, Part
from channels.dialects.parameters import counts, names_of, setting, settings
from channels.json.members import JsonObject

# Under both spellings, as everywhere in this protocol.
_SETTINGS = frozenset(
    (
        "maxOutputTokens",
        "max_output_tokens",
        "temperature",
        "topP",
        "top_p",
        "topK",
        "top_k",
        "candidateCount",
        "candidate_count",
        "stopSequences",
        "stop_sequences",
        "responseMimeType",
        "response_mime_type",
        "seed",
        "frequencyPenalty",
        "presencePenalty",
        "responseModalities",
        "mediaResolution",
    )
)
_THINKING = ("thinkingConfig", "thinking_config")
_OF_THINKING = frozenset(
    (
        "thinkingBudget",
        "thinking_budget",
        "thinkingLevel",
        "thinking_level",
        "includeThoughts",
        "include_thoughts",
    )
)


def parameters(
    read: GeminiBody | LenientBody,
    *,
    stream: bool,
    config_name: str,
    config: JsonObject | None,
    builtin_tools: Sequence[str],
) -> dict[str, str]:
    """What was asked, by the names of the protocol; `contents` and `images` are numbers of them.

    Functions and images are told of a body as documented.
    """
    shown = {"stream": "true"} if stream else {}
    if config is not None:
        shown |= settings(config.raw, _SETTINGS, within=f"{config_name}.")
        for name in _THINKING:
            if name in config.raw:
                shown |= _thinking(config.raw[name], f"{config_name}.{name}.")
    if isinstance(read, LenientBody):
        contents = len(read.contents) if isinstance(read.contents, list) else 1
        return shown | counts(contents=contents)
    if read.tools:
        found = [tool.functions or tool.functions_spelled or () for tool in read.tools]
        names = [one.name for functions in found for one in functions]
        shown["tools"] = names_of([*names, *builtin_tools])
    shown |= _mode(read)
    parts = [part for content in read.contents for part in content.parts]
    return shown | counts(contents=len(read.contents), images=sum(map(_is_image, parts)))


def _thinking(raw: msgspec.Raw, within: str) -> dict[str, str]:
    try:
        config = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    except msgspec.ValidationError:
        return {}  # no object: the upstream will say so
    return settings(config, _OF_THINKING, within=within)


def _mode(read: GeminiBody) -> dict[str, str]:
    calling = None if read.tool_config is None else read.tool_config.function_calling_config
    if not calling or not isinstance(calling.mode, str):
        return {}
    return {"toolConfig.functionCallingConfig.mode": setting(calling.mode)}


def _is_image(part: Part) -> bool:
    blob = part.inline_data
    return isinstance(blob, Blob) and str(blob.mime_type).startswith("image/")
