"""Lists of models, and their pages, in the shape of each protocol."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal, NotRequired, TypedDict

from msgspec import Meta

from channels.registry import ModelSpec
from gw.api.models.entries import ListedModel, NativeModel, first_entry, messages_entry
from gw.errors import INVALID_REQUEST, GatewayError

# The largest page and its default, in either protocol.
PAGE_MAX = 1000
MESSAGES_PAGE, NATIVE_PAGE = 20, 50
_DIGITS_MAX = 9


class ModelList(TypedDict):
    """The models that the key may use."""

    object: Annotated[Literal["list"], Meta(description="Always `list`.")]
    data: Annotated[list[ListedModel], Meta(description="The models, in the gateway's order.")]
    has_more: NotRequired[
        Annotated[bool, Meta(description="Of a page: whether there are more in its direction.")]
    ]
    first_id: NotRequired[
        Annotated[str | None, Meta(description="Of a page: its first model, null if it is empty.")]
    ]
    last_id: NotRequired[
        Annotated[str | None, Meta(description="Of a page: its last model, null if it is empty.")]
    ]


class NativeModelList(TypedDict):
    """A page of the models that the key may use."""

    models: Annotated[list[NativeModel], Meta(description="The models, in the gateway's order.")]
    nextPageToken: NotRequired[
        Annotated[str, Meta(description="The `pageToken` of the next page, if there is one.")]
    ]


def is_allowed(model: ModelSpec, allowed_models: frozenset[str] | None) -> bool:
    """True when an allowlist of canonical ids lets the model through; None lets every model."""
    return allowed_models is None or model.id in allowed_models


def model_list(models: Iterable[ModelSpec], *, for_messages: bool = False) -> dict[str, Any]:
    """Return a `ModelList`, its entries with the members of the messages protocol if asked."""
    more = messages_entry if for_messages else _nothing
    return {"object": "list", "data": [{**more(one), **first_entry(one)} for one in models]}


def _nothing(model: ModelSpec) -> dict[str, Any]:
    return {}


def list_page(
    models: Sequence[ModelSpec], *, limit: str, after_id: str, before_id: str
) -> tuple[Sequence[ModelSpec], dict[str, Any]]:
    """Return a page of the list as the messages protocol has it, and the members that say so.

    Without any of the three it is the whole list, and there are no members. Raises GatewayError for
    an invalid query.
    """
    if not (limit or after_id or before_id):
        return models, {}
    size = _whole(limit, "limit", usual=MESSAGES_PAGE)
    if not 1 <= size <= PAGE_MAX:
        raise _bad("limit", f"1 to {PAGE_MAX}")
    if after_id and before_id:
        raise _bad("before_id", "not to be given beside after_id")
    begin = _index_of(models, after_id, "after_id") + 1 if after_id else 0
    end = _index_of(models, before_id, "before_id") if before_id else len(models)
    page = models[max(0, end - size) : end] if before_id else models[begin : begin + size]
    has_more = end > size if before_id else begin + size < len(models)
    return page, {
        "has_more": has_more,
        "first_id": page[0].id if page else None,
        "last_id": page[-1].id if page else None,
    }


def native_page(
    models: Sequence[ModelSpec], *, page_size: str, page_token: str
) -> tuple[Sequence[ModelSpec], str | None]:
    """Return a page of native-content's list, and the token of the next. Raises GatewayError.

    A size above PAGE_MAX is PAGE_MAX, as that protocol documents it.
    """
    size = min(PAGE_MAX, _whole(page_size, "pageSize", usual=NATIVE_PAGE) or NATIVE_PAGE)
    begin = 0
    if page_token:
        begin = _index_of(models, _id_in(page_token), "pageToken") + 1
    page = models[begin : begin + size]
    is_last = begin + size >= len(models)
    return page, None if is_last else base64.urlsafe_b64encode(page[-1].id.encode()).decode()


def _id_in(token: str) -> str:
    try:
        return base64.urlsafe_b64decode(token.encode("ascii")).decode()
    except (ValueError, binascii.Error):
        return ""


def _whole(text: str, name: str, *, usual: int) -> int:
    """Return a page's size, or the default."""
    if not text:
        return usual
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX):
        raise _bad(name, "a whole number")
    return int(text)


def _index_of(models: Sequence[ModelSpec], model_id: str, name: str) -> int:
    for index, model in enumerate(models):
        if model.id == model_id:
            return index
    raise _bad(name, "one of an earlier page")


def _bad(name: str, expected: str) -> GatewayError:
    return GatewayError(INVALID_REQUEST, f"{name}: must be {expected}.", param=name)
