"""The public application: every endpoint on one page.

`gw/api/endpoint.py` says what the members of a row mean, `gw/api/handler.py` has the part common to
all handlers, `gw/http` the server below. A path without a row is 404 `not_found`, so
`/v1/dashboard/billing/credit_grants` needs no line (reference 5.10).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TypedDict

from channels import families
from gw.api.application import GatewayApplication
from gw.api.audio.music import MusicHandler, MusicTaskHandler
from gw.api.audio.speech import SpeechHandler, SpeechTaskHandler
from gw.api.audio.transcripts import TranscriptHandler
from gw.api.audio.voices import VoicesHandler
from gw.api.balance import BalanceHandler, SubscriptionHandler, UsageHandler
from gw.api.budgets import BudgetsHandler
from gw.api.chat.compact import CompactHandler
from gw.api.chat.completions import CompletionsHandler
from gw.api.chat.counting import CountTokensHandler, InputTokensHandler, NativeCountHandler
from gw.api.chat.gemini import GeminiHandler
from gw.api.chat.messages import MessagesHandler
from gw.api.chat.responses import ResponsesHandler
from gw.api.credentials import AuthMode
from gw.api.decisions import DecisionsHandler
from gw.api.embeddings import EmbeddingsHandler, NativeEmbeddingsHandler
from gw.api.endpoint import BodyKind, Endpoint, SoldBy
from gw.api.images.handlers import EditsHandler, ImagesHandler
from gw.api.knowledge import handlers as knowledge
from gw.api.knowledge.download import DownloadHandler
from gw.api.logs.handlers import LogDetailHandler, LogListHandler, SummaryHandler
from gw.api.mcp.handler import McpHandler
from gw.api.measured import ModerationsHandler, RerankHandler, TranscriptionsHandler
from gw.api.media_files import MediaFileHandler
from gw.api.models import handlers
from gw.api.models.public_catalog import PublicCatalog, PublicCatalogHandler
from gw.api.reference import (
    audio,
    balance,
    budgets,
    chat,
    decisions,
    embeddings,
    files,
    images,
    logs,
    measured,
    models,
    videos,
    wiki,
)
from gw.api.reference.document import document
from gw.api.reference.handler import Description, DescriptionHandler
from gw.api.services import Services
from gw.api.videos.avatars import AvatarHandler, AvatarsHandler, PresetAvatarsHandler
from gw.api.videos.clip_templates import TemplateHandler, TemplatesHandler
from gw.api.videos.content import ContentHandler
from gw.api.videos.generations import VideoHandler, VideosHandler

# The billing endpoints are mounted with and without the version (reference 5.10).
_BILLING = r"(?:/v1)?/dashboard/billing"
_WIKI = "/api/v1/ext/wiki"
# The official library of native-content also uses /v1, unless the version is set.
_NATIVE = r"/v1(?:beta)?/models/(.+)(?::|%3[Aa])"
_TASK = "([^/]+)"

_GET, _POST, _BOTH = ("GET",), ("POST",), ("GET", "POST")
_FILE = ("GET", "HEAD")

# The route of the reference, which the configuration may turn off.
DESCRIBED_AT = "openapi"
# Twice a full batch of the longest sensible requests; more would only block the loop.
MCP_BODY_BYTES_MAX = 256 * 1024


class _Group(TypedDict, total=False):
    """Members that rows have in common."""

    auth: AuthMode
    limited: bool
    log_rate: bool
    touches_key: bool
    sold_by: SoldBy
    body: BodyKind


_CHAT: _Group = {"limited": True, "sold_by": "tokens", "body": "json"}
_COUNT: _Group = {"limited": True, "body": "json"}  # of tokens, before a call
_SOLD: _Group = {"limited": True, "sold_by": "count", "body": "json"}
_UPLOAD: _Group = {"limited": True, "sold_by": "count", "body": "form"}
_FREE: _Group = {"limited": True}
_FUNDS: _Group = {"touches_key": False}
_LINKED: _Group = {"auth": "none"}  # by a signed link
_LOGS: _Group = {"log_rate": True}


@cache
def routes() -> Sequence[Endpoint]:
    """Every endpoint, by family; made once."""
    return (
        # Chat
        Endpoint(
            "chat_completions",
            r"/v1/chat/completions",
            _POST,
            CompletionsHandler,
            family=families.CHAT,
            agent_keys_allowed=True,
            describes=chat.COMPLETIONS,
            **_CHAT,
        ),
        Endpoint(
            "messages",
            r"/v1/messages",
            _POST,
            MessagesHandler,
            family=families.MESSAGES,
            describes=chat.MESSAGES,
            **_CHAT,
        ),
        Endpoint(
            "count_tokens",
            r"/v1/messages/count_tokens",
            _POST,
            CountTokensHandler,
            family=families.MESSAGES,
            describes=chat.COUNT_TOKENS,
            **_COUNT,
        ),
        Endpoint(
            "responses",
            r"/v1/responses",
            _BOTH,  # a GET opens a WebSocket
            ResponsesHandler,
            family=families.RESPONSES,
            describes=chat.RESPONSES,
            **_CHAT,
        ),
        Endpoint(
            "input_tokens",
            r"/v1/responses/input_tokens",
            _POST,
            InputTokensHandler,
            family=families.RESPONSES,
            describes=chat.INPUT_TOKENS,
            **_COUNT,
        ),
        Endpoint(
            "compact",
            r"/v1/responses/compact",
            _POST,
            CompactHandler,
            family=families.RESPONSES,
            describes=chat.COMPACT,
            **_CHAT,
        ),
        Endpoint(
            "native",
            rf"{_NATIVE}(generateContent|streamGenerateContent)",
            _POST,
            GeminiHandler,
            family=families.GEMINI,
            describes=chat.NATIVE,
            **_CHAT,
        ),
        Endpoint(
            "native_count",
            rf"{_NATIVE}(countTokens)",
            _POST,
            NativeCountHandler,
            family=families.GEMINI,
            describes=chat.NATIVE_COUNT,
            **_COUNT,
        ),
        Endpoint(
            "native_embeddings",
            rf"{_NATIVE}(embedContent|batchEmbedContents)",
            _POST,
            NativeEmbeddingsHandler,
            family=families.NATIVE_EMBEDDINGS,
            describes=embeddings.NATIVE_EMBEDDINGS,
            **_CHAT,
        ),
        # Model discovery
        Endpoint(
            "models",
            r"/v1/models",
            _GET,
            handlers.ModelsHandler,
            auth="two_headers",
            limited=True,
            describes=models.LIST,
        ),
        Endpoint(
            "model", r"/v1/models/(.+)", _GET, handlers.ModelHandler, describes=models.ONE, **_FREE
        ),
        Endpoint(
            "native_models",
            r"/v1beta/models",
            _GET,
            handlers.NativeModelsHandler,
            family=families.GEMINI,
            describes=models.NATIVE_LIST,
            **_FREE,
        ),
        Endpoint(
            "native_model",
            r"/v1beta/models/(.+)",
            _GET,
            handlers.NativeModelHandler,
            family=families.GEMINI,
            describes=models.NATIVE_ONE,
            **_FREE,
        ),
        Endpoint(
            "public_catalog",
            r"/api/v1/models/public",
            _GET,
            PublicCatalogHandler,
            auth="none",
            options={"catalog": PublicCatalog()},
            describes=models.CATALOG,
        ),
        # Balance and budgets
        Endpoint(
            "key_balance", r"/v1/key/balance", _GET, BalanceHandler, describes=balance.KEY, **_FUNDS
        ),
        Endpoint(
            "billing_subscription",
            rf"{_BILLING}/subscription",
            _GET,
            SubscriptionHandler,
            describes=balance.SUBSCRIPTION,
            **_FUNDS,
        ),
        Endpoint(
            "billing_usage",
            rf"{_BILLING}/usage",
            _GET,
            UsageHandler,
            describes=balance.USAGE,
            **_FUNDS,
        ),
        Endpoint("budgets", r"/v1/budgets", _GET, BudgetsHandler, describes=budgets.LIST, **_FREE),
        # Images
        Endpoint(
            "images",
            r"/v1/images/generations",
            _POST,
            ImagesHandler,
            family=families.IMAGES,
            describes=images.GENERATIONS,
            **_SOLD,
        ),
        Endpoint(
            "image_edits",
            r"/v1/images/edits",
            _POST,
            EditsHandler,
            family=families.IMAGES,
            describes=images.EDITS,
            **_UPLOAD,
        ),
        # Video generation
        Endpoint(
            "videos",
            r"/v1/videos/generations",
            _BOTH,
            VideosHandler,
            family=families.VIDEOS,
            describes=videos.GENERATIONS,
            **_SOLD,
        ),
        Endpoint(
            "video",
            rf"/v1/videos/generations/{_TASK}",
            _GET,
            VideoHandler,
            describes=videos.ONE,
            **_FREE,
        ),
        Endpoint(
            "video_content",
            rf"/v1/videos/generations/{_TASK}/content",
            _FILE,
            ContentHandler,
            describes=videos.CONTENT,
            **_LINKED,
        ),
        # Avatars and templates of smart edit
        Endpoint(
            "avatars",
            r"/v1/videos/avatars",
            _BOTH,
            AvatarsHandler,
            family=families.AVATARS,
            describes=videos.AVATARS,
            **_SOLD,
        ),
        Endpoint(
            "preset_avatars",
            r"/v1/videos/avatars/presets",
            _GET,
            PresetAvatarsHandler,
            describes=videos.PRESETS,
            **_FREE,
        ),
        Endpoint(
            "avatar",
            rf"/v1/videos/avatars/{_TASK}",
            ("GET", "DELETE"),
            AvatarHandler,
            describes=videos.AVATAR,
            **_FREE,
        ),
        Endpoint(
            "clip_templates",
            r"/v1/videos/clip-templates",
            _GET,
            TemplatesHandler,
            describes=videos.TEMPLATES,
            **_FREE,
        ),
        Endpoint(
            "clip_template",
            rf"/v1/videos/clip-templates/{_TASK}",
            _GET,
            TemplateHandler,
            describes=videos.TEMPLATE,
            **_FREE,
        ),
        # Music
        Endpoint(
            "music",
            r"/v1/music/generations",
            _BOTH,
            MusicHandler,
            family=families.MUSIC_GENERATIONS,
            describes=audio.MUSIC,
            **_SOLD,
        ),
        Endpoint(
            "music_task",
            rf"/v1/music/generations/{_TASK}",
            _GET,
            MusicTaskHandler,
            describes=audio.SONG,
            **_FREE,
        ),
        # Speech and voices
        Endpoint(
            "audio_speech",
            r"/v1/audio/speech",
            _BOTH,
            SpeechHandler,
            family=families.SPEECH,
            describes=audio.SPEECH,
            **_SOLD,
        ),
        Endpoint(
            "speech_task",
            rf"/v1/audio/speech/{_TASK}",
            _GET,
            SpeechTaskHandler,
            describes=audio.RECORDING,
            **_FREE,
        ),
        Endpoint(
            "audio_voices",
            r"/v1/audio/voices",
            _BOTH,
            VoicesHandler,
            family=families.VOICES,
            describes=audio.VOICES,
            **_SOLD,
        ),
        # Recordings and documents read by a model
        Endpoint(
            "transcriptions",
            r"/v1/audio/transcriptions",
            _POST,
            TranscriptionsHandler,
            family=families.TRANSCRIPTIONS,
            describes=measured.TRANSCRIPTIONS,
            **_UPLOAD,
        ),
        Endpoint(
            "rerank",
            r"/v1/rerank",
            _POST,
            RerankHandler,
            family=families.RERANK,
            describes=measured.RERANK,
            **_SOLD,
        ),
        Endpoint(
            "moderations",
            r"/v1/moderations",
            _POST,
            ModerationsHandler,
            family=families.MODERATIONS,
            limited=True,
            body="json",
            describes=measured.MODERATIONS,
        ),
        # Transcript extraction
        Endpoint(
            "transcripts",
            r"/v1/transcripts/extract",
            _POST,
            TranscriptHandler,
            family=families.TRANSCRIPTS,
            describes=audio.TRANSCRIPTS,
            **_SOLD,
        ),
        # Copies of results
        Endpoint(
            "media_file",
            r"/v1/media/([^/]+)",
            _FILE,
            MediaFileHandler,
            describes=files.MEDIA,
            **_LINKED,
        ),
        # Call logs
        Endpoint("logs", r"/v1/logs", _GET, LogListHandler, describes=logs.LIST, **_LOGS),
        Endpoint(
            "logs_summary",
            r"/v1/logs/summary",
            _GET,
            SummaryHandler,
            describes=logs.SUMMARY,
            **_LOGS,
        ),
        Endpoint(
            "log_detail",
            r"/v1/logs/([^/]+)",
            _GET,
            LogDetailHandler,
            describes=logs.DETAIL,
            **_LOGS,
        ),
        # Knowledge bases
        Endpoint(
            "wiki_search",
            rf"{_WIKI}/search",
            _GET,
            knowledge.SearchHandler,
            describes=wiki.SEARCH,
        ),
        Endpoint(
            "wiki_kbs",
            rf"{_WIKI}/kbs",
            _GET,
            knowledge.BasesHandler,
            describes=wiki.BASES,
        ),
        Endpoint(
            "wiki_tags",
            rf"{_WIKI}/tags",
            _GET,
            knowledge.TagsHandler,
            describes=wiki.TAGS,
        ),
        Endpoint(
            "wiki_tag",
            rf"{_WIKI}/tags/(.+)",
            _GET,
            knowledge.TagHandler,
            describes=wiki.TAGGED,
        ),
        Endpoint(
            "wiki_pages",
            rf"{_WIKI}/pages",
            _GET,
            knowledge.PagesHandler,
            describes=wiki.PAGES,
        ),
        Endpoint(
            "wiki_page",
            rf"{_WIKI}/pages/([^/]+)",
            _GET,
            knowledge.PageHandler,
            describes=wiki.PAGE,
        ),
        Endpoint(
            "wiki_backlinks",
            rf"{_WIKI}/pages/([^/]+)/backlinks",
            _GET,
            knowledge.BacklinksHandler,
            describes=wiki.BACKLINKS,
        ),
        Endpoint(
            "wiki_source",
            rf"{_WIKI}/pages/([^/]+)/source",
            _GET,
            knowledge.PageSourceHandler,
            describes=wiki.SOURCE,
        ),
        Endpoint(
            "wiki_download",
            rf"{_WIKI}/sources/(.+)",
            _FILE,
            DownloadHandler,
            describes=wiki.DOWNLOAD,
            **_LINKED,
        ),
        Endpoint(
            "mcp",
            r"/mcp",
            _POST,
            McpHandler,
            auth="two_headers",
            challenge='Bearer realm="gateway"',
            body="json",
            body_bytes_max=MCP_BODY_BYTES_MAX,
            describes=wiki.MCP,
        ),
        # Embeddings
        Endpoint(
            "embeddings",
            r"/v1/embeddings",
            _POST,
            EmbeddingsHandler,
            family=families.EMBEDDINGS,
            describes=embeddings.EMBEDDINGS,
            **_CHAT,
        ),
        # Decisions
        Endpoint(
            "decisions",
            r"/v1/decisions",
            _POST,
            DecisionsHandler,
            family=families.DECISIONS,
            describes=decisions.DECISIONS,
            **_CHAT,
        ),
        # Reference
        Endpoint(
            DESCRIBED_AT,
            r"/openapi.json",
            _GET,
            DescriptionHandler,
            auth="none",
            describes=files.DESCRIPTION,
            options={"describe": description},
        ),
    )


@cache
def description() -> Description:
    """Return the reference of all endpoints, made once. Raises Undescribed."""
    return Description(document(routes()))


def make_application(services: Services) -> GatewayApplication:
    """Build the application that the public listener serves.

    Raises MisstatedRow and Undescribed.
    """
    description()  # so that a row without one does not start
    endpoints = [one for one in routes() if services.config.describe or one.route != DESCRIBED_AT]
    application = GatewayApplication(endpoints, services=services)
    services.metrics.routes_served(sorted({one.route for one in endpoints}))
    return application
