"""`GET /v1/models` and `GET /api/v1/models/public` (spec: Model discovery)."""

from __future__ import annotations

from gw.api.base import ApiHandler
from gw.api.catalog.catalog import PublicCatalog, model_list
from gw.errors.render import dumps


class ModelsHandler(ApiHandler):
    """The models this key may name. It costs nothing and does not look at the balance."""

    route = "models"
    auth = "models"
    limited = True

    async def on_get(self) -> None:
        models = self.services.registry().models.values()
        self.write(dumps(model_list(models, self.principal.allowed_models)))


class PublicCatalogHandler(ApiHandler):
    """The catalog with prices and capabilities, for anyone."""

    route = "public_catalog"
    auth = "none"

    def initialize(self, catalog: PublicCatalog) -> None:
        self.catalog = catalog

    async def on_get(self) -> None:
        self.write(self.catalog.body(self.services.registry()))
