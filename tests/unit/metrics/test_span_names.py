"""The names of spans against those of OpenTelemetry's own package."""

from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv.attributes import error_attributes, http_attributes, server_attributes

from channels.kinds import KINDS
from metrics import genai

CONVENTIONS = {
    value
    for page in (gen_ai_attributes, error_attributes, http_attributes, server_attributes)
    for value in vars(page).values()
    if isinstance(value, str)
}
PROVIDERS = {one.value for one in gen_ai_attributes.GenAiProviderNameValues}
OPERATIONS = {one.value for one in gen_ai_attributes.GenAiOperationNameValues}
# Providers that the conventions name; the others keep the names that we have for them.
NAMED = {
    "openai": "openai",
    "azure-openai": "azure.ai.openai",
    "azure-openai-deployments": "azure.ai.openai",
    "anthropic": "anthropic",
    "gemini": "gcp.gemini",
    "vertex": "gcp.vertex_ai",
    "bedrock": "aws.bedrock",
    "deepseek": "deepseek",
    "groq": "groq",
    "mistral": "mistral_ai",
    "xai": "x_ai",
}


def test_attributes_are_the_conventions() -> None:
    ours = {value for name, value in vars(genai).items() if name.isupper() and name[0] != "_"}
    assert ours <= CONVENTIONS | OPERATIONS
    assert {genai.CHAT, genai.GENERATE} <= OPERATIONS


def test_kinds_of_channels_have_the_names_of_the_conventions() -> None:
    assert set(NAMED) <= set(KINDS)
    assert set(NAMED.values()) <= PROVIDERS
    for kind in KINDS:
        assert genai.provider_of(kind, "owner") == NAMED.get(kind, kind)
    assert genai.provider_of("", "owner") == "owner"
