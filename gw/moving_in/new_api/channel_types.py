"""Channel types of new-api by number, with their kinds of channel and addresses.

(https://github.com/QuantumNous/new-api, constant/channel.go.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ChannelType:
    """One channel type. `kind`: empty for chat at an address.

    `base_url`: new-api's address, if it differs from the kind's; `suffix`: the end of the kind's
    address that new-api's lacks.
    """

    name: str
    kind: str
    base_url: str = ""
    suffix: str = ""


TYPES: Mapping[int, ChannelType] = {
    1: ChannelType("OpenAI", "openai"),
    3: ChannelType("Azure", "azure-openai-deployments"),
    4: ChannelType("Ollama", "ollama", "http://localhost:11434"),
    6: ChannelType("OpenAIMax", "", "https://api.openaimax.com"),
    7: ChannelType("OhMyGPT", "", "https://api.ohmygpt.com"),
    8: ChannelType("Custom", ""),
    10: ChannelType("AIProxy", "", "https://api.aiproxy.io"),
    12: ChannelType("API2GPT", "", "https://api.api2gpt.com"),
    13: ChannelType("AIGC2D", "", "https://api.aigc2d.com"),
    14: ChannelType("Anthropic", "anthropic"),
    17: ChannelType("Ali", "dashscope", "", "/compatible-mode"),
    20: ChannelType("OpenRouter", "openrouter"),
    24: ChannelType("Gemini", "gemini"),
    25: ChannelType("Moonshot", "moonshot", "https://api.moonshot.cn"),
    26: ChannelType("ZhipuV4", "zhipu"),
    31: ChannelType("LingYiWanWu", "", "https://api.lingyiwanwu.com"),
    35: ChannelType("MiniMax", "minimax", "https://api.minimax.chat"),
    40: ChannelType("SiliconFlow", "siliconflow", "https://api.siliconflow.cn"),
    42: ChannelType("Mistral", "mistral"),
    43: ChannelType("DeepSeek", "deepseek"),
    45: ChannelType("VolcEngine", "ark"),
    47: ChannelType("Xinference", ""),
    48: ChannelType("xAI", "xai"),
    53: ChannelType("Submodel", "", "https://llm.submodel.ai"),
}
# Names of unsupported types, for reports.
OTHERS: Mapping[int, str] = {
    2: "Midjourney",
    5: "MidjourneyPlus",
    15: "Baidu",
    16: "Zhipu",
    18: "Xunfei",
    23: "Tencent",
    27: "Perplexity",
    34: "Cohere",
    36: "SunoAPI",
    37: "Dify",
    38: "Jina",
    39: "Cloudflare",
    46: "BaiduV2",
    49: "Coze",
    50: "Kling",
    51: "Jimeng",
    52: "Vidu",
    54: "DoubaoVideo",
    55: "Sora",
    56: "Replicate",
    57: "Codex",
}
# Types with a kind, but with credentials of another form in new-api: what the operator must do.
BY_HAND: Mapping[int, str] = {
    33: "AWS: its key is an access key, a secret and a region in one; write a channel of kind "
    "bedrock with region, and credentials or an api_key",
    41: "VertexAI: its key is the file of a service account; save it, and write a channel of kind "
    "vertex with project, region and credentials: {file: …}",
}
