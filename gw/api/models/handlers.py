"""Models by list and by id, as the libraries of each protocol read them (spec: Model discovery).

`GET /v1/models` is the specification's list, of every model, whoever asks; a page of it only for a
client that asks for one. A client of the messages protocol, identified by its version header, finds
the members that its libraries read beside the specification's. Libraries and coding agents request
`GET /v1/models/{id}` and `/v1beta/models` before a call, for the name and the token limits of a
model. All of it is free at any balance, respects the key's allowlist and counts for the account's
limits. An alias returns its model; a model outside the allowlist is a 404.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from channels.families import (
    CHAT_PROTOCOLS,
    EMBEDDINGS,
    GEMINI,
    PUBLIC_NAMES,
    UNIT_PRICES,
    ErrorShape,
)
from channels.registry import CAPABILITIES, ModelSpec, Registry
from channels.translation.paths import upstream_protocols
from gw.api.handler import ApiHandler
from gw.error_bodies import dumps
from gw.errors import INVALID_REQUEST, MODEL_NOT_FOUND, NOT_FOUND, GatewayError

# --- One model, in each shape ---


def first_entry(model: ModelSpec) -> dict[str, Any]:
    """Return an entry of the specification's list."""
    return {
        "id": model.id,
        "object": "model",
        "created": model.created,
        "owned_by": model.owned_by,
    }


def first_detail(model: ModelSpec) -> dict[str, Any]:
    """Return one model for clients of chat-completions and responses.

    The sizes have the names read by such clients: `context_length`, `context_window`.
    """
    sizes = {
        "context_length": model.context_size,
        "context_window": model.context_size,
        "max_completion_tokens": model.max_output_tokens,
    }
    return {**first_entry(model), "display_name": model.display_name, **_known(sizes)}


def messages_entry(model: ModelSpec) -> dict[str, Any]:
    """Return one model for clients of the messages protocol; a placeholder is shown as retired."""
    return {
        "type": "model",
        "id": model.id,
        "display_name": model.display_name,
        "created_at": _instant(model.created),
        "lifecycle": "active" if model.callable else "retired",
        "max_input_tokens": model.context_size,
        "max_tokens": model.max_output_tokens,
        "capabilities": None,
    }


def native_entry(
    registry: Registry, model: ModelSpec, translations: Collection[str]
) -> dict[str, Any]:
    """Return one model for clients of native-content, without methods if it cannot be called."""
    methods = ("generateContent", "countTokens")
    served = registry.reaches(model, {GEMINI.protocol, *translations})
    sizes = {"inputTokenLimit": model.context_size, "outputTokenLimit": model.max_output_tokens}
    return {
        "name": f"models/{model.id}",
        "version": "001",
        "displayName": model.display_name,
        **_known(sizes),
        "supportedGenerationMethods": list(methods) if served else [],
    }


def _known(sizes: dict[str, int | None]) -> dict[str, int]:
    return {name: size for name, size in sizes.items() if size is not None}


def _instant(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


# --- Lists, and their pages ---

# The largest page and its default, in either protocol.
PAGE_MAX = 1000
MESSAGES_PAGE, NATIVE_PAGE = 20, 50
_DIGITS_MAX = 9


def is_allowed(model: ModelSpec, allowed_models: frozenset[str] | None) -> bool:
    """True when an allowlist of canonical ids lets the model through; None lets every model."""
    return allowed_models is None or model.id in allowed_models


def model_list(models: Iterable[ModelSpec], *, for_messages: bool = False) -> dict[str, Any]:
    """Return the specification's list, its entries with the members of the messages protocol."""
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


# --- Their endpoints ---

# A method of native-content at the end of a path; an id may have a colon, too.
_NATIVE_METHOD = re.compile(r"(?::|%3[Aa])[A-Za-z]+\Z")


class _Models(ApiHandler):
    """The base of the model endpoints: the models visible to the key."""

    limited = True

    @property
    def is_of_messages(self) -> bool:
        """Whether the client speaks the messages protocol, whose libraries send their version."""
        headers = self.request.headers
        return "anthropic-version" in headers or "messages-api-version" in headers

    def listed(self) -> list[ModelSpec]:
        """Return the models of the key's allowlist, in the file's order, with placeholders."""
        allowed = self.principal.allowed_models
        models = self.services.current.registry.models.values()
        return [model for model in models if is_allowed(model, allowed)]

    def found(self, model_id: str) -> ModelSpec:
        """Return the model of an id or alias. Raises GatewayError: 404, also if not allowed."""
        model = self.services.current.registry.resolve(model_id)
        if model is None or not is_allowed(model, self.principal.allowed_models):
            raise self.unknown_path()
        return model

    def unknown_path(self) -> GatewayError:
        message = "There is no model of this id for this API key."
        return GatewayError(MODEL_NOT_FOUND, message, http_status=404)

    def shown_natively(self, model: ModelSpec) -> dict[str, Any]:
        """Return the model in the shape of native-content."""
        current = self.services.current
        reached = upstream_protocols(GEMINI.protocol, current.config.translations)
        return native_entry(current.registry, model, reached)


class ModelsHandler(_Models):
    """The models of this key."""

    route = "models"
    auth = "two_headers"

    def shape_of(self, error: GatewayError) -> ErrorShape:
        return ErrorShape.MESSAGES if self.is_of_messages else super().shape_of(error)

    async def on_get(self) -> None:
        names = ("limit", "after_id", "before_id")
        query = {name: self.get_query_argument(name, "") for name in names}
        models, paging = list_page(self.listed(), **query)
        listed = model_list(models, for_messages=self.is_of_messages)
        self.write(dumps({**listed, **paging}))


class _Model(_Models):
    """The base of single models; native-content calls the methods of one at `{id}:{method}`."""

    def refused_method(self) -> GatewayError:
        """Return 404 for a method of native-content that is not served (contract §7)."""
        if self.request.method == "POST" and _NATIVE_METHOD.search(self.request.path):
            return GatewayError(NOT_FOUND, "There is no such method of a model.")
        return super().refused_method()

    def shape_of(self, error: GatewayError) -> ErrorShape:
        return ErrorShape.GEMINI if error.kind is NOT_FOUND else super().shape_of(error)


class ModelHandler(_Model):
    """One model, in the shape of the protocol identified by the headers."""

    route = "model"

    @property
    def is_of_native(self) -> bool:
        """Whether the client is native-content's library, which sends its key in its own header."""
        return "x-goog-api-key" in self.request.headers

    @property
    def is_of_messages(self) -> bool:
        return super().is_of_messages or "x-api-key" in self.request.headers

    def shape_of(self, error: GatewayError) -> ErrorShape:
        if self.is_of_native:
            return ErrorShape.GEMINI
        return ErrorShape.MESSAGES if self.is_of_messages else super().shape_of(error)

    async def on_get(self, model_id: str = "") -> None:
        model = self.found(model_id)
        if self.is_of_native:
            self.write(dumps(self.shown_natively(model)))
        else:
            self.write(dumps((messages_entry if self.is_of_messages else first_detail)(model)))


class NativeModelsHandler(_Models):
    """The list of native-content."""

    route = "native_models"
    shape = ErrorShape.GEMINI

    async def on_get(self) -> None:
        page, token = native_page(
            self.listed(),
            page_size=self.get_query_argument("pageSize", ""),
            page_token=self.get_query_argument("pageToken", ""),
        )
        body: dict[str, Any] = {"models": [self.shown_natively(model) for model in page]}
        if token is not None:
            body["nextPageToken"] = token
        self.write(dumps(body))


class NativeModelHandler(_Model):
    """One model of native-content's list."""

    route = "native_model"
    shape = ErrorShape.GEMINI

    async def on_get(self, model_id: str = "") -> None:
        self.write(dumps(self.shown_natively(self.found(model_id))))


# `GET /api/v1/models/public`, the public catalog (spec: Model discovery).

# The public view of the registry.
#
# Pure functions of a Registry. Prices are list prices: the multiplier is shown beside them, not
# applied (contract §7, Catalog). A model billed by the piece has `unit_prices`, under their names
# in the configuration.


class PublicCatalog:
    """The body of the public catalog, rendered once for each registry."""

    def __init__(self) -> None:
        self._registry: Registry | None = None
        self._body = b""

    def body(self, registry: Registry) -> bytes:
        """Return the catalog of `registry` as JSON."""
        if registry is not self._registry:
            self._body = dumps({"models": public_entries(registry)})
            self._registry = registry
        return self._body


def public_entries(registry: Registry) -> list[dict[str, Any]]:
    """Return every model as the public catalog shows it (contract §5), in the file's order."""
    return [_entry(registry, model) for model in registry.models.values()]


def supported_protocols(registry: Registry, model: ModelSpec) -> list[str]:
    """Return the client protocols for which one of the model's channels is a passthrough.

    A model with an endpoint of its own is not served on the chat endpoints at all (spec: Model
    catalog entry), whatever else its channel supports.
    """
    if model.endpoint_type is not None:
        return []
    spoken: set[str] = set()
    for binding in model.bindings:
        channel = registry.channels[binding.channel_id]
        spoken |= channel.spoken(binding.upstream_model or model.id)
    return [PUBLIC_NAMES[protocol] for protocol in CHAT_PROTOCOLS if protocol in spoken]


def _entry(registry: Registry, model: ModelSpec) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "id": model.id,
        "display_name": model.display_name,
        "context_size": model.context_size,
        "input_price": _price(model.price.input),
        "output_price": _price(model.price.output),
        "cached_input_price": _price(model.price.cached_input),
        "capabilities": {name: name in model.capabilities for name in CAPABILITIES},
        "callable": model.callable,
        "endpoint_type": model.endpoint_type,
        "supported_protocols": supported_protocols(registry, model),
    }
    units = {name: _unit_price(getattr(model.price, name)) for name in UNIT_PRICES}
    if any(units.values()):
        entry["unit_prices"] = {name: price for name, price in units.items() if price is not None}
    if model.multiplier != 1:
        entry["price_multiplier"] = _price(model.multiplier)
    return entry


def _unit_price(price: Decimal | Mapping[str, Decimal] | None) -> Any:
    """Return one price, or the prices by name."""
    if isinstance(price, Mapping):
        return {name: _price(one) for name, one in price.items()}
    return _price(price)


def _price(price: Decimal | None) -> str | None:
    """Return a price as configured, but without an exponent."""
    return None if price is None else format(price, "f")


class PublicCatalogHandler(ApiHandler):
    """The catalog with prices and capabilities, for anyone."""

    route = "public_catalog"
    auth = "none"

    def initialize(self, catalog: PublicCatalog) -> None:
        self.catalog = catalog

    async def on_get(self) -> None:
        self.write(self.catalog.body(self.services.current.registry))


# `POST /v1/embeddings`: the endpoint exists, its models do not (spec: Embeddings).


class EmbeddingsHandler(ApiHandler):
    """Authenticates like any billed endpoint, then refuses every model."""

    route = "embeddings"
    protocol = EMBEDDINGS.protocol
    limited = True
    billed = True

    async def on_post(self) -> None:
        raise GatewayError(
            MODEL_NOT_FOUND,
            "Embedding models have been withdrawn; none can be called here.",
            http_status=404,
        )
