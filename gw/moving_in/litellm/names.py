"""LiteLLM's names as tables: providers, modes and costs, and the reasons why others are left."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

ENVIRONMENT = "os.environ/"
_PER_MILLION = Decimal(1_000_000)
_ONE = Decimal(1)

# The prefix of a model before its first slash, and its kind of channel; empty: chat at the
# configured address.
KIND_OF_PROVIDER: Mapping[str, str] = {
    "openai": "openai",
    "azure": "azure-openai-deployments",
    "anthropic": "anthropic",
    "gemini": "gemini",
    "deepseek": "deepseek",
    "groq": "groq",
    "openrouter": "openrouter",
    "mistral": "mistral",
    "codestral": "mistral",
    "xai": "xai",
    "together_ai": "together",
    "fireworks_ai": "fireworks",
    "zai": "zhipu",
    "volcengine": "ark",
    "dashscope": "dashscope",
    "moonshot": "moonshot",
    "minimax": "minimax",
    "ollama": "ollama",
    "ollama_chat": "ollama",
    "hosted_vllm": "vllm",
    "vllm": "vllm",
    "llamafile": "llama.cpp",
    "openai_like": "",
    "custom_openai": "",
    "litellm_proxy": "",
    "lm_studio": "",
    "xinference": "",
    "bedrock": "bedrock",
    "vertex_ai": "vertex",
}
# Of kinds that need more than a key: LiteLLM's parameter, and the key of the configuration.
KIND_SETTINGS: Mapping[str, Mapping[str, str]] = {
    "bedrock": {"aws_region_name": "region"},
    "vertex": {"vertex_location": "region", "vertex_project": "project"},
}
KIND_CREDENTIALS: Mapping[str, Mapping[str, str]] = {
    "bedrock": {
        "aws_access_key_id": "access_key_id",
        "aws_secret_access_key": "secret_access_key",
        "aws_session_token": "session_token",
        "aws_profile_name": "profile",
    },
    "vertex": {"vertex_credentials": "file"},
}
# LiteLLM's providers of names without a prefix.
GUESSES: Mapping[str, str] = {
    "gpt-": "openai",
    "chatgpt-": "openai",
    "o1": "openai",
    "o3": "openai",
    "o4": "openai",
    "dall-e": "openai",
    "claude-": "anthropic",
}
# Modes, and the endpoint types they become.
MODES: Mapping[str, str | None] = {
    "chat": None,
    "completion": None,
    "responses": None,
    "image_generation": "images_generations",
    "audio_speech": "audio_speech",
}
# LiteLLM's costs: the member of a price, its factor, and the endpoint type.
PRICE_MEMBERS: Mapping[str, tuple[str, Decimal, str | None]] = {
    "input_cost_per_token": ("input", _PER_MILLION, None),
    "output_cost_per_token": ("output", _PER_MILLION, None),
    "cache_read_input_token_cost": ("cached_input", _PER_MILLION, None),
    "cache_creation_input_token_cost": ("cache_write", _PER_MILLION, None),
    "cache_creation_input_token_cost_above_1hr": ("cache_write_1h", _PER_MILLION, None),
    "input_cost_per_audio_token": ("audio_input", _PER_MILLION, None),
    "output_cost_per_audio_token": ("audio_output", _PER_MILLION, None),
    "output_cost_per_reasoning_token": ("reasoning_output", _PER_MILLION, None),
    "input_cost_per_image": ("per_image", _ONE, "images_generations"),
    "output_cost_per_image": ("per_image", _ONE, "images_generations"),
    "input_cost_per_character": ("per_character", _ONE, "audio_speech"),
}
_LIMITS = "limits are those of accounts: gw account limits"
_TIMES = "time-outs are the gateway's: timeouts"
_TRIES = "a call tries at most three channels, each once"
# Members of `litellm_params`, and why they are left; empty: they are carried over.
PARAMS: Mapping[str, str] = {
    **dict.fromkeys(PRICE_MEMBERS, ""),
    **dict.fromkeys(
        (
            *("model", "api_key", "api_base", "base_url", "api_version", "order", "organization"),
            *("extra_headers", "custom_llm_provider", "max_parallel_requests"),
        ),
        "",
    ),
    **{name: "" for names in KIND_SETTINGS.values() for name in names},
    **{name: "" for names in KIND_CREDENTIALS.values() for name in names},
    **dict.fromkeys(("rpm", "tpm"), _LIMITS),
    **dict.fromkeys(("timeout", "stream_timeout", "request_timeout"), _TIMES),
    **dict.fromkeys(("max_retries", "num_retries"), _TRIES),
    "weight": "channels of one priority share by load",
    "drop_params": "requests go as clients write them",
}
SETTINGS: Mapping[str, str] = {
    **dict.fromkeys(("timeout", "stream_timeout", "request_timeout"), _TIMES),
    **dict.fromkeys(("num_retries", "max_retries", "retry_policy"), _TRIES),
    "routing_strategy": "by priority and least load",
    **dict.fromkeys(
        ("redis_host", "redis_port", "redis_password", "redis_url", "cache", "cache_params"),
        "for account limits of several hosts say redis_url",
    ),
    **dict.fromkeys(
        ("context_window_fallbacks", "content_policy_fallbacks", "default_fallbacks"),
        "clients get the model that they name",
    ),
    **dict.fromkeys(
        ("callbacks", "success_callback", "failure_callback"),
        "the call log, metrics and traces tell of calls: ops/running.md",
    ),
    **dict.fromkeys(("allowed_fails", "cooldown_time"), "health of a channel: failures, cooldown"),
}
GENERAL: Mapping[str, str] = {
    "master_key": "keys are made anew: gw key create",
    "database_url": "accounts, keys and spend of that database are not read",
    "store_model_in_db": "models of the database are not read",
    **dict.fromkeys(("max_parallel_requests", "global_max_parallel_requests"), _LIMITS),
}
