"""Write `generationConfig`: the maximum, sampling, the response's form, and how much to think.

Words for how much to think go out as levels, numbers as budgets; the two exclude each other here.
Models of the generations before 3 take budgets only: for them a word becomes the number that the
provider itself puts for it, which is reported.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from channels.dialects.gemini.encode_schema import write_schema
from channels.dialects.gemini.origin import ORIGIN
from channels.translation.field_names import spelled
from channels.translation.losses import LossReport
from channels.translation.model import Effort, Format, Media, Reasoning, Request, ToolResult

_STOPS_MAX = 5
_SEED_MAX = 2**31 - 1
_TAKES_BUDGETS_ONLY = re.compile(r"gemini-[12](?:\D|$)")
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
_DYNAMIC = -1
_RESOLUTIONS = {"low": "MEDIA_RESOLUTION_LOW", "high": "MEDIA_RESOLUTION_HIGH"}


def write_config(
    request: Request, *, model: str, max_tokens: int | None, report: LossReport
) -> dict[str, Any]:
    """The `generationConfig` member; `model` is the upstream's own name for it."""
    origin = request.origin
    numbers = {
        "maxOutputTokens": max_tokens,
        "temperature": request.temperature,
        "topP": request.top_p,
        "topK": request.top_k,
        "presencePenalty": request.presence_penalty,
        "frequencyPenalty": request.frequency_penalty,
    }
    config: dict[str, Any] = {name: held for name, held in numbers.items() if held is not None}
    if request.seed is not None:
        if -_SEED_MAX - 1 <= request.seed <= _SEED_MAX or origin is ORIGIN:
            config["seed"] = request.seed
        else:
            report.drop(spelled(origin, "seed"))
    if request.count is not None:
        if origin is ORIGIN:
            config["candidateCount"] = request.count
        elif request.count > 1:
            report.drop(spelled(origin, "count"))  # one response is all we translate
    _write_stop(request, config, report)
    if request.format is not None:
        _write_format(request.format, request, config, report)
    if request.reasoning is not None:
        thinking = _thinking(request.reasoning, request, model, report)
        if thinking:
            config["thinkingConfig"] = thinking
    if origin is not ORIGIN:
        _write_resolution(request, config, report)
    return config


def _write_stop(request: Request, config: dict[str, Any], report: LossReport) -> None:
    stop = request.stop
    if request.origin is not ORIGIN:
        stop = tuple(text for text in stop if text)[:_STOPS_MAX]
        if len(stop) < len(request.stop):
            report.drop(spelled(request.origin, "stop"))
    if stop:
        config["stopSequences"] = list(stop)


def _write_format(
    form: Format, request: Request, config: dict[str, Any], report: LossReport
) -> None:
    """A schema is always enforced here."""
    config["responseMimeType"] = "text/plain" if form.kind == "text" else "application/json"
    if form.kind != "schema" or form.schema is None:
        return
    origin = request.origin
    if origin is ORIGIN:
        config["responseJsonSchema"] = form.schema
        return
    schema = write_schema(form.schema, spelled(origin, "format.schema"), report)
    for name, field, value in (
        ("title", "format.name", form.name),
        ("description", "format.description", form.description),
    ):
        if value is not None and schema.setdefault(name, value) != value:
            report.drop(spelled(origin, field))
    if form.is_strict is False:
        report.drop(spelled(origin, "format.is_strict"))
    config["responseSchema"] = schema


def _thinking(
    reasoning: Reasoning, request: Request, model: str, report: LossReport
) -> dict[str, Any]:
    origin, effort, budget = request.origin, reasoning.effort, reasoning.budget_tokens
    config: dict[str, Any] = {}
    is_off = reasoning.is_enabled is False or effort == "none" or budget == 0
    if is_off:
        config["thinkingBudget"] = 0
    elif effort is not None:
        if budget is not None:
            report.drop(spelled(origin, "reasoning.budget_tokens"))
        if _TAKES_BUDGETS_ONLY.search(model):
            report.drop(spelled(origin, "reasoning.effort"))
            config["thinkingBudget"] = _BUDGETS[effort]
        else:
            if effort == "max":
                report.drop(spelled(origin, "reasoning.effort"))
            config["thinkingLevel"] = _LEVELS[effort]
    elif budget is not None:
        config["thinkingBudget"] = budget
    elif reasoning.is_enabled:
        config["thinkingBudget"] = _DYNAMIC
    shows = reasoning.shows_thoughts
    if shows is None and origin.shows_thoughts and reasoning.is_enabled:
        shows = True  # what that protocol does unless told otherwise
    if shows is not None and not (is_off and origin.shows_thoughts):
        config["includeThoughts"] = shows
    return config


def _write_resolution(request: Request, config: dict[str, Any], report: LossReport) -> None:
    """How closely to look at images: of all of them at once, as older models know it.

    Where images differ in it, the closest look that one of them asks for is taken.
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
