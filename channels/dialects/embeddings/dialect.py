"""The record of the embeddings dialect: texts, or their tokens, as vectors.

Requests are `{model, input, encoding_format?, dimensions?, …}`, responses `{data, model, usage}`;
both are forwarded unchanged, except for the model's name. The call is billed by the input tokens
that the response states.
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
from channels.dialects.logged_parameters import counts, settings
from channels.dialects.member import member
from channels.dialects.member_words import words_of
from channels.dialects.token_counts import count_of
from channels.errors import InvalidRequest
from channels.families import EMBEDDINGS
from channels.json.json_object import JsonObject
from channels.json.lenient import NULL

# No upstream accepts more texts, or more tokens, in one request.
INPUTS_MAX = 2_048
TOKENS_MAX = 1_000_000
_WORDS = (
    f"a string, an array of 1 to {INPUTS_MAX} strings, an array of tokens, or an array of arrays "
    "of tokens"
)

Token = Annotated[int, Meta(ge=0, le=validation.INTEGER_MAX)]


class EmbeddingBody(Struct, gc=False):
    """The members that the gateway parses."""

    model: common.Model
    input: Annotated[
        Annotated[str, Meta(min_length=1)]
        | Annotated[list[str | Token | list[Token]], Meta(min_length=1, max_length=TOKENS_MAX)],
        member(
            "What the vectors are of: texts, or their tokens.",
            words=_WORDS,
            each="a string, a token, or an array of tokens",
        ),
    ]
    encoding_format: Annotated[
        Literal["float", "base64"] | None,
        member("The form of a vector: numbers, or base64.", is_logged=True),
    ] = None
    dimensions: Annotated[
        validation.Count | None, member("The numbers of a vector.", is_logged=True)
    ] = None
    user: common.User = None


ALLOWED = words_of(EmbeddingBody)
_DECODER = msgspec.json.Decoder(EmbeddingBody)
_NAMES = validation.lookalikes_of(EmbeddingBody.__struct_fields__)
_SETTINGS = frozenset(("encoding_format", "dimensions"))


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddingRequest:
    """A checked request of either form.

    `input_bytes`: the length of its input as received; `tokens`: its tokens, where it has them in
    the place of texts.
    """

    object: JsonObject
    model: str
    input_bytes: int
    tokens: int | None = None
    parameters: Mapping[str, str]


def read_request(body: bytes) -> EmbeddingRequest:
    """Parse a request body. Raises InvalidRequest with the member at fault."""
    members, read = validation.read_body(body, _DECODER, names=_NAMES, allowed=ALLOWED)
    inputs, tokens = (1, None) if isinstance(read.input, str) else _counted(read.input)
    return EmbeddingRequest(
        object=members,
        model=validation.check_model(read.model),
        input_bytes=len(members.raw["input"]),
        tokens=tokens,
        parameters=settings(members.raw, _SETTINGS) | counts(inputs=inputs),
    )


def _counted(given: list[str | int | list[int]]) -> tuple[int, int | None]:
    """Return the number of inputs, and of their tokens; None for texts. Raises InvalidRequest."""
    kinds = {type(one) for one in given}
    if kinds == {int}:
        return 1, len(given)
    if len(kinds) > 1 or len(given) > INPUTS_MAX:
        raise InvalidRequest(f"input: expected {_WORDS}.", "input")
    if kinds == {str}:
        return len(given), None
    tokens = [len(one) for one in given if isinstance(one, list)]
    if not all(tokens) or sum(tokens) > TOKENS_MAX:
        raise InvalidRequest(
            f"input: expected arrays of 1 token or more, {TOKENS_MAX} together.", "input"
        )
    return len(given), sum(tokens)


DIALECT = Dialect(
    family=EMBEDDINGS,
    address=Address(path="/v1/embeddings", accept="application/json"),
    read_request=read_request,
    upstream_body=renamed_body,
    options=model_option,
)


class _StatedVectors(Struct, gc=False):
    data: msgspec.Raw = NULL
    usage: msgspec.Raw = NULL
    model: msgspec.Raw = NULL
    error: msgspec.Raw = NULL


WHAT = "embeddings"
_RESPONSE = msgspec.json.Decoder(_StatedVectors)
# Names of the input, the protocol's own first.
_COUNTS = ("prompt_tokens", "input_tokens", "total_tokens")


def read_response(body: bytes) -> stated.Stated:
    """Parse a whole response, without its vectors. Raises UpstreamMalformed if it has none."""
    response = stated.members_in(body, _RESPONSE, what=WHAT)
    if not stated.has_entries(response.data):
        return failed(response.error)
    usage = stated.members_of(response.usage)
    tokens = (count_of(usage.get(name)) for name in _COUNTS)
    return stated.Stated(
        model=stated.model_of(response.model),
        tokens=next((one for one in tokens if one is not None), None),
    )


def failed(error: msgspec.Raw) -> stated.Stated:
    """Return a response that reports an error. Raises UpstreamMalformed if it has none."""
    return stated.Stated(error=stated.error_of(error, lacking=f"{WHAT} without vectors"))
