"""Wires whose answers are vectors: embeddings, and their native form.

A vector follows from its text alone. The directive `usage` states the tokens.
"""

from __future__ import annotations

import base64
import struct
from hashlib import blake2b
from typing import Any, Final, Literal
from urllib.parse import unquote

import msgspec

from loadtests.simulator.ask import Ask, Refusal, decoder_of, given, many, shape, tokens_of
from loadtests.simulator.completions import Completion
from loadtests.simulator.dialects.base import Dialect, decode, encode
from loadtests.simulator.dialects.gemini import GeminiDialect
from loadtests.simulator.exchange import Exchange

DIMENSIONS: Final = 4
DIMENSIONS_MAX: Final = 3072

_embeddings = decoder_of(
    shape(
        model=str,
        input=str | list[str | int | list[int]],
        encoding_format=Literal["float", "base64"] | None,
        dimensions=int | None,
        sim=msgspec.Raw,
    )
)
_Content = shape(parts=list[dict[str, Any]])
_one = decoder_of(
    shape(content=_Content, model=str | None, outputDimensionality=int | None, sim=msgspec.Raw)
)
_batch = decoder_of(
    shape(
        requests=many(shape(content=_Content, model=str | None, outputDimensionality=int | None)),
        sim=msgspec.Raw,
    )
)


def _vector(text: str, dimensions: int | None) -> list[float]:
    count = DIMENSIONS if dimensions is None else dimensions
    if not 1 <= count <= DIMENSIONS_MAX:
        raise Refusal(400, f"Invalid dimensions: expected 1 to {DIMENSIONS_MAX}, got {count}.")
    digest = blake2b(text.encode()).digest()
    return [digest[place % len(digest)] / 256 for place in range(count)]


class EmbeddingsDialect(Dialect):
    """`POST /v1/embeddings`, also behind providers' own paths."""

    name = "embeddings"

    def read(self, exchange: Exchange) -> Ask:
        request = decode(_embeddings, exchange.body)
        stated = request.input
        texts = [stated] if isinstance(stated, str) or _is_tokens(stated) else stated
        vectors = [_vector(str(text), request.dimensions) for text in texts]
        return Ask(
            model=request.model,
            stream=False,
            input_tokens=tokens_of(sum(len(str(text)) for text in texts)),
            sim=given(request.sim),
            echoed={"vectors": vectors, "form": request.encoding_format or "float"},
        )

    def plain(self, ask: Ask, response: Completion) -> bytes:
        echoed = ask.echoed or {}
        is_packed = echoed["form"] == "base64"
        data = [
            {"object": "embedding", "index": place, "embedding": _packed(one) if is_packed else one}
            for place, one in enumerate(echoed["vectors"])
        ]
        whole: dict[str, Any] = {"object": "list", "data": data, "model": ask.model}
        if response.usage is not None:
            tokens = response.usage.input
            whole["usage"] = {"prompt_tokens": tokens, "total_tokens": tokens}
        return encode(whole)


def _is_tokens(stated: list[Any]) -> bool:
    return all(isinstance(one, int) for one in stated)


def _packed(vector: list[float]) -> str:
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


class NativeEmbeddingsDialect(GeminiDialect):
    """`POST /v1beta/models/{model}:embedContent` and `:batchEmbedContents`."""

    ACTIONS = (b":embedContent", b":batchEmbedContents")

    def read(self, exchange: Exchange) -> Ask:
        model, _, action = exchange.path.rpartition("/")[2].rpartition(":")
        model, is_batch = unquote(model), action == "batchEmbedContents"
        request = decode(_batch if is_batch else _one, exchange.body)
        requests = request.requests if is_batch else [request]
        for one in requests:
            if (one.model is None and is_batch) or one.model not in (None, f"models/{model}"):
                raise Refusal(400, f"* model: expected models/{model}, got {one.model}")
        texts = [str(one.content.parts) for one in requests]
        vectors = [
            _vector(text, one.outputDimensionality)
            for text, one in zip(texts, requests, strict=True)
        ]
        return Ask(
            model=model,
            stream=False,
            input_tokens=tokens_of(sum(map(len, texts))),
            sim=given(request.sim),
            echoed={"vectors": vectors, "is_batch": is_batch},
        )

    def plain(self, ask: Ask, response: Completion) -> bytes:
        echoed = ask.echoed or {}
        values = [{"values": one} for one in echoed["vectors"]]
        whole: dict[str, Any] = (
            {"embeddings": values} if echoed["is_batch"] else {"embedding": values[0]}
        )
        if response.usage is not None:
            whole["usageMetadata"] = {"promptTokenCount": response.usage.input}
        return encode(whole)
