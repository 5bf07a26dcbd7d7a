"""Decisions, in the reference."""

from __future__ import annotations

from channels.dialects.decisions import dialect as decisions
from gw import errors
from gw.api.reference.bodies import open_body
from gw.api.reference.operation import Operation, answers
from gw.api.reference.schemas import NAME

DECISIONS = (
    Operation(
        name="create_decision",
        tag="Decisions",
        method="POST",
        summary="Ask typed questions about one input.",
        description="Never a stream.",
        body=(open_body(decisions.DecisionBody, name="DecisionBody", words=decisions.ALLOWED),),
        examples={
            "two questions": {
                "model": "demo-judge",
                "input": "The boat was charged for twice.",
                "questions": [
                    {"type": "predicate", "instructions": "The customer wants money back."},
                    {
                        "type": "choice",
                        "name": "about",
                        "instructions": "What is it about?",
                        "choices": [{"value": "billing"}, {"value": "technique"}],
                    },
                ],
            }
        },
        responses=answers(
            {
                NAME: "Decisions",
                "type": "object",
                "description": "The upstream's own response.",
                "properties": {
                    "answers": {
                        "type": "array",
                        "description": "The answers, in the order of the questions: `type`, `name`,"
                        " and `probability`, `choice` or `score`.",
                        "items": {"type": "object"},
                    },
                    "usage": {
                        "type": "object",
                        "description": "The tokens that are billed: `input_tokens`.",
                    },
                },
                "additionalProperties": True,
            },
            "The answers.",
        ),
        raises=(
            errors.MODEL_NOT_FOUND,
            errors.MODEL_NOT_ALLOWED,
            errors.QUOTA_EXCEEDED,
            errors.NO_CHANNEL_AVAILABLE,
        ),
        timeout="decisions",
        limits=("Three channels at most are tried for a request.",),
        billed_by="the tokens of the input, as the upstream counts them",
    ),
)
