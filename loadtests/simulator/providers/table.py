"""Every provider that a port can play, by the `kind` of the channels that speak to it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from loadtests.simulator.providers.groq import GROQ
from loadtests.simulator.providers.model import Provider
from loadtests.simulator.providers.openai import OPENAI

PROVIDERS: Mapping[str, Provider] = MappingProxyType({row.name: row for row in (OPENAI, GROQ)})
