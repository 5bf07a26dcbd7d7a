"""The record of the decisions dialect: typed questions about one input, answered by probabilities.

Requests are `{model, input, questions, …}`, responses `{answers, model, usage}`, as OpenAI's beta
has them; both are forwarded unchanged, except for the model's name. The call is billed by the input
tokens that the response states.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from channels.dialects import common_members as common
from channels.dialects import stated, validation
from channels.dialects.address import Address
from channels.dialects.dialect import Dialect, model_option, renamed_body
from channels.dialects.logged_parameters import counts
from channels.dialects.member import member
from channels.dialects.member_words import words_of
from channels.dialects.token_counts import count_of
from channels.families import DECISIONS
from channels.json.json_object import JsonObject
from channels.json.lenient import NULL

# The most of each that an upstream documents.
QUESTIONS_MAX = 128
CHOICES_MAX = 255
LEVELS_MAX = 10
MESSAGES_MAX = 10_000

_Words = Annotated[str, Meta(min_length=1)]
_QUESTION = "an object of type predicate, choice or score, with instructions"


class Choice(Struct, gc=False):
    """One of the answers to choose from."""

    value: Annotated[str | bool, member(words="a string or a boolean")]
    description: str | None = None


class Level(Struct, gc=False):
    """One step of a scale."""

    label: _Words
    description: str | None = None


class Predicate(Struct, tag="predicate", gc=False):
    """Whether something holds."""

    instructions: _Words
    name: str | None = None


class Selection(Struct, tag="choice", gc=False):
    """Which of the choices fits."""

    instructions: _Words
    choices: Annotated[
        list[Choice],
        Meta(min_length=2, max_length=CHOICES_MAX),
        member(words=f"an array of 2 to {CHOICES_MAX} choices", each="an object with value"),
    ]
    name: str | None = None


class Score(Struct, tag="score", gc=False):
    """Where on a scale it stands."""

    instructions: _Words
    levels: Annotated[
        list[Level],
        Meta(min_length=2, max_length=LEVELS_MAX),
        member(words=f"an array of 2 to {LEVELS_MAX} levels", each="an object with label"),
    ]
    name: str | None = None


class Evidence(Struct, gc=False):
    """One message of the input."""

    role: Literal["user"]
    content: Annotated[
        _Words | Annotated[list[validation.AnyObject], Meta(min_length=1)],
        member(
            words="a string, or an array of parts",
            each="an object of type input_text or input_image",
        ),
    ]


class DecisionBody(Struct, gc=False):
    """The members that the gateway parses."""

    model: common.Model
    input: Annotated[
        _Words | Annotated[list[Evidence], Meta(min_length=1, max_length=MESSAGES_MAX)],
        member(
            "What the questions are about.",
            words="a string, or an array of the user's messages",
            each="an object with role user and content",
        ),
    ]
    questions: Annotated[
        list[Predicate | Selection | Score],
        Meta(min_length=1, max_length=QUESTIONS_MAX),
        member(
            "The questions, each with its answers.",
            words=f"an array of 1 to {QUESTIONS_MAX} questions",
            each=_QUESTION,
        ),
    ]


ALLOWED = words_of(DecisionBody)
_DECODER = msgspec.json.Decoder(DecisionBody)
_NAMES = validation.lookalikes_of(DecisionBody.__struct_fields__)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionRequest:
    """A checked request; `input_bytes` are those of input and questions as received."""

    object: JsonObject
    model: str
    input_bytes: int
    parameters: Mapping[str, str]


def read_request(body: bytes) -> DecisionRequest:
    """Parse a request body. Raises InvalidRequest with the member at fault."""
    members, read = validation.read_body(body, _DECODER, names=_NAMES, allowed=ALLOWED)
    return DecisionRequest(
        object=members,
        model=validation.check_model(read.model),
        input_bytes=len(members.raw["input"]) + len(members.raw["questions"]),
        parameters=counts(questions=len(read.questions)),
    )


DIALECT = Dialect(
    family=DECISIONS,
    address=Address(path="/v1/decisions", accept="application/json"),
    read_request=read_request,
    upstream_body=renamed_body,
    options=model_option,
)


class _StatedAnswers(Struct, gc=False):
    answers: msgspec.Raw = NULL
    usage: msgspec.Raw = NULL
    model: msgspec.Raw = NULL
    error: msgspec.Raw = NULL


_RESPONSE = msgspec.json.Decoder(_StatedAnswers)


def read_response(body: bytes) -> stated.Stated:
    """Parse a whole response, without its answers. Raises UpstreamMalformed if it has none."""
    response = stated.members_in(body, _RESPONSE, what="decisions")
    if not stated.has_entries(response.answers):
        return stated.Stated(
            error=stated.error_of(response.error, lacking="decisions without answers")
        )
    return stated.Stated(
        model=stated.model_of(response.model),
        tokens=count_of(stated.members_of(response.usage).get("input_tokens")),
    )
