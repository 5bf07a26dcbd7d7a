"""The media dialects by their names in a channel's `wire`."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from channels.media.ark import Ark
from channels.media.minimax import MiniMax
from channels.media.model import MediaDialect
from channels.media.openai import OpenAI
from channels.media.plain.dialect import Plain
from channels.media.shanjian.dialect import Shanjian
from channels.media.suno import Suno

_ALL: tuple[MediaDialect, ...] = (Plain(), Ark(), OpenAI(), Suno(), MiniMax(), Shanjian())

DIALECTS: Mapping[str, MediaDialect] = MappingProxyType({dialect.name: dialect for dialect in _ALL})
