"""`generationConfig`, both ways: maximum, sampling, response format, and thinking.

An effort becomes a level, a number a budget; the protocol allows only one of the two. What each
model takes is in `generations.py`. Where there are only budgets an effort becomes the number that
the provider itself uses for it, and is reported, as is what a model cannot do.
"""

from __future__ import annotations

from collections.abc import Mapping

from channels.dialects.gemini.generations import GeminiGeneration, generation_of
from channels.dialects.gemini.members import TranslatedConfig, camel_keys
from channels.dialects.gemini.references import CopyRoom
from channels.dialects.gemini.schemas import described, read_schema, write_schema
from channels.dialects.same_fields import read_fields, write_fields
from channels.errors import InvalidRequest
from channels.translation.body_members import Members
from channels.translation.losses import LossReport, report_lacking, spelled
from channels.translation.model import (
    ClientProtocol,
    Effort,
    Format,
    Media,
    Reasoning,
    Request,
    ToolResult,
)

# Fields of which the protocol, or a translation, takes not every value.
_BOUNDED = frozenset(("max_tokens", "stop", "seed", "count"))
_STOPS_MAX = 5
_SEED_MAX = 2**31 - 1
_LEVELS: Mapping[Effort, str] = {
    "minimal": "MINIMAL",
    "low": "LOW",
    "medium": "MEDIUM",
    "high": "HIGH",
    "xhigh": "XHIGH",
    "max": "XHIGH",
}
_BUDGETS: Mapping[Effort, int] = {
    "minimal": 1024,
    "low": 1024,
    "medium": 8192,
    "high": 24576,
    "xhigh": 24576,
    "max": 24576,
}
# The budget by which the model decides, and that which disables thinking.
_DYNAMIC = -1
_OFF = 0
_RESOLUTIONS = {"low": "MEDIA_RESOLUTION_LOW", "high": "MEDIA_RESOLUTION_HIGH"}


_JSON = "application/json"
_TEXT = "text/plain"
_EFFORTS: Mapping[str, Effort] = {
    "MINIMAL": "minimal",
    "LOW": "low",
    "MEDIUM": "medium",
    "HIGH": "high",
    "XHIGH": "xhigh",
}
_UNSPECIFIED = "THINKING_LEVEL_UNSPECIFIED"
_PENALTIES = (
    ("frequency_penalty", "frequencyPenalty"),
    ("presence_penalty", "presencePenalty"),
)


def write_config(
    request: Request, *, model: str, max_tokens: int | None, report: LossReport, room: CopyRoom
) -> dict[str, object]:
    """Return the `generationConfig` member; `model` is the upstream's name."""
    origin = request.origin
    config: dict[str, object] = {} if max_tokens is None else {"maxOutputTokens": max_tokens}
    write_fields(request, TranslatedConfig, config, without=_BOUNDED)
    generation = generation_of(model)
    if not generation.takes_penalties:
        for field, name in _PENALTIES:
            if config.pop(name, 0) != 0:
                report.drop(spelled(origin, field))
    if request.seed is not None:
        if -_SEED_MAX - 1 <= request.seed <= _SEED_MAX:
            config["seed"] = request.seed
        else:
            report.drop(spelled(origin, "seed"))
    report_lacking(request, ("count",), report)  # translations return one response
    _write_stop(request, config, report)
    form = request.format
    is_json = form is not None and form.kind != "text"
    if is_json and request.tools and not generation.takes_format_with_functions:
        report.drop(spelled(origin, "format"))
    elif form is not None:
        _write_format(form, request, config, report, room)
    if request.reasoning is not None:
        thinking = _thinking(request.reasoning, request, model, report)
        if thinking:
            config["thinkingConfig"] = thinking
    _write_resolution(request, config, report)
    return config


def _write_stop(request: Request, config: dict[str, object], report: LossReport) -> None:
    stop = tuple(text for text in request.stop if text)[:_STOPS_MAX]
    if len(stop) < len(request.stop):
        report.drop(spelled(request.origin, "stop"))
    if stop:
        config["stopSequences"] = list(stop)


def _write_format(
    form: Format, request: Request, config: dict[str, object], report: LossReport, room: CopyRoom
) -> None:
    """Encode the response format; the protocol always enforces a schema."""
    config["responseMimeType"] = "text/plain" if form.kind == "text" else "application/json"
    if form.kind != "schema" or form.schema is None:
        return
    origin = request.origin
    schema = write_schema(form.schema, spelled(origin, "format.schema"), report, room)
    for name, field, value in (
        ("title", "format.name", form.name),
        ("description", "format.description", form.description),
    ):
        if value is not None:
            schema, is_same = described(schema, name, value)
            if not is_same:
                report.drop(spelled(origin, field))
    if form.is_strict is False:
        report.drop(spelled(origin, "format.is_strict"))
    config["responseSchema"] = schema


def _thinking(
    reasoning: Reasoning, request: Request, model: str, report: LossReport
) -> dict[str, object]:
    origin, effort, budget = request.origin, reasoning.effort, reasoning.budget_tokens
    generation = generation_of(model)
    config: dict[str, object] = {}
    is_off = reasoning.is_enabled is False or effort == "none" or budget == 0
    if not generation.thinks:
        if not is_off:
            report.drop(spelled(origin, _asked_by(reasoning)))
        return config
    if is_off:
        config.update(_off(reasoning, origin, generation, report))
    elif effort is not None:
        if budget is not None:
            report.drop(spelled(origin, "reasoning.budget_tokens"))
        config.update(_effort(effort, origin, generation, report))
    elif budget is not None:
        fitted = max(budget, generation.budget_min)
        if generation.budget_max is not None:
            fitted = min(fitted, generation.budget_max)
        config["thinkingBudget"] = fitted
        if fitted != budget:
            report.drop(spelled(origin, "reasoning.budget_tokens"))
    elif reasoning.is_enabled:
        config["thinkingBudget"] = _DYNAMIC
    shows = reasoning.shows_thoughts
    if shows is None and origin.shows_thoughts and reasoning.is_enabled:
        shows = True  # the default of that protocol
    if shows is not None and not (is_off and origin.shows_thoughts):
        config["includeThoughts"] = shows
    return config


def _asked_by(reasoning: Reasoning) -> str:
    """Return the canonical name of the member that asks for thinking."""
    if reasoning.effort is not None:
        return "reasoning.effort"
    return "reasoning.is_enabled" if reasoning.budget_tokens is None else "reasoning.budget_tokens"


def _off(
    reasoning: Reasoning, origin: ClientProtocol, generation: GeminiGeneration, report: LossReport
) -> dict[str, object]:
    """Switch thinking off, or reduce it to the least where the model always thinks."""
    if generation.can_be_off:
        return {"thinkingBudget": 0}
    stated = "reasoning.is_enabled" if reasoning.effort is None else "reasoning.effort"
    report.drop(spelled(origin, stated))
    if generation.levels:
        return {"thinkingLevel": generation.levels[0]}
    return {"thinkingBudget": generation.budget_min}


def _effort(
    effort: Effort, origin: ClientProtocol, generation: GeminiGeneration, report: LossReport
) -> dict[str, object]:
    if not generation.levels:
        report.drop(spelled(origin, "reasoning.effort"))
        return {"thinkingBudget": _BUDGETS[effort]}
    level = generation.fitted(_LEVELS[effort])
    if effort == "max" or level != _LEVELS[effort]:
        report.drop(spelled(origin, "reasoning.effort"))
    return {"thinkingLevel": level}


def _write_resolution(request: Request, config: dict[str, object], report: LossReport) -> None:
    """Set the resolution of all images together, since older models have no other.

    If images differ, the highest one applies.
    """
    parts = [part for turn in request.turns for part in turn.parts]
    parts += [one for part in parts if isinstance(part, ToolResult) for one in part.parts]
    details = {part.detail or "auto" for part in parts if isinstance(part, Media)}
    if details <= {"auto"}:
        return
    if len(details) > 1 or not details <= _RESOLUTIONS.keys():
        report.drop(spelled(request.origin, "media.detail"))
    if "high" in details:
        config["mediaResolution"] = _RESOLUTIONS["high"]
    elif details == {"low"}:
        config["mediaResolution"] = _RESOLUTIONS["low"]


def read_config(config: Members | None, left_over: dict[str, object]) -> dict[str, object]:
    """Return the canonical request's fields that the config has. Raises InvalidRequest."""
    if config is None:
        return {}
    fields: dict[str, object] = {
        **read_fields(config, TranslatedConfig),
        "format": _read_format(config, left_over),
        "reasoning": _read_reasoning(config, left_over),
    }
    config.leave_over(left_over, "generationConfig")
    return fields


def _read_format(config: Members, left_over: dict[str, object]) -> Format | None:
    mime_type = config.text("responseMimeType")
    own = config.mapping("responseSchema")
    schema = config.mapping("responseJsonSchema")
    older = config.mapping("_responseJsonSchema")
    schema = older if schema is None else schema
    if mime_type not in (None, _JSON, _TEXT):
        # Such as text/x.enum: one of the schema's values, not as JSON.
        left_over["generationConfig.responseMimeType"] = mime_type
        for name, payload in (("responseSchema", own), ("responseJsonSchema", schema)):
            if payload is not None:
                left_over[f"generationConfig.{name}"] = payload
        return None
    if schema is not None:
        return Format("schema", schema=schema, is_strict=True)
    if own is not None:
        closed = read_schema(own, config.path("responseSchema"), closes=True)
        return Format("schema", schema=closed, is_strict=True)
    if mime_type is None:
        return None
    return Format("json" if mime_type == _JSON else "text")


def _read_reasoning(config: Members, left_over: dict[str, object]) -> Reasoning | None:
    payload = config.mapping("thinkingConfig")
    if payload is None:
        return None
    stated = Members(camel_keys(payload), config.path("thinkingConfig"))
    level = (stated.text("thinkingLevel") or _UNSPECIFIED).upper()
    budget = stated.integer("thinkingBudget")
    shows = stated.boolean("includeThoughts")
    stated.leave_over(left_over, "generationConfig.thinkingConfig")
    if budget is not None:
        _check_budget(budget, level, stated.path("thinkingBudget"))
    effort = _EFFORTS.get(level)
    if effort is None and level != _UNSPECIFIED:
        left_over["generationConfig.thinkingConfig.thinkingLevel"] = level
    is_enabled = None if budget is None else {_OFF: False, _DYNAMIC: True}.get(budget)
    if is_enabled is not None:
        budget = None
    reasoning = Reasoning(
        effort=effort, budget_tokens=budget, is_enabled=is_enabled, shows_thoughts=shows
    )
    return None if reasoning == Reasoning() else reasoning


def _check_budget(budget: int, level: str, path: str) -> None:
    if level != _UNSPECIFIED:
        raise InvalidRequest(f"{path}: send either it or thinkingLevel, not both.", path)
    if budget < _DYNAMIC:
        raise InvalidRequest(f"{path}: expected a number of tokens, 0 or -1.", path)
