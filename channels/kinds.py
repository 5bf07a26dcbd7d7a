"""Kinds of upstreams: the settings that `kind` implies for a channel, one row per kind.

`source` is the provider's own page. `read_on` is the day on which a copy of that documentation was
read for the row; None: the row is from other publications on the provider, and must still be
compared with the page. No row was tested on a live provider. A channel's own settings override the
row's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from channels.authorizers.specs import AWS_SIGV4, GOOGLE_SERVICE_ACCOUNT

READ_ON = "2026-11-22"
# Placeholders of a channel's region and project in addresses and paths.
REGION = "{region}"
PROJECT = "{project}"
_OPENAI_PREFIX = "/openai/v1"
_VERTEX_PUBLISHERS = f"/v1/projects/{PROJECT}/locations/{REGION}/publishers"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """One kind. `base_url` is empty if each account has its own.

    `key_refusals`: statuses with which it refuses a key or an account without balance, besides 401
    and 402, each with a text of the message that distinguishes it; `request_refusals`: likewise
    those that refuse a request's content with a status that elsewhere refuses a key.
    `variables`: the environment variables of its key, the usual one first; none if it needs no key.
    `url_variable`: the variable of its address, if each account has its own. `settings`: other keys
    of a channel that it needs, each with its variable. `ambient`: variables by which a provider's
    library finds credentials without a key.
    `models_path` lists its models to any holder of a key, free of charge; it is appended to
    `base_url`, with a replacement in the host (`models_host`).
    `by_model`: the protocol of models by a text in their upstream name, if the channel does not
    state its protocols. `regional`: addresses of regions whose host has another form. Address and
    paths may contain REGION and PROJECT. A kind whose `auth` needs more than a key also accepts a
    key, as bearer. `quirks`: differences of its protocol that an operator should know.
    `is_reseller`: it serves others' models, for which their own channels are preferred.
    """

    name: str
    source: str
    base_url: str = ""
    regional: Mapping[str, str] = field(default_factory=dict)
    protocols: tuple[str, ...]
    paths: Mapping[str, str] = field(default_factory=dict)
    auth: str | None = None
    query: tuple[tuple[str, str], ...] = ()
    tools: tuple[str, ...] = ()
    by_model: tuple[tuple[str, str], ...] = ()
    wire: Mapping[str, str] = field(default_factory=dict)
    max_tokens_param: str | None = None
    system_turns: str = "anywhere"
    prompt_cache_key: bool = False
    drop_billing_header: bool = False
    key_refusals: tuple[tuple[int, str], ...] = ()
    request_refusals: tuple[tuple[int, str], ...] = ()
    variables: tuple[str, ...] = ()
    url_variable: str = ""
    settings: tuple[tuple[str, str], ...] = ()
    ambient: tuple[str, ...] = ()
    models_path: str = "/v1/models"
    models_host: tuple[str, str] = ("", "")
    read_on: str | None = None
    quirks: str = ""
    is_reseller: bool = False


# Keys of a channel of the same names, which a kind fills in.
FILLED = (
    "protocols",
    "tools",
    "max_tokens_param",
    "system_turns",
    "prompt_cache_key",
    "drop_billing_header",
)

_ROWS = (
    Kind(
        name="openai",
        source="https://platform.openai.com/docs/api-reference",
        base_url="https://api.openai.com",
        protocols=(
            "chat",
            "responses",
            "images",
            "transcriptions",
            "moderations",
            "embeddings",
            "decisions",
        ),
        tools=("web_search", "image_generation"),
        max_tokens_param="max_completion_tokens",
        key_refusals=((429, "exceeded your current quota"),),
        variables=("OPENAI_API_KEY",),
        prompt_cache_key=True,
        quirks="max_tokens is refused by its reasoning models",
    ),
    Kind(
        name="azure-openai",
        source="https://learn.microsoft.com/azure/ai-foundry/openai/api-version-lifecycle",
        read_on=READ_ON,
        protocols=("chat", "responses", "embeddings"),
        paths={
            "chat": f"{_OPENAI_PREFIX}/chat/completions",
            "responses": f"{_OPENAI_PREFIX}/responses",
            "embeddings": f"{_OPENAI_PREFIX}/embeddings",
        },
        auth="api-key",
        max_tokens_param="max_completion_tokens",
        variables=("AZURE_OPENAI_API_KEY",),
        url_variable="AZURE_OPENAI_ENDPOINT",
        models_path=f"{_OPENAI_PREFIX}/models",
        prompt_cache_key=True,
        quirks="base_url is https://RESOURCE.openai.azure.com; models are names of deployments",
    ),
    Kind(
        name="azure-openai-deployments",
        source="https://learn.microsoft.com/azure/ai-services/openai/reference",
        protocols=("chat", "embeddings"),
        paths={
            "chat": "/openai/deployments/{model}/chat/completions",
            "embeddings": "/openai/deployments/{model}/embeddings",
        },
        auth="api-key",
        query=(("api-version", "2024-10-21"),),
        max_tokens_param="max_completion_tokens",
        variables=("AZURE_API_KEY",),
        url_variable="AZURE_API_BASE",
        models_path="/openai/models",
        prompt_cache_key=True,
        quirks="the older API: the deployment is in the path, api-version must be there",
    ),
    Kind(
        name="anthropic",
        source="https://docs.claude.com/en/api/messages",
        base_url="https://api.anthropic.com",
        protocols=("messages",),
        key_refusals=((400, "credit balance is too low"),),
        variables=("ANTHROPIC_API_KEY",),
        quirks="an account without balance is a 400, a busy server a 529",
    ),
    Kind(
        name="gemini",
        source="https://ai.google.dev/api/generate-content",
        base_url="https://generativelanguage.googleapis.com",
        protocols=("native",),
        key_refusals=((400, "API key not valid"), (400, "API key expired"), (403, "leaked")),
        request_refusals=((403, "access the File"), (403, "CachedContent")),
        variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
        models_path="/v1beta/models",
        quirks="a wrong key is a 400; when to come back after a 429 stands in its body",
    ),
    Kind(
        name="vertex",
        source="https://cloud.google.com/vertex-ai/generative-ai/docs/partner-models/claude/use-claude",
        read_on=READ_ON,
        base_url=f"https://{REGION}-aiplatform.googleapis.com",
        regional={
            "global": "https://aiplatform.googleapis.com",
            "us": "https://aiplatform.us.rep.googleapis.com",
            "eu": "https://aiplatform.eu.rep.googleapis.com",
        },
        protocols=("native", "messages"),
        by_model=(("claude", "messages"), ("", "native")),
        paths={
            "native": f"{_VERTEX_PUBLISHERS}/google/models/{{model}}",
            "messages": f"{_VERTEX_PUBLISHERS}/anthropic/models/{{model}}",
        },
        wire={"messages": "vertex"},
        auth=GOOGLE_SERVICE_ACCOUNT,
        request_refusals=((403, "storage.objects"), (403, "CachedContent")),
        settings=(("project", "GOOGLE_CLOUD_PROJECT"), ("region", "GOOGLE_CLOUD_LOCATION")),
        ambient=("GOOGLE_APPLICATION_CREDENTIALS",),
        models_path="/v1beta1/publishers/google/models",
        drop_billing_header=True,
        quirks="gemini on native-content, claude on messages, whose names may end in @ and a date",
    ),
    Kind(
        name="bedrock",
        source="https://docs.aws.amazon.com/bedrock/latest/APIReference/"
        "API_runtime_InvokeModelWithResponseStream.html",
        read_on=READ_ON,
        base_url=f"https://bedrock-runtime.{REGION}.amazonaws.com",
        protocols=("messages",),
        paths={"messages": "/model/{model}"},
        wire={"messages": "bedrock"},
        auth=AWS_SIGV4,
        variables=("AWS_BEARER_TOKEN_BEDROCK",),
        settings=(("region", "AWS_REGION"),),
        ambient=("AWS_ACCESS_KEY_ID", "AWS_PROFILE"),
        models_path="/foundation-models",
        models_host=("://bedrock-runtime.", "://bedrock."),
        drop_billing_header=True,
        quirks="claude by invoke and invoke-with-response-stream, other models by Converse, told "
        "apart by their name (wire: {messages: converse} has all of them so); models are ids with "
        "a version, inference profiles or their ARNs; signed, or with an api_key as bearer",
    ),
    Kind(
        name="deepseek",
        source="https://api-docs.deepseek.com/guides/anthropic_api",
        read_on=READ_ON,
        base_url="https://api.deepseek.com",
        protocols=("chat", "messages"),
        paths={"messages": "/anthropic/v1/messages"},
        max_tokens_param="max_tokens",
        variables=("DEEPSEEK_API_KEY",),
        drop_billing_header=True,
        quirks="cached tokens are prompt_cache_hit_tokens; thinking is reasoning_content; on "
        "messages an unknown model is served by another",
    ),
    Kind(
        name="groq",
        source="https://console.groq.com/docs/openai",
        base_url="https://api.groq.com/openai",
        protocols=("chat", "responses"),
        wire={"chat": "groq"},
        max_tokens_param="max_completion_tokens",
        variables=("GROQ_API_KEY",),
        quirks="usage of a stream may be in x_groq; thoughts of other providers in the history are "
        "refused and stay behind; its own are reasoning",
    ),
    Kind(
        name="openrouter",
        source="https://openrouter.ai/docs/api-reference/overview",
        base_url="https://openrouter.ai/api",
        protocols=("chat", "responses", "messages", "embeddings"),
        auth="bearer",
        request_refusals=((403, "requires moderation"), (403, "was flagged")),
        variables=("OPENROUTER_API_KEY",),
        is_reseller=True,
        drop_billing_header=True,
        quirks="models are vendor/name; comments keep a waiting stream open",
    ),
    Kind(
        name="mistral",
        source="https://docs.mistral.ai/api",
        base_url="https://api.mistral.ai",
        protocols=("chat", "embeddings"),
        wire={"chat": "mistral"},
        max_tokens_param="max_tokens",
        variables=("MISTRAL_API_KEY",),
        quirks="members that it does not document are refused, so stream_options and user stay "
        "behind, seed is random_seed, and ids of tool calls become nine letters and digits; "
        "thinking is a part of the content",
    ),
    Kind(
        name="xai",
        source="https://docs.x.ai/docs/api-reference",
        read_on=READ_ON,
        base_url="https://api.x.ai",
        protocols=("chat", "responses", "messages"),
        auth="bearer",
        key_refusals=((400, "Incorrect API key"), (403, "any credits")),
        request_refusals=((403, "usage guidelines"),),
        variables=("XAI_API_KEY",),
        drop_billing_header=True,
        quirks="reasoning tokens come on top of completion_tokens; a wrong key is a 400; stop and "
        "penalties are refused by its reasoning models",
    ),
    Kind(
        name="together",
        source="https://docs.together.ai/docs/openai-api-compatibility",
        base_url="https://api.together.xyz",
        protocols=("chat", "embeddings"),
        max_tokens_param="max_tokens",
        request_refusals=((403, "context length"),),
        variables=("TOGETHER_API_KEY",),
        quirks="a prompt that is too long is a 403",
    ),
    Kind(
        name="fireworks",
        source="https://docs.fireworks.ai/tools-sdks/anthropic-compatibility",
        read_on=READ_ON,
        base_url="https://api.fireworks.ai/inference",
        protocols=("chat", "responses", "messages", "embeddings"),
        auth="bearer",
        wire={"chat": "fireworks"},
        max_tokens_param="max_tokens",
        key_refusals=((412, "suspended"),),
        variables=("FIREWORKS_API_KEY",),
        drop_billing_header=True,
        quirks="models are accounts/fireworks/models/NAME; an account at its limit is a 412; "
        "thoughts in the history are taken as reasoning_content alone",
    ),
    Kind(
        name="zhipu",
        source="https://docs.bigmodel.cn/cn/api/introduction",
        base_url="https://open.bigmodel.cn",
        protocols=("chat", "messages", "embeddings"),
        paths={
            "chat": "/api/paas/v4/chat/completions",
            "messages": "/api/anthropic/v1/messages",
            "embeddings": "/api/paas/v4/embeddings",
        },
        max_tokens_param="max_tokens",
        key_refusals=((429, "欠费"), (429, "Insufficient balance")),
        variables=("ZHIPUAI_API_KEY", "ZAI_API_KEY"),
        models_path="/api/paas/v4/models",
        drop_billing_header=True,
        quirks="for accounts of z.ai say base_url: https://api.z.ai; an unpaid bill is a 429, an "
        "unknown model a 400",
    ),
    Kind(
        name="ark",
        source="https://www.volcengine.com/docs/82379/1298454",
        base_url="https://ark.cn-beijing.volces.com",
        protocols=("chat", "responses", "images", "videos"),
        paths={
            "chat": "/api/v3/chat/completions",
            "responses": "/api/v3/responses",
            "images": "/api/v3/images/generations",
        },
        wire={"videos": "ark"},
        max_tokens_param="max_tokens",
        key_refusals=((403, "overdue balance"),),
        variables=("ARK_API_KEY",),
        models_path="/api/v3/models",
        quirks="models are names, or ep-… of an endpoint; an unpaid bill is a 403, a busy "
        "server a 429",
    ),
    Kind(
        name="dashscope",
        source="https://help.aliyun.com/zh/model-studio/compatibility-of-openai-with-dashscope",
        base_url="https://dashscope.aliyuncs.com/compatible-mode",
        protocols=("chat", "embeddings"),
        max_tokens_param="max_tokens",
        system_turns="first",
        key_refusals=((400, "good standing"),),
        variables=("DASHSCOPE_API_KEY",),
        quirks="abroad say base_url: https://dashscope-intl.aliyuncs.com/compatible-mode; an "
        "unpaid bill is a 400",
    ),
    Kind(
        name="moonshot",
        source="https://platform.moonshot.ai/docs/api/chat",
        base_url="https://api.moonshot.ai",
        protocols=("chat", "messages"),
        paths={"messages": "/anthropic/v1/messages"},
        auth="bearer",
        max_tokens_param="max_tokens",
        key_refusals=((429, "plan and billing"),),
        variables=("MOONSHOT_API_KEY",),
        prompt_cache_key=True,
        drop_billing_header=True,
        quirks="in China say base_url: https://api.moonshot.cn; usage of a stream is in its choice",
    ),
    Kind(
        name="minimax",
        source="https://platform.minimax.io/docs/api-reference/text-anthropic-api",
        read_on=READ_ON,
        base_url="https://api.minimax.io",
        protocols=("chat", "responses", "messages", "speech"),
        paths={"messages": "/anthropic/v1/messages"},
        auth="bearer",
        wire={"speech": "minimax"},
        key_refusals=((429, "insufficient balance"),),
        variables=("MINIMAX_API_KEY",),
        drop_billing_header=True,
        quirks="in China say base_url: https://api.minimaxi.com; on chat its models think inside "
        "<think>, on messages in blocks of their own; chat may refuse in base_resp of a 200",
    ),
    Kind(
        name="siliconflow",
        source="https://docs.siliconflow.cn/cn/docs/api/messages-post",
        read_on=READ_ON,
        base_url="https://api.siliconflow.com",
        protocols=("chat", "messages", "embeddings"),
        auth="bearer",
        max_tokens_param="max_tokens",
        key_refusals=((403, "balance is insufficient"),),
        variables=("SILICONFLOW_API_KEY",),
        drop_billing_header=True,
        quirks="in China say base_url: https://api.siliconflow.cn; an unknown model is a 400, an "
        "empty account a 403",
    ),
    Kind(
        name="ollama",
        source="https://docs.ollama.com/api/openai-compatibility",
        read_on=READ_ON,
        base_url="http://127.0.0.1:11434",
        protocols=("chat", "responses", "messages", "embeddings"),
        auth="none",
        max_tokens_param="max_tokens",
        system_turns="first",
        drop_billing_header=True,
        quirks="its cloud: base_url: https://ollama.com, auth: bearer and an api_key; cached "
        "tokens are not told",
    ),
    Kind(
        name="vllm",
        source="https://docs.vllm.ai/en/stable/serving/online_serving",
        read_on=READ_ON,
        base_url="http://127.0.0.1:8000",
        protocols=("chat", "responses", "messages", "embeddings"),
        auth="none",
        system_turns="first",
        drop_billing_header=True,
        quirks="started with --api-key: auth: bearer and that key as api_key",
    ),
    Kind(
        name="llama.cpp",
        source="https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md",
        base_url="http://127.0.0.1:8080",
        protocols=("chat", "messages", "embeddings"),
        auth="none",
        max_tokens_param="max_tokens",
        system_turns="first",
        drop_billing_header=True,
        quirks="started with --api-key: auth: bearer and that key as api_key; one model under any "
        "name, cached tokens are not told",
    ),
    Kind(
        name="gateway",
        source="ops/reference/README.md",
        protocols=(
            *("chat", "messages", "responses", "native", "images", "videos", "music", "speech"),
            *("voices", "transcripts", "avatars", "clips", "transcriptions", "rerank"),
            *("moderations", "embeddings", "decisions"),
        ),
        tools=("web_search", "image_generation"),
        variables=("GATEWAY_API_KEY",),
        is_reseller=True,
        url_variable="GATEWAY_URL",
        prompt_cache_key=True,
        quirks="another of these gateways; its models name themselves as they do there; a task "
        "that is cancelled here goes on there, and is paid for",
    ),
)

KINDS: Mapping[str, Kind] = MappingProxyType({row.name: row for row in _ROWS})
