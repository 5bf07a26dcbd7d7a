"""Thinking, effort and sampling in a messages body, which depend on one another.

They also depend on the model's generation (`generations.py`). A level of thinking is sent as a
level (`output_config.effort`, with adaptive thinking), a number as a number, where the model takes
that; else each becomes the other, which is reported. With thinking the protocol accepts no
temperature but 1, no `top_k`, hardly a `top_p`, and no tool that must be called. The temperature's
maximum is 1 here, 2 elsewhere: it is clamped, not scaled, because 1 is the default everywhere and
means the same.
"""

from __future__ import annotations

from collections.abc import Mapping

from channels.dialects.messages.generations import MessagesGeneration, generation_of
from channels.families import MESSAGES
from channels.json.written import Written
from channels.translation.losses import LossReport, spelled
from channels.translation.model import (
    ClientProtocol,
    Effort,
    Reasoning,
    Request,
    Thinking,
    ToolCall,
    level_of,
)

_BUDGET_TOKENS_MIN = 1024
_TEMPERATURE_MAX = 1.0
_THINKING_TOP_P_MIN = 0.95
# The budget of each level for models without levels, and the most of the maximum that it takes, so
# that the answer has room. `level_of` is the reverse.
_BUDGETS: Mapping[Effort, int] = {
    "minimal": 1024,
    "low": 4096,
    "medium": 8192,
    "high": 24576,
    "xhigh": 32768,
    "max": 32768,
}
_BUDGET_SHARE = (4, 5)
_DYNAMIC: Effort = "medium"  # where the model cannot decide by itself


def write_thinking(
    request: Request,
    body: Written,
    report: LossReport,
    *,
    model: str,
    max_tokens: int,
    is_forced: bool,
) -> None:
    """Write these members for a model. `is_forced`: a tool must be called."""
    reasoning, generation = request.reasoning, generation_of(model)
    thinking: Written | None = None
    if reasoning is None:
        pass
    elif _is_disabled(reasoning):
        thinking = _switched_off(reasoning, request.origin, generation, body, report)
    else:
        _write_effort(reasoning, request.origin, generation, body, report)
        thinking = _thinking(
            reasoning, request, generation, report, max_tokens=max_tokens, is_forced=is_forced
        )
    if thinking is not None:
        body["thinking"] = thinking
    thinks = thinking is not None and thinking["type"] != "disabled"
    _write_sampling(request, body, report, thinks=thinks, takes_sampling=generation.takes_sampling)


def _switched_off(
    reasoning: Reasoning,
    origin: ClientProtocol,
    generation: MessagesGeneration,
    body: Written,
    report: LossReport,
) -> Written | None:
    """Switch thinking off, or reduce it to the least where the model always thinks."""
    if generation.off == "never":
        report.drop(spelled(origin, reasoning.asked))
        body.setdefault("output_config", {})["effort"] = generation.efforts[0]
    return {"type": "disabled"} if generation.off == "stated" else None


def _write_effort(
    reasoning: Reasoning,
    origin: ClientProtocol,
    generation: MessagesGeneration,
    body: Written,
    report: LossReport,
) -> None:
    """Write the level, or for models without budgets the level of a budget."""
    effort, budget = reasoning.effort, reasoning.budget_tokens
    if effort is None and budget is not None and budget > 0 and not generation.takes_budgets:
        effort = level_of(budget)
        if generation.is_adaptive:
            report.drop(spelled(origin, "reasoning.budget_tokens"))
    if effort is None or not generation.efforts:
        return
    fitted = generation.fitted(effort)
    if fitted != effort:
        report.drop(spelled(origin, reasoning.asked))
    body.setdefault("output_config", {})["effort"] = fitted


def _display(reasoning: Reasoning) -> dict[str, str]:
    if reasoning.shows_thoughts is None or reasoning.is_enabled is False:
        return {}
    return {"display": "summarized" if reasoning.shows_thoughts else "omitted"}


def _thinking(
    reasoning: Reasoning,
    request: Request,
    generation: MessagesGeneration,
    report: LossReport,
    *,
    max_tokens: int,
    is_forced: bool,
) -> Written | None:
    origin, budget, effort = request.origin, reasoning.budget_tokens, reasoning.effort
    if not (effort or reasoning.is_enabled or budget is not None):
        if reasoning.shows_thoughts is not None:
            report.drop(spelled(origin, "reasoning.shows_thoughts"))
        return None
    has_budget = budget is not None and budget > 0
    is_level_written = effort is not None and bool(generation.efforts)
    if is_forced or not generation.thinks:
        if has_budget or not is_level_written:
            report.drop(spelled(origin, reasoning.asked))
        return None
    if generation.is_adaptive and not (has_budget and generation.takes_budgets):
        return {"type": "adaptive"} | _display(reasoning)
    if budget is not None and has_budget:
        wanted = budget
    else:
        part, whole = _BUDGET_SHARE
        wanted = min(_BUDGETS[effort or _DYNAMIC], max_tokens * part // whole)
    fitted = _fitted_budget(wanted, request, max_tokens)
    if fitted is None or not (fitted == budget or is_level_written):
        report.drop(spelled(origin, reasoning.asked))
    return {"type": "enabled", "budget_tokens": fitted} | _display(reasoning) if fitted else None


def _is_disabled(reasoning: Reasoning) -> bool:
    return (
        reasoning.is_enabled is False or reasoning.effort == "none" or reasoning.budget_tokens == 0
    )


def _fitted_budget(budget: int, request: Request, max_tokens: int) -> int | None:
    """Return the budget within the protocol's bounds; None if it allows none."""
    if max_tokens <= _BUDGET_TOKENS_MIN or _continues_unproven(request):
        return None
    return max(_BUDGET_TOKENS_MIN, min(budget, max_tokens - 1))


def _continues_unproven(request: Request) -> bool:
    """Whether the model is between tool calls, and its turn lacks its earlier thoughts.

    With a thinking budget the protocol refuses such a turn.
    """
    last = next((turn for turn in reversed(request.turns) if turn.role == "assistant"), None)
    if last is None or not any(isinstance(part, ToolCall) for part in last.parts):
        return False
    thoughts = [part for part in last.parts if isinstance(part, Thinking)]
    return not any(part.signer == MESSAGES.protocol for part in thoughts)


def _write_sampling(
    request: Request,
    body: Written,
    report: LossReport,
    *,
    thinks: bool,
    takes_sampling: bool,
) -> None:
    origin = request.origin
    temperature, top_p = request.temperature, request.top_p
    if not takes_sampling:
        for name, default in (("temperature", 1), ("top_p", 1), ("top_k", None)):
            if getattr(request, name) not in (None, default):
                report.drop(spelled(origin, name))
        return
    if temperature is not None:
        if temperature > _TEMPERATURE_MAX:
            report.drop(spelled(origin, "temperature"))
            temperature = _TEMPERATURE_MAX
        if not thinks:
            body["temperature"] = temperature
        elif temperature != _TEMPERATURE_MAX:
            report.drop(spelled(origin, "temperature"))
    if top_p is not None:
        # Models since Opus 4.1 refuse both, even if top_p has no effect.
        if "temperature" in body or (thinks and top_p < _THINKING_TOP_P_MIN):
            report.drop(spelled(origin, "top_p"))
        else:
            body["top_p"] = top_p
    if request.top_k is not None:
        if thinks:
            report.drop(spelled(origin, "top_k"))
        else:
            body["top_k"] = request.top_k
