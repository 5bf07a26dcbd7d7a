"""Read the members of `generationConfig`. Writing them is `encode_config.py`'s part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from channels.dialects.gemini.decode_schema import read_schema
from channels.dialects.gemini.names import camel_keys
from channels.errors import InvalidRequest
from channels.translation.model import Effort, Format, Reasoning
from channels.translation.object_reader import Members

_JSON = "application/json"
_TEXT = "text/plain"
_LEVELS: Mapping[str, Effort] = {
    "MINIMAL": "minimal",
    "LOW": "low",
    "MEDIUM": "medium",
    "HIGH": "high",
    "XHIGH": "xhigh",
}
_UNSPECIFIED = "THINKING_LEVEL_UNSPECIFIED"
# A budget that leaves the amount to the model, and one that switches thinking off.
_DYNAMIC = -1
_OFF = 0


def read_config(config: Members | None, left_over: dict[str, Any]) -> dict[str, Any]:
    """The fields of the canonical request that the config fills. Raises InvalidRequest."""
    if config is None:
        return {}
    stop = config.array("stopSequences")
    if not all(isinstance(text, str) for text in stop):
        path = config.path("stopSequences")
        raise InvalidRequest(f"{path}: expected an array of strings.", path)
    fields: dict[str, Any] = {
        "max_tokens": config.integer("maxOutputTokens"),
        "temperature": config.number("temperature"),
        "top_p": config.number("topP"),
        "top_k": config.integer("topK"),
        "stop": tuple(stop),
        "seed": config.integer("seed"),
        "frequency_penalty": config.number("frequencyPenalty"),
        "presence_penalty": config.number("presencePenalty"),
        "count": config.integer("candidateCount"),
        "format": _read_format(config, left_over),
        "reasoning": _read_reasoning(config, left_over),
    }
    for name, value in config.rest().items():
        left_over[f"generationConfig.{name}"] = value
    return fields


def _read_format(config: Members, left_over: dict[str, Any]) -> Format | None:
    mime_type = config.text("responseMimeType")
    own = config.mapping("responseSchema")
    schema = config.mapping("responseJsonSchema")
    older = config.mapping("_responseJsonSchema")
    schema = older if schema is None else schema
    if mime_type not in (None, _JSON, _TEXT):
        # Such as text/x.enum: one of some words, and not as JSON.
        left_over["generationConfig.responseMimeType"] = mime_type
        for name, held in (("responseSchema", own), ("responseJsonSchema", schema)):
            if held is not None:
                left_over[f"generationConfig.{name}"] = held
        return None
    if schema is not None:
        return Format("schema", schema=schema, is_strict=True)
    if own is not None:
        closed = read_schema(own, config.path("responseSchema"), closes=True)
        return Format("schema", schema=closed, is_strict=True)
    if mime_type is None:
        return None
    return Format("json" if mime_type == _JSON else "text")


def _read_reasoning(config: Members, left_over: dict[str, Any]) -> Reasoning | None:
    held = config.mapping("thinkingConfig")
    if held is None:
        return None
    stated = Members(camel_keys(held), config.path("thinkingConfig"))
    level = (stated.text("thinkingLevel") or _UNSPECIFIED).upper()
    budget = stated.integer("thinkingBudget")
    shows = stated.boolean("includeThoughts")
    for name, value in stated.rest().items():
        left_over[f"generationConfig.thinkingConfig.{name}"] = value
    effort = _LEVELS.get(level)
    if level != _UNSPECIFIED and budget is not None:
        path = stated.path("thinkingBudget")
        raise InvalidRequest(f"{path}: send either it or thinkingLevel, not both.", path)
    if budget is not None and budget < _DYNAMIC:
        path = stated.path("thinkingBudget")
        raise InvalidRequest(f"{path}: expected a number of tokens, 0 or -1.", path)
    if effort is None and level != _UNSPECIFIED:
        left_over["generationConfig.thinkingConfig.thinkingLevel"] = level
    is_enabled = {_OFF: False, _DYNAMIC: True}.get(budget) if budget is not None else None
    if budget is not None and is_enabled is not None:
        budget = None
    if effort is None and budget is None and is_enabled is None and shows is None:
        return None
    return Reasoning(
        effort=effort, budget_tokens=budget, is_enabled=is_enabled, shows_thoughts=shows
    )
