"""The record of the moderations dialect: the categories for which a text or image is flagged.

Requests are `{model?, input}`, responses `{id, model, results}`; both are forwarded unchanged,
except for the model's name. It is free of charge.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from channels.dialects import common_members as common
from channels.dialects import stated, validation
from channels.dialects.address import Address
from channels.dialects.dialect import Dialect, model_option
from channels.dialects.logged_parameters import counts
from channels.dialects.member import member
from channels.dialects.member_words import words_of
from channels.families import MODERATIONS
from channels.json.json_object import JsonObject
from channels.json.lenient import NULL

INPUTS_MAX = 2048


class ModerationBody(Struct, gc=False):
    """The members that the gateway parses."""

    input: Annotated[
        str
        | Annotated[list[str | dict[str, msgspec.Raw]], Meta(min_length=1, max_length=INPUTS_MAX)],
        member(
            "What is judged.",
            words=f"a string, or an array of 1 to {INPUTS_MAX} strings or parts",
            each="a string, or an object of type text or image_url",
        ),
    ]
    model: Annotated[common.Model | None, member("The model, by its name here.")] = None


ALLOWED = words_of(ModerationBody)
_DECODER = msgspec.json.Decoder(ModerationBody)
_NAMES = validation.lookalikes_of(ModerationBody.__struct_fields__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModerationRequest:
    """A checked request; `model`: the named one, else the default."""

    object: JsonObject
    model: str
    names_model: bool
    parameters: Mapping[str, str]


def read_request(body: bytes, usual: str = "") -> ModerationRequest:
    """Parse a request body. Raises InvalidRequest with the member at fault."""
    members, read = validation.read_body(body, _DECODER, names=_NAMES, allowed=ALLOWED)
    return ModerationRequest(
        object=members,
        model=validation.check_model(read.model or usual),
        names_model="model" in members.raw,
        parameters=counts(inputs=1 if isinstance(read.input, str) else len(read.input)),
    )


def upstream_body(request: ModerationRequest, *, upstream_model: str) -> bytes:
    """Return the client's body with the upstream's name of the model."""
    model = {"model": msgspec.json.encode(upstream_model)}
    if request.names_model:
        return request.object.edited(replace=model, add={})
    return request.object.edited(replace={}, add=model)


DIALECT = Dialect(
    family=MODERATIONS,
    address=Address(path="/v1/moderations", accept="application/json"),
    read_request=read_request,
    upstream_body=upstream_body,
    options=model_option,
)


class _StatedVerdict(Struct, gc=False):
    results: msgspec.Raw = NULL
    error: msgspec.Raw = NULL


_RESPONSE = msgspec.json.Decoder(_StatedVerdict)


def failure_in(body: bytes) -> str | None:
    """Return the message of a response that reports a failure. Raises UpstreamMalformed."""
    response = stated.members_in(body, _RESPONSE, what="a moderation")
    if stated.has_entries(response.results):
        return None
    return stated.error_of(response.error, lacking="a moderation without results")
