"""Thinking, effort and sampling in a messages body: they depend on one another.

Words for how much to think go out as words (`output_config.effort`, with thinking left to the
model), numbers as numbers. While it thinks the protocol takes no temperature but 1, no `top_k`,
hardly a `top_p`, and no tool that must be called. Temperature ends at 1 here, at 2 elsewhere: it is
cut, not scaled, as 1 is the default everywhere and means the same.
"""

from __future__ import annotations

from typing import Any

from channels.dialects.messages.origin import ORIGIN
from channels.families import MESSAGES
from channels.translation.field_names import spelled
from channels.translation.losses import LossReport
from channels.translation.model import Reasoning, Request, Thinking, ToolCall

_BUDGET_TOKENS_MIN = 1024
_TEMPERATURE_MAX = 1.0
_THINKING_TOP_P_MIN = 0.95


def write_thinking(
    request: Request, body: dict[str, Any], report: LossReport, *, max_tokens: int, is_forced: bool
) -> None:
    """Write all of it. `is_forced`: a tool must be called."""
    reasoning = request.reasoning or Reasoning()
    if request.origin is ORIGIN:
        _write_as_it_came(reasoning, body)
        _write_sampling(request, body, report, thinks=False)
        return
    effort = reasoning.effort
    if effort == "minimal":
        report.drop(spelled(request.origin, "reasoning.effort"))
        effort = "low"
    if effort is not None and effort != "none":
        body.setdefault("output_config", {})["effort"] = effort
    thinking = _thinking(reasoning, request, report, max_tokens=max_tokens, is_forced=is_forced)
    if thinking is not None:
        body["thinking"] = thinking
    thinks = thinking is not None and thinking["type"] != "disabled"
    _write_sampling(request, body, report, thinks=thinks)


def _write_as_it_came(reasoning: Reasoning, body: dict[str, Any]) -> None:
    if reasoning.effort is not None:
        body.setdefault("output_config", {})["effort"] = reasoning.effort
    thinking: dict[str, Any] = {}
    if reasoning.is_enabled is False:
        thinking = {"type": "disabled"}
    elif reasoning.budget_tokens is not None:
        thinking = {"type": "enabled", "budget_tokens": reasoning.budget_tokens}
    elif reasoning.is_enabled:
        thinking = {"type": "adaptive"}
    if thinking:
        body["thinking"] = thinking | _display(reasoning)


def _display(reasoning: Reasoning) -> dict[str, str]:
    if reasoning.shows_thoughts is None or reasoning.is_enabled is False:
        return {}
    return {"display": "summarized" if reasoning.shows_thoughts else "omitted"}


def _thinking(
    reasoning: Reasoning, request: Request, report: LossReport, *, max_tokens: int, is_forced: bool
) -> dict[str, Any] | None:
    origin = request.origin
    budget = reasoning.budget_tokens
    if reasoning.is_enabled is False or reasoning.effort == "none" or budget == 0:
        return {"type": "disabled"}
    has_budget = budget is not None and budget > 0
    if not (has_budget or reasoning.effort or reasoning.is_enabled or budget is not None):
        if reasoning.shows_thoughts is not None:
            report.drop(spelled(origin, "reasoning.shows_thoughts"))
        return None
    asked = "reasoning.budget_tokens" if has_budget else "reasoning.is_enabled"
    if is_forced:
        # The effort, if there was one, has been said.
        if has_budget or reasoning.effort is None:
            report.drop(spelled(origin, asked))
        return None
    if not has_budget:
        return {"type": "adaptive"} | _display(reasoning)
    assert budget is not None
    fits = max_tokens > _BUDGET_TOKENS_MIN
    if not fits or _continues_unproven(request):
        report.drop(spelled(origin, asked))
        return None
    fitted = max(_BUDGET_TOKENS_MIN, min(budget, max_tokens - 1))
    if fitted != budget:
        report.drop(spelled(origin, asked))
    return {"type": "enabled", "budget_tokens": fitted} | _display(reasoning)


def _continues_unproven(request: Request) -> bool:
    """Whether the model is amid calling tools, and what it thought before is not in its turn.

    With a budget of thinking the protocol refuses such a turn.
    """
    last = next((turn for turn in reversed(request.turns) if turn.role == "assistant"), None)
    if last is None or not any(isinstance(part, ToolCall) for part in last.parts):
        return False
    thoughts = [part for part in last.parts if isinstance(part, Thinking)]
    return not any(part.signer == MESSAGES.protocol for part in thoughts)


def _write_sampling(
    request: Request, body: dict[str, Any], report: LossReport, *, thinks: bool
) -> None:
    origin = request.origin
    temperature, top_p = request.temperature, request.top_p
    if temperature is not None:
        if temperature > _TEMPERATURE_MAX and origin is not ORIGIN:
            report.drop(spelled(origin, "temperature"))
            temperature = _TEMPERATURE_MAX
        if not thinks:
            body["temperature"] = temperature
        elif temperature != _TEMPERATURE_MAX:
            report.drop(spelled(origin, "temperature"))
    if top_p is not None:
        # Some models refuse the two together; a top_p of 1 takes nothing away.
        is_idle = top_p == 1 and temperature is not None and origin is not ORIGIN
        if thinks and top_p < _THINKING_TOP_P_MIN:
            report.drop(spelled(origin, "top_p"))
        elif not is_idle:
            body["top_p"] = top_p
    if request.top_k is not None:
        if thinks:
            report.drop(spelled(origin, "top_k"))
        else:
            body["top_k"] = request.top_k
