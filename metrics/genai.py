"""OpenTelemetry's attribute names for generative AI and related ones, defined in this file alone.

The conventions are still in development and the SDK's own constants are marked deprecated, so a
renaming there is a change here and nowhere else. Other attributes of spans are named `gw.*` by
their room.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

# Attributes of a span.
OPERATION_NAME: Final = "gen_ai.operation.name"
PROVIDER_NAME: Final = "gen_ai.provider.name"
CONVERSATION_ID: Final = "gen_ai.conversation.id"  # the client's name for it, never generated
OUTPUT_TYPE: Final = "gen_ai.output.type"
REQUEST_MODEL: Final = "gen_ai.request.model"
REQUEST_MAX_TOKENS: Final = "gen_ai.request.max_tokens"
REQUEST_TEMPERATURE: Final = "gen_ai.request.temperature"
REQUEST_TOP_P: Final = "gen_ai.request.top_p"
REQUEST_STREAM: Final = "gen_ai.request.stream"
RESPONSE_ID: Final = "gen_ai.response.id"
RESPONSE_MODEL: Final = "gen_ai.response.model"
RESPONSE_FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
RESPONSE_TIME_TO_FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"  # seconds
USAGE_INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"  # the whole input, cached included
USAGE_OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"  # the whole output, reasoning included
USAGE_CACHE_READ_INPUT_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
USAGE_CACHE_CREATION_INPUT_TOKENS: Final = "gen_ai.usage.cache_creation.input_tokens"
USAGE_REASONING_OUTPUT_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"
RESPONSE_STATUS_CODE: Final = "http.response.status_code"

# Operations.
CHAT: Final = "chat"
GENERATE: Final = "generate_content"
EMBED: Final = "embeddings"

# The conventions' names of providers, by the kind of the channel (`channels/kinds.py`), if they
# differ.
_PROVIDERS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "azure-openai": "azure.ai.openai",
        "azure-openai-deployments": "azure.ai.openai",
        "bedrock": "aws.bedrock",
        "gemini": "gcp.gemini",
        "mistral": "mistral_ai",
        "vertex": "gcp.vertex_ai",
        "xai": "x_ai",
    }
)


def provider_of(kind: str, owned_by: str) -> str:
    """Return the provider of a channel of this kind; for one without, the owner of the model."""
    return _PROVIDERS.get(kind, kind) or owned_by
