"""The wire of decisions: every answer is the first one, with a probability of three quarters."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from loadtests.simulator.ask import Ask, decoder_of, given, many, shape, tokens_of
from loadtests.simulator.completions import Completion
from loadtests.simulator.dialects.base import Dialect, decode, encode
from loadtests.simulator.exchange import Exchange

_Choice = shape(value=str | bool)
_Level = shape(label=str)
_Question = shape(
    type=Literal["predicate", "choice", "score"],
    instructions=str,
    name=str | None,
    choices=many(_Choice) | None,
    levels=many(_Level) | None,
)
_decisions = decoder_of(
    shape(
        model=str,
        input=str | list[dict[str, Any]],
        questions=many(_Question),
        sim=msgspec.Raw,
    )
)


class DecisionsDialect(Dialect):
    """`POST /v1/decisions`."""

    name = "decisions"

    def read(self, exchange: Exchange) -> Ask:
        request = decode(_decisions, exchange.body)
        return Ask(
            model=request.model,
            stream=False,
            input_tokens=tokens_of(len(str(request.input))),
            sim=given(request.sim),
            echoed={"answers": [_answer(one) for one in request.questions]},
        )

    def plain(self, ask: Ask, response: Completion) -> bytes:
        whole: dict[str, Any] = {"answers": (ask.echoed or {})["answers"], "model": ask.model}
        if response.usage is not None:
            tokens = response.usage.input
            whole["usage"] = {
                "input_tokens": tokens,
                "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
                "output_tokens": 0,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": tokens,
            }
        return encode(whole)


def _answer(question: Any) -> dict[str, Any]:
    named = {"type": question.type, "name": question.name}
    if question.type == "predicate":
        return {**named, "probability": 0.75}
    if question.type == "choice":
        values = [one.value for one in question.choices or ()]
        shares = [{"value": value, "probability": _share(n)} for n, value in enumerate(values)]
        return {**named, "choice": values[0], "confidence": 0.75, "probabilities": shares}
    labels = [one.label for one in question.levels or ()]
    shares = [
        {"value": n, "label": label, "probability": _share(n)} for n, label in enumerate(labels)
    ]
    return {**named, "score": 0.25, "confidence": 0.75, "probabilities": shares}


def _share(place: int) -> float:
    return (0.75, 0.25)[place] if place < 2 else 0.0
