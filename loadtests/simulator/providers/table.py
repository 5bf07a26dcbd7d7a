"""Every provider that a port can play, by the `kind` of the channels that speak to it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from loadtests.simulator.providers.anthropic import ANTHROPIC
from loadtests.simulator.providers.ark import ARK
from loadtests.simulator.providers.azure_openai import AZURE_OPENAI, AZURE_OPENAI_DEPLOYMENTS
from loadtests.simulator.providers.dashscope import DASHSCOPE
from loadtests.simulator.providers.deepseek import DEEPSEEK
from loadtests.simulator.providers.fireworks import FIREWORKS
from loadtests.simulator.providers.gateway import GATEWAY
from loadtests.simulator.providers.gemini import GEMINI
from loadtests.simulator.providers.groq import GROQ
from loadtests.simulator.providers.llama_cpp import LLAMA_CPP
from loadtests.simulator.providers.minimax import MINIMAX
from loadtests.simulator.providers.mistral import MISTRAL
from loadtests.simulator.providers.model import Provider
from loadtests.simulator.providers.moonshot import MOONSHOT
from loadtests.simulator.providers.ollama import OLLAMA
from loadtests.simulator.providers.openai import OPENAI
from loadtests.simulator.providers.openrouter import OPENROUTER
from loadtests.simulator.providers.siliconflow import SILICONFLOW
from loadtests.simulator.providers.together import TOGETHER
from loadtests.simulator.providers.vllm import VLLM
from loadtests.simulator.providers.xai import XAI
from loadtests.simulator.providers.zhipu import ZHIPU

PROVIDERS: Mapping[str, Provider] = MappingProxyType(
    {
        row.name: row
        for row in (
            OPENAI,
            ANTHROPIC,
            GEMINI,
            DEEPSEEK,
            GROQ,
            OPENROUTER,
            MISTRAL,
            XAI,
            TOGETHER,
            FIREWORKS,
            ZHIPU,
            ARK,
            DASHSCOPE,
            MOONSHOT,
            MINIMAX,
            SILICONFLOW,
            OLLAMA,
            VLLM,
            LLAMA_CPP,
            AZURE_OPENAI,
            AZURE_OPENAI_DEPLOYMENTS,
            GATEWAY,
        )
    }
)
