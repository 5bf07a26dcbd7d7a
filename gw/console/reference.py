"""The reference of the public API as a page, drawn by Swagger UI from local files."""

from __future__ import annotations

from gw.app import description
from gw.console.pages import ConsoleHandler


class _Described(ConsoleHandler):
    """What is there only where the public listener describes itself, too."""

    def check_described(self) -> None:
        """Refuse the page where the configuration turns it off."""
        if not self.services.current.config.describe:
            self.refuse(404, "error.not_found")


class ReferenceHandler(_Described):
    """The page; its script asks for the document."""

    async def on_get(self) -> None:
        self.check_described()
        self.page("reference.html")


class DocumentHandler(_Described):
    """The document, as `GET /openapi.json` of the public listener has it."""

    async def on_get(self) -> None:
        self.check_described()
        self.set_header("Content-Type", "application/json")
        await self.finish(description().body)
