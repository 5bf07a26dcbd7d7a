"""The record of the rerank dialect: documents ordered by relevance to a query.

Requests are `{model, query, documents, top_n, …}`, as upstreams of this endpoint document them;
other members are forwarded unchecked. The call is billed by the searches
(`meta.billed_units.search_units`) or tokens that the response states.
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
from channels.dialects.dialect import Dialect, model_option, renamed_body
from channels.dialects.logged_parameters import counts, settings
from channels.dialects.member import member
from channels.dialects.member_words import words_of
from channels.dialects.token_counts import count_of
from channels.errors import InvalidRequest
from channels.families import RERANK
from channels.json.json_object import JsonObject
from channels.json.lenient import NULL

# No upstream accepts more documents; most bill one search per 100 of them.
DOCUMENTS_MAX = 10_000
DOCUMENTS_PER_SEARCH = 100


class RerankBody(Struct, gc=False):
    """The members that the gateway parses."""

    model: common.Model
    query: Annotated[str, Meta(min_length=1), member("What is searched for.", words="a string")]
    documents: Annotated[
        list[str | dict[str, msgspec.Raw]],
        Meta(min_length=1, max_length=DOCUMENTS_MAX),
        member(
            "The texts to rank.",
            words=f"an array of 1 to {DOCUMENTS_MAX} texts",
            each="a string, or an object with the text in it",
        ),
    ]
    top_n: Annotated[
        validation.Count | None,
        member("How many of the best to return.", words="a whole number above 0"),
    ] = None


ALLOWED = words_of(RerankBody)
_DECODER = msgspec.json.Decoder(RerankBody)
_NAMES = validation.lookalikes_of(RerankBody.__struct_fields__)
_SETTINGS = frozenset(("top_n", "top_k", "return_documents", "max_tokens_per_doc", "truncation"))


@dataclass(frozen=True, slots=True, kw_only=True)
class RerankRequest:
    """A checked request; bytes are those of the request as received."""

    object: JsonObject
    model: str
    documents: int
    query_bytes: int
    documents_bytes: int
    parameters: Mapping[str, str]


def read_request(body: bytes) -> RerankRequest:
    """Parse a request body. Raises InvalidRequest with the member at fault."""
    members, read = validation.read_body(body, _DECODER, names=_NAMES, allowed=ALLOWED)
    if not read.query.strip():
        raise InvalidRequest("query: expected a string.", "query")
    return RerankRequest(
        object=members,
        model=validation.check_model(read.model),
        documents=len(read.documents),
        query_bytes=len(members.raw["query"]),
        documents_bytes=len(members.raw["documents"]),
        parameters=settings(members.raw, _SETTINGS) | counts(documents=len(read.documents)),
    )


DIALECT = Dialect(
    family=RERANK,
    address=Address(path="/v1/rerank", accept="application/json"),
    read_request=read_request,
    upstream_body=renamed_body,
    options=model_option,
)


class _StatedRanking(Struct, gc=False):
    results: msgspec.Raw = NULL
    data: msgspec.Raw = NULL
    meta: msgspec.Raw = NULL
    usage: msgspec.Raw = NULL
    model: msgspec.Raw = NULL
    error: msgspec.Raw = NULL


_RESPONSE = msgspec.json.Decoder(_StatedRanking)


def read_response(body: bytes) -> stated.Stated:
    """Parse a whole response, without its results.

    Raises UpstreamMalformed if it has none.
    """
    response = stated.members_in(body, _RESPONSE, what="a rerank answer")
    if not (stated.has_entries(response.results) or stated.has_entries(response.data)):
        return stated.Stated(
            error=stated.error_of(response.error, lacking="a rerank answer without results")
        )
    meta, usage = stated.members_of(response.meta), stated.members_of(response.usage)
    billed = stated.object_of(meta.get("billed_units"))
    counted = stated.object_of(meta.get("tokens"))
    tokens = (
        count_of(usage.get("total_tokens")),
        count_of(billed.get("input_tokens")),
        count_of(counted.get("input_tokens")),
    )
    return stated.Stated(
        model=stated.model_of(response.model),
        searches=count_of(billed.get("search_units")),
        tokens=next((one for one in tokens if one is not None), None),
    )
