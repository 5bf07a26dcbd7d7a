"""Models by list and by id, as the libraries of each protocol read them (reference 4.1).

`GET /v1/models` is the plain list, of every model, whoever asks; a page of it only for a
client that asks for one. A client of the messages protocol, identified by its version header, finds
the members that its libraries read beside the plain ones. Libraries and coding agents request
`GET /v1/models/{id}` and `/v1beta/models` before a call, for the name and the token limits of a
model. All of it is free at any balance, respects the key's allowlist and counts for the account's
limits. An alias returns its model; a model outside the allowlist is a 404.
"""

from __future__ import annotations

import re
from typing import Any

from channels.families import GEMINI
from channels.family import ErrorShape
from channels.registry import ModelSpec
from channels.translation.paths import upstream_protocols
from gw.api.handler import ApiHandler
from gw.api.models import pages
from gw.api.models.entries import first_detail, messages_entry, native_entry
from gw.error_bodies import dumps
from gw.errors import MODEL_NOT_FOUND, NOT_FOUND, GatewayError

# A method of native-content at the end of a path; an id may have a colon, too.
_NATIVE_METHOD = re.compile(r"(?::|%3[Aa])[A-Za-z]+\Z")


class _Models(ApiHandler):
    """The base of the model endpoints: the models visible to the key."""

    @property
    def is_of_messages(self) -> bool:
        """Whether the client speaks the messages protocol, whose libraries send their version."""
        headers = self.request.headers
        return "anthropic-version" in headers or "messages-api-version" in headers

    def listed(self) -> list[ModelSpec]:
        """Return the models of the key's allowlist, in the file's order, with placeholders."""
        allowed = self.principal.allowed_models
        models = self.services.current.registry.models.values()
        return [model for model in models if pages.is_allowed(model, allowed)]

    def found(self, model_id: str) -> ModelSpec:
        """Return the model of an id or alias. Raises GatewayError: 404, also if not allowed."""
        model = self.services.current.registry.resolve(model_id)
        if model is None or not pages.is_allowed(model, self.principal.allowed_models):
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

    def shape_of(self, error: GatewayError) -> ErrorShape:
        return ErrorShape.MESSAGES if self.is_of_messages else super().shape_of(error)

    async def on_get(self) -> None:
        names = ("limit", "after_id", "before_id")
        query = {name: self.get_query_argument(name, "") for name in names}
        models, paging = pages.list_page(self.listed(), **query)
        listed = pages.model_list(models, for_messages=self.is_of_messages)
        self.write(dumps({**listed, **paging}))


class _Model(_Models):
    """The base of single models; native-content calls the methods of one at `{id}:{method}`."""

    def refused_method(self) -> GatewayError:
        """Return 404 for a method of native-content that is not served (reference 1.9)."""
        if self.request.method == "POST" and _NATIVE_METHOD.search(self.request.path):
            return GatewayError(NOT_FOUND, "There is no such method of a model.")
        return super().refused_method()

    def shape_of(self, error: GatewayError) -> ErrorShape:
        return ErrorShape.GEMINI if error.kind is NOT_FOUND else super().shape_of(error)


class ModelHandler(_Model):
    """One model, in the shape of the protocol identified by the headers."""

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
            registry = self.services.current.registry
            shown = messages_entry(model) if self.is_of_messages else first_detail(registry, model)
            self.write(dumps(shown))


class NativeModelsHandler(_Models):
    """The list of native-content."""

    async def on_get(self) -> None:
        page, token = pages.native_page(
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

    async def on_get(self, model_id: str = "") -> None:
        self.write(dumps(self.shown_natively(self.found(model_id))))
