"""Every provider that a port can play, by the `kind` of the channels that speak to it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from loadtests.simulator.providers.anthropic import ANTHROPIC
from loadtests.simulator.providers.deepseek import DEEPSEEK
from loadtests.simulator.providers.fireworks import FIREWORKS
from loadtests.simulator.providers.gemini import GEMINI
from loadtests.simulator.providers.groq import GROQ
from loadtests.simulator.providers.mistral import MISTRAL
from loadtests.simulator.providers.model import Provider
from loadtests.simulator.providers.openai import OPENAI
from loadtests.simulator.providers.openrouter import OPENROUTER
from loadtests.simulator.providers.together import TOGETHER
from loadtests.simulator.providers.xai import XAI

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
        )
    }
)
