"""The public application: every route on one page.

`gw/api/handler.py` has the part common to all endpoints, `gw/http` the server below. A path without
a route is 404 `not_found`, so `/v1/dashboard/billing/credit_grants` needs no line (spec: Balance).
"""

from __future__ import annotations

from typing import Any

from channels.dialects.responses import dialect as responses
from gw.api.application import GatewayApplication
from gw.api.audio.music import MusicHandler, MusicTaskHandler
from gw.api.audio.speech import SpeechHandler, SpeechTaskHandler
from gw.api.audio.transcripts import TranscriptHandler
from gw.api.audio.voices import VoicesHandler
from gw.api.balance import BalanceHandler, SubscriptionHandler, UsageHandler
from gw.api.chat.compact import CompactHandler
from gw.api.chat.completions import CompletionsHandler
from gw.api.chat.counting import CountTokensHandler, InputTokensHandler, NativeCountHandler
from gw.api.chat.dialect_handler import endpoint
from gw.api.chat.gemini import GeminiHandler
from gw.api.chat.messages import MessagesHandler
from gw.api.chat.socket import serve_socket
from gw.api.embeddings import EmbeddingsHandler
from gw.api.handler import ApiHandler
from gw.api.images.handlers import EditsHandler, ImagesHandler
from gw.api.knowledge import handlers as wiki
from gw.api.knowledge.download import DownloadHandler
from gw.api.logs.handlers import LogDetailHandler, LogListHandler, SummaryHandler
from gw.api.mcp.handler import McpHandler
from gw.api.measured import ModerationsHandler, RerankHandler, TranscriptionsHandler
from gw.api.media_files import MediaFileHandler
from gw.api.models.handlers import (
    ModelHandler,
    ModelsHandler,
    NativeModelHandler,
    NativeModelsHandler,
)
from gw.api.models.public_catalog import PublicCatalog, PublicCatalogHandler
from gw.api.services import Services
from gw.api.videos.avatars import AvatarHandler, AvatarsHandler, PresetAvatarsHandler
from gw.api.videos.clip_templates import TemplateHandler, TemplatesHandler
from gw.api.videos.content import ContentHandler
from gw.api.videos.generations import VideoHandler, VideosHandler

Route = tuple[str, type[ApiHandler]] | tuple[str, type[ApiHandler], dict[str, Any]]

# The billing endpoints are mounted with and without the version (spec: Balance).
_BILLING = r"(?:/v1)?/dashboard/billing"

_WIKI = "/api/v1/ext/wiki"


def routes() -> list[Route]:
    """Path to handler, in the order of the specification."""
    return [
        # Chat
        (r"/v1/chat/completions", CompletionsHandler),
        (r"/v1/messages", MessagesHandler),
        (r"/v1/messages/count_tokens", CountTokensHandler),
        (r"/v1/responses", endpoint(responses.DIALECT, on_get=serve_socket)),
        (r"/v1/responses/input_tokens", InputTokensHandler),
        (r"/v1/responses/compact", CompactHandler),
        # Its official library also uses /v1, unless the version is set.
        (
            r"/v1(?:beta)?/models/(.+)(?::|%3[Aa])(generateContent|streamGenerateContent)",
            GeminiHandler,
        ),
        (r"/v1(?:beta)?/models/(.+)(?::|%3[Aa])(countTokens)", NativeCountHandler),
        # Model discovery
        (r"/v1/models", ModelsHandler),
        (r"/v1/models/(.+)", ModelHandler),
        (r"/v1beta/models", NativeModelsHandler),
        (r"/v1beta/models/(.+)", NativeModelHandler),
        (r"/api/v1/models/public", PublicCatalogHandler, {"catalog": PublicCatalog()}),
        # Balance
        (r"/v1/key/balance", BalanceHandler),
        (rf"{_BILLING}/subscription", SubscriptionHandler),
        (rf"{_BILLING}/usage", UsageHandler),
        # Images
        (r"/v1/images/generations", ImagesHandler),
        (r"/v1/images/edits", EditsHandler),
        # Video generation
        (r"/v1/videos/generations", VideosHandler),
        (r"/v1/videos/generations/([^/]+)", VideoHandler),
        (r"/v1/videos/generations/([^/]+)/content", ContentHandler),
        # Avatars and templates of smart edit
        (r"/v1/videos/avatars", AvatarsHandler),
        (r"/v1/videos/avatars/presets", PresetAvatarsHandler),
        (r"/v1/videos/avatars/([^/]+)", AvatarHandler),
        (r"/v1/videos/clip-templates", TemplatesHandler),
        (r"/v1/videos/clip-templates/([^/]+)", TemplateHandler),
        # Music
        (r"/v1/music/generations", MusicHandler),
        (r"/v1/music/generations/([^/]+)", MusicTaskHandler),
        # Speech and voices
        (r"/v1/audio/speech", SpeechHandler),
        (r"/v1/audio/speech/([^/]+)", SpeechTaskHandler),
        (r"/v1/audio/voices", VoicesHandler),
        # Recordings and documents read by a model
        (r"/v1/audio/transcriptions", TranscriptionsHandler),
        (r"/v1/rerank", RerankHandler),
        (r"/v1/moderations", ModerationsHandler),
        # Transcript extraction
        (r"/v1/transcripts/extract", TranscriptHandler),
        # Copies of results
        (r"/v1/media/([^/]+)", MediaFileHandler),
        # Call logs
        (r"/v1/logs", LogListHandler),
        (r"/v1/logs/summary", SummaryHandler),
        (r"/v1/logs/([^/]+)", LogDetailHandler),
        # Knowledge bases
        (rf"{_WIKI}/search", wiki.SearchHandler),
        (rf"{_WIKI}/kbs", wiki.BasesHandler),
        (rf"{_WIKI}/tags", wiki.TagsHandler),
        (rf"{_WIKI}/tags/(.+)", wiki.TagHandler),
        (rf"{_WIKI}/pages", wiki.PagesHandler),
        (rf"{_WIKI}/pages/([^/]+)", wiki.PageHandler),
        (rf"{_WIKI}/pages/([^/]+)/backlinks", wiki.BacklinksHandler),
        (rf"{_WIKI}/pages/([^/]+)/source", wiki.PageSourceHandler),
        (rf"{_WIKI}/sources/(.+)", DownloadHandler),
        (r"/mcp", McpHandler),
        # Embeddings
        (r"/v1/embeddings", EmbeddingsHandler),
    ]


def make_application(services: Services) -> GatewayApplication:
    """Build the application that the public listener serves."""
    application = GatewayApplication(routes(), services=services)
    services.metrics.routes_served(sorted({route[1].route for route in routes()}))
    return application
