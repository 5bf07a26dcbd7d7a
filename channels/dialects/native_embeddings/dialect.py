"""The record of the native form of embeddings: contents of the native-content protocol as vectors.

`:embedContent` takes `{content, …}` and gives `{embedding}`, `:batchEmbedContents` takes
`{requests: [{model, content, …}]}` and gives `{embeddings}`; both are forwarded unchanged, except
for the model's name where the body repeats it. The call is billed by the input tokens that the
response states (`usageMetadata`), which older models leave out.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Raw, Struct

from channels.credentials import KEY_HEADERS
from channels.dialects import stated, validation
from channels.dialects.address import MODEL, Address
from channels.dialects.dialect import Dialect, model_option
from channels.dialects.embeddings.dialect import (
    INPUTS_MAX,
    WHAT,
    EmbeddingRequest,
    failed,
)
from channels.dialects.logged_parameters import counts, settings
from channels.dialects.member import member
from channels.dialects.member_words import words_of
from channels.dialects.path_model import check_path_model, check_same_model, renamed_model
from channels.dialects.token_counts import count_of
from channels.errors import InvalidRequest
from channels.families import NATIVE_EMBEDDINGS
from channels.json.json_object import JsonObject
from channels.json.lenient import NULL

_ADDRESS = Address(
    path=f"/v1beta/models/{MODEL}",
    action=":embedContent",
    key=KEY_HEADERS["x-goog-api-key"],
    accept="application/json",
    models_path="/v1beta/models",
)
BATCH_ADDRESS = replace(_ADDRESS, action=":batchEmbedContents")

_MODEL = member("The model of the path, if it is repeated.")


class EmbedContentBody(Struct, rename="camel", gc=False):
    """The members of one content that the gateway parses."""

    content: Annotated[
        validation.AnyObject, member("What the vector is of.", words="an object with parts")
    ]
    model: Annotated[Any, _MODEL] = None


class BatchEmbedContentsBody(Struct, gc=False):
    """The members of several contents that the gateway parses."""

    requests: Annotated[
        list[EmbedContentBody],
        Meta(min_length=1, max_length=INPUTS_MAX),
        member(
            "The contents, each with what it may have alone.",
            words=f"an array of 1 to {INPUTS_MAX} requests",
            each="an object with content",
        ),
    ]
    model: Annotated[Any, _MODEL] = None


ALLOWED, BATCH_ALLOWED = words_of(EmbedContentBody), words_of(BatchEmbedContentsBody)
_DECODER = msgspec.json.Decoder(EmbedContentBody)
_BATCH_DECODER = msgspec.json.Decoder(BatchEmbedContentsBody)
_NAMES = validation.lookalikes_of(EmbedContentBody.__struct_encode_fields__)
_BATCH_NAMES = validation.lookalikes_of(BatchEmbedContentsBody.__struct_fields__)
_SETTINGS = frozenset(
    ("taskType", "task_type", "outputDimensionality", "output_dimensionality", "autoTruncate")
)
_REQUESTS = msgspec.json.Decoder(list[Raw])


def read_request(body: bytes, *, model: str, is_batch: bool) -> EmbeddingRequest:
    """Parse a request body; the model is the path's. Raises InvalidRequest."""
    check_path_model(model)
    if is_batch:
        members, batch = validation.read_body(
            body, _BATCH_DECODER, names=_BATCH_NAMES, allowed=BATCH_ALLOWED
        )
        named = [batch.model, *(one.model for one in batch.requests)]
        size, inputs = len(members.raw["requests"]), len(batch.requests)
        _check_requests(members)
    else:
        members, read = validation.read_body(body, _DECODER, names=_NAMES, allowed=ALLOWED)
        named, size, inputs = [read.model], len(members.raw["content"]), 1
    for one in named:
        check_same_model(one, model)
    return EmbeddingRequest(
        object=members,
        model=model,
        input_bytes=size,
        parameters=settings(members.raw, _SETTINGS) | counts(inputs=inputs),
    )


def _check_requests(members: JsonObject) -> None:
    """Refuse a model twice in one request, since an upstream may use either."""
    for place, raw in enumerate(_REQUESTS.decode(members.raw["requests"])):
        try:
            validation.read_members(bytes(raw), _NAMES)
        except InvalidRequest as error:
            at = f"requests[{place}]" + (f".{error.param}" if error.param else "")
            raise InvalidRequest(f"{at}: {error.message}", at) from None


def upstream_body(request: EmbeddingRequest, *, upstream_model: str) -> bytes:
    """Return the client's body; the model is replaced where the body repeats it."""
    members = request.object
    if request.model == upstream_model:
        return members.body
    replaced = renamed_model(members, upstream_model)
    if "requests" in members.raw:
        each = [JsonObject.parse(bytes(raw)) for raw in _REQUESTS.decode(members.raw["requests"])]
        written = [one.edited(replace=renamed_model(one, upstream_model), add={}) for one in each]
        replaced["requests"] = b"[%b]" % b",".join(written)
    return members.edited(replace=replaced, add={})


DIALECT = Dialect(
    family=NATIVE_EMBEDDINGS,
    address=_ADDRESS,
    read_request=read_request,
    upstream_body=upstream_body,
    options=model_option,
)


class _StatedVectors(Struct, rename="camel", gc=False):
    embedding: Raw = NULL
    embeddings: Raw = NULL
    usage_metadata: Raw = NULL
    error: Raw = NULL


_RESPONSE = msgspec.json.Decoder(_StatedVectors)


def read_response(body: bytes) -> stated.Stated:
    """Parse a whole response, without its vectors. Raises UpstreamMalformed if it has none."""
    response = stated.members_in(body, _RESPONSE, what=WHAT)
    if bytes(response.embedding)[:1] != b"{" and not stated.has_entries(response.embeddings):
        return failed(response.error)
    usage = stated.members_of(response.usage_metadata)
    return stated.Stated(tokens=count_of(usage.get("promptTokenCount")))
